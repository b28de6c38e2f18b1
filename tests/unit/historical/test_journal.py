"""The journal of a historical: what was written is read, whatever a power cut or time does to single lines."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.errors import Corrupt, Invalid, Unavailable
from carnac.historical.journal import (
    SLACK_LINES,
    Assigned,
    Contents,
    Fenced,
    Format,
    Journal,
    Line,
    Loaded,
    Unassigned,
)
from tests.support.historicals import STORE_ID

IDS = st.sampled_from(["a", "b", "c"])
LINES = st.one_of(
    IDS.map(lambda one: Assigned(one, "events", f"x/{one}", 3, "sha256:00")),
    st.builds(Loaded, IDS, st.integers(0, 3), st.integers(0, 2**62)),
    IDS.map(Unassigned),
    st.integers(0, 9).map(Fenced),
)


def comes_to(lines: list[Line]) -> Contents:
    contents = Contents()
    for line in lines:
        contents.add(line)
    return contents


def same(one: Contents, other: Contents) -> bool:
    return (list(one.assigned.items()), one.loaded, one.order) == (
        list(other.assigned.items()),
        other.loaded,
        other.order,
    )


@settings(max_examples=max(20, settings.default.max_examples // 5))  # each waits for the disk
@given(st.lists(st.lists(LINES, min_size=1), max_size=6), st.integers(0, 200))
def test_a_cut_at_any_byte_leaves_a_beginning_of_what_was_said(
    tmp_path_factory: pytest.TempPathFactory, calls: list[list[Line]], cut: int
) -> None:
    path = tmp_path_factory.mktemp("j") / "journal"
    journal = Journal(path, STORE_ID)
    for lines in calls:
        journal.append(lines)
    journal.close()
    said = [line for lines in calls for line in lines]
    whole = path.read_bytes()
    path.write_bytes(whole[: max(len(whole) - cut, 0)])
    again = Journal(path, STORE_ID)
    again.append([Fenced(99)])
    again.close()
    kept = Journal(path, STORE_ID).contents
    assert kept.order == (99, 0)
    kept.order = (0, 0)
    beginnings = [comes_to(said[:number]) for number in range(len(said) + 1)]
    for one in beginnings:
        one.order = (0, 0)
    assert any(same(kept, one) for one in beginnings)
    if not cut:
        assert same(kept, beginnings[-1])


def test_a_line_that_rots_is_passed_over_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, STORE_ID)
    records = [Assigned(f"s{i}", "events", f"x/{i}", 3, "sha256:00") for i in range(50)]
    journal.append(records)
    journal.close()
    data = bytearray(path.read_bytes())
    spoiled = random.Random(1).randrange(200, len(data) - 200)
    data[spoiled] ^= 4
    path.write_bytes(bytes(data))
    kept = Journal(path, STORE_ID).contents.assigned
    assert 48 <= len(kept) <= 49
    assert all(kept[one] in records for one in kept)


def test_it_is_written_anew_when_most_of_it_is_past(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, STORE_ID)
    record = Assigned("a", "events", "x/a", 3, "sha256:00")
    for _ in range(10):
        journal.append([record, Unassigned("a")] * (SLACK_LINES // 10))
    journal.append([record, Loaded("a"), Fenced(4, 2)])
    journal.close()
    assert len(path.read_bytes().splitlines()) < 1.5 * SLACK_LINES
    again = Journal(path, STORE_ID)
    assert (again.contents.assigned, again.contents.loaded) == ({"a": record}, {"a": Loaded("a")})
    assert again.contents.order == (4, 2)


def test_a_full_disk_is_told_and_what_comes_later_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, STORE_ID)
    real = os.write

    def full(file: int, text: bytes) -> int:
        real(file, text[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("carnac.historical.journal.os.write", full)
        with pytest.raises(Unavailable, match="no space left"):
            journal.append([Fenced(3)])
    assert journal.contents.order == (0, 0)
    journal.append([Fenced(5)])
    assert Journal(path, STORE_ID).contents.order == (5, 0)


def test_that_of_a_newer_carnac_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, STORE_ID)
    journal.append([Format(2)])
    before = path.read_bytes()
    with pytest.raises(Corrupt, match="format 2, newer than 1"):
        Journal(path, STORE_ID)
    assert path.read_bytes() == before


def test_a_folder_is_one_store_s_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, STORE_ID)
    journal.append([Assigned("a", "events", "x/a", 3, "sha256:00")])
    journal.close()
    before = path.read_bytes()
    with pytest.raises(
        Invalid, match=r"has segments of store store1, and this historical serves store other; give"
    ):
        Journal(path, "other")
    assert path.read_bytes() == before
    Journal(path, STORE_ID).close()


def test_whose_folder_it_is_outlives_a_journal_that_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, STORE_ID)
    for _ in range(SLACK_LINES + 10):
        journal.append([Fenced(1)])
    assert journal.contents.lines < SLACK_LINES
    journal.close()
    with pytest.raises(Invalid, match="of store store1"):
        Journal(path, "other")
