"""Loads that are the next part of a source: what a caller who reads one by himself sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import carnac
from carnac import AllRejected, Conflict, Invalid, OffsetRange, Store

SPEC = {
    "dataSource": "edits",
    "timestampSpec": {"column": "time"},
    "dimensions": ["page"],
    "granularitySpec": {"segmentGranularity": "day"},
}
ROW = {"time": "2024-03-04T09:00:00Z", "page": "Menhir"}
BAD = {"time": "noon", "page": "Menhir"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with carnac.open(tmp_path / "store", create=True) as opened:
        yield opened


def part(start: str | None, end: str, writer: str = "w") -> OffsetRange:
    return OffsetRange(writer=writer, start={} if start is None else {"s": start}, end={"s": end})


def test_parts_of_a_source_are_appended_one_after_the_other(store: Store) -> None:
    assert store.append("edits", [ROW], spec=SPEC, offsets=part(None, "1")).revision == 1
    assert store.append("edits", [ROW, ROW], offsets=part("1", "3")).revision == 2
    assert store.position("w") == {"s": "3"}
    (one,) = store.positions()
    assert (one.writer, one.source, one.before, one.revision) == ("w", "s", "1", 2)
    assert "offset" in repr(one)


def test_a_part_is_there_once_and_nothing_is_read_for_one_that_does_not_fit(store: Store) -> None:
    store.append("edits", [ROW], spec=SPEC, offsets=part(None, "1"))
    store.append("edits", [ROW], offsets=part("1", "2"))
    again = store.append("edits", [ROW], offsets=part("1", "2"))
    assert (again.is_replay, again.revision) == (True, 2)
    with pytest.raises(Conflict, match="from 1 to 2, and this range starts from 1; nothing was"):
        store.append("edits", [ROW], offsets=part("1", "3"))
    assert store.sql("SELECT count(*) AS n FROM edits").rows() == [{"n": 2}]


def test_a_part_without_rows_moves_the_position_all_the_same(store: Store) -> None:
    store.append("edits", [ROW], spec=SPEC, offsets=part(None, "1"))
    store.append("edits", [], offsets=part("1", "4"))
    nothing = {**SPEC, "transformSpec": {"filter": "page = 'Dolmen'"}}
    done = store.append("edits", [ROW], spec=nothing, offsets=part("4", "5"))
    assert (done.revision, done.segments_added) == (3, 0)
    assert store.position("w") == {"s": "5"}
    assert store.log()[0].offsets == {"s": "5"}
    assert store.check() == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "bad", [BAD, {"time": "", "page": "Menhir"}], ids=["no-instant", "no-time"]
)
def test_a_part_that_nobody_can_read_is_passed_if_the_spec_allows_it(
    store: Store, bad: dict[str, str]
) -> None:
    store.append("edits", [ROW], spec=SPEC, offsets=part(None, "1"))
    with pytest.raises(AllRejected):
        store.append("edits", [bad], spec=SPEC, offsets=part("1", "2"))
    assert store.position("w") == {"s": "1"}
    allowing = {**SPEC, "tuningConfig": {"maxParseExceptions": 1}}
    with pytest.raises(AllRejected):
        store.append("edits", [bad], spec=allowing)
    done = store.append("edits", [bad], spec=allowing, offsets=part("1", "2"))
    assert done.report is not None
    assert (done.revision, done.report.rejected.count) == (2, 1)
    assert done.report.rejected.path is not None
    with pytest.raises(Invalid, match="allows 1"):
        store.append("edits", [bad, bad], spec=allowing, offsets=part("2", "4"))
    assert store.position("w") == {"s": "2"}


def test_rows_go_and_the_position_stays(store: Store) -> None:
    store.append("edits", [ROW], spec=SPEC, offsets=part(None, "1"))
    store.revert(1)
    assert store.position("w") == {"s": "1"}
    again = OffsetRange(writer="w", start={"s": "1"}, end={"s": ""})
    assert store.move_position(again, message="read it again").revision == 3
    assert store.position("w") == {}
    assert store.append("edits", [ROW], offsets=part(None, "1")).revision == 4
    assert store.check() == ()


def test_a_move_starts_where_the_writer_stands(store: Store) -> None:
    store.move_position(part(None, "7"))
    with pytest.raises(Conflict, match="commit 1 moved writer 'w' in 's' from nowhere to 7"):
        store.move_position(part("6", "8"))


def test_a_spec_may_name_the_batch_too(store: Store) -> None:
    spec = {**SPEC, "writer": "w", "batch": "b"}
    store.append("edits", [ROW], spec=spec, writer="w", batch="b", offsets=part(None, "1"))
    assert store.append("edits", [ROW], writer="w", batch="b", offsets=part("1", "2")).is_replay
    with pytest.raises(Invalid, match="names writer 'w', and the offsets are of 'v'"):
        store.append("edits", [ROW], writer="w", batch="c", offsets=part(None, "1", "v"))


def test_what_no_log_can_keep_is_refused() -> None:
    with pytest.raises(Invalid, match="offset 's' holds a control character"):
        part(None, "\0")
    with pytest.raises(Invalid, match="the name of a writer"):
        part(None, "1", "\n")
    with pytest.raises(Invalid, match="offset 's' is 17; write name and offset as texts"):
        OffsetRange(writer="w", end={"s": 17})  # type: ignore[dict-item]
    with pytest.raises(Invalid, match="offsets are a mapping"):
        OffsetRange(writer="w", end="17")  # type: ignore[arg-type]
