"""`simulate cluster`: what a user sees, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from carnac.cli import main
from carnac.cli.commands.simulate import EXIT_VIOLATED
from carnac.errors import Invalid
from scripts.bugs import BUGS, planted

COMMAND = ["simulate", "cluster", "--steps", "1"]
DOCUMENT = ("seed", "digest", "simulated_ms", "revisions", "answers", "violations")


def _document(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    (seed,) = json.loads(capsys.readouterr().out)["seeds"]
    assert tuple(seed) == DOCUMENT
    return dict(seed)


def test_a_seed_says_what_came_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--seed", "3"]) == 0
    told = capsys.readouterr().out
    assert "none" in told
    assert main([*COMMAND, "--seed", "3", "--json"]) == 0
    document = _document(capsys)
    assert str(document["digest"]) in told
    assert document["violations"] == []


def test_the_trace_ends_where_the_simulation_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, again = tmp_path / "first.txt", tmp_path / "again.txt"
    for path in (first, again):
        assert main([*COMMAND, "--seed", "3", "--trace", str(path), "--json"]) == 0
    lines = first.read_text().splitlines()
    assert lines == again.read_text().splitlines()
    assert any("database: commit" in line for line in lines)
    last_ms = int(lines[-1].split()[0])
    documents = capsys.readouterr().out
    assert (
        last_ms <= json.loads(documents[: documents.index("\n}") + 2])["seeds"][0]["simulated_ms"]
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--faults", "rust"], "no kind of fault 'rust'"),
        (["--seeds", "2", "--trace", "t.txt"], "leave --seeds out"),
        (["--trace", "/dev"], "/dev is a folder"),
        (["--seed", "-1"], "--seed"),
        (["--seed", "seven"], "valid integer"),
        (["--seeds", "0"], "--seeds"),
        (["--steps", "0"], "--steps"),
    ],
)
def test_what_is_wrong_is_told(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, *options]) == Invalid.exit_code
    shown = capsys.readouterr()
    assert told in shown.err
    assert not shown.out


@pytest.mark.slow
def test_a_violation_ends_the_search_with_its_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (bug,) = (one for one in BUGS if one.name == "half-a-delete")
    with planted(bug):
        assert main(["simulate", "cluster", "--steps", "6", "--seeds", "20"]) == EXIT_VIOLATED
    told = capsys.readouterr().out
    again = told[told.index("again: carnac ") :].splitlines()[0].split()[2:]
    with planted(bug):
        assert main([*again[:-2], "--json"]) == EXIT_VIOLATED
    document = _document(capsys)
    assert str(document["digest"]) in told
