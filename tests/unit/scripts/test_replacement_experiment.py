"""What the experiment of replacements says: a table, a document, a picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.replacement import Death, Replacement, Way, simulate, simulate_all
from benchmarks.replacement.__main__ import main
from benchmarks.replacement.picture import draw_replacements
from carnac.errors import Invalid


def test_the_table_has_a_line_for_each_way_and_moment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    told = capsys.readouterr().out
    assert all(told.count(death.value) >= len(Way) for death in Death)


@pytest.mark.slow
def test_the_document_says_every_second_and_where_the_picture_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "replacement.svg"
    assert main(["--json", "--out", str(picture)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["picture"] == str(picture)
    assert picture.read_bytes().startswith(b"<svg")
    seconds = Replacement().seconds
    assert [len(one["seconds"]) for one in document["courses"]] == [seconds] * 9


def test_a_picture_that_cannot_be_drawn_is_refused_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--out", "replacement.bmp"]) == Invalid.exit_code
    assert ".svg" in capsys.readouterr().err


def test_letters_of_one_second_stand_side_by_side() -> None:
    drawn = str(draw_replacements(simulate_all(Replacement())))
    assert "'d†'" in drawn


def test_too_few_seconds_are_refused_in_a_sentence() -> None:
    with pytest.raises(Invalid, match="too few"):
        simulate(Replacement(seconds=9), Way.COLD, Death.LOADING)
