"""How SQLite plans statements: once, whatever their parameters are, and by the indexes that they are meant for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.metadata import open_metadata
from carnac.metadata.backends.sqlite_driver import connect
from carnac.metadata.backends.sqlite_log import FRAME_BYTES
from carnac.metadata.schema.layout import layout
from carnac.metadata.session import SQLITE, Session
from carnac.metadata.sql import queries, statements, trimming
from carnac.metadata.sql.dialects import Statement
from tests.logs import append, segment

SPAN = "2013-01-01T05/2013-01-01T06"


def test_a_statement_is_prepared_once_though_its_parameters_bound_a_range(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    open_metadata(f"sqlite:///{path}", clock=SystemClock(), ids=RandomIds()).close()
    planned: list[object] = []

    def note(*what: object) -> int:
        planned.append(what)
        return apsw.SQLITE_OK

    with closing(connect(path, ())) as connection:
        connection.authorizer = note  # asked about all that a statement reads, when it is prepared
        session = Session(connection, SQLITE)
        session.rows(statements.CHUNKS_LIVE_OVER, datasource_id=1, start_ms=0, end_ms=1)
        once = len(planned)
        session.rows(statements.CHUNKS_LIVE_OVER, datasource_id=1, start_ms=1, end_ms=2)
    assert len(planned) == once > 0


def planned(stated: Statement) -> list[str]:
    """The steps of a statement's plan in an empty store."""
    connection = apsw.Connection(":memory:")
    connection.execute(layout(SQLITE))
    text = f"EXPLAIN QUERY PLAN {stated.sqlite.text}"
    rows = connection.execute(text, (1,) * len(stated.sqlite.names))
    return [str(row[3]) for row in rows]


@pytest.mark.parametrize(
    "stated",
    [
        statements.LIVE_ENTRIES_OF_SEGMENTS,
        statements.DROPPED_BY,
        statements.LIVES_AFTER,
        statements.LIVE_SEGMENT_KEYS,
        queries.KEPT_SINCE,
        trimming.LIVES_OF,
        trimming.LIVE_AMONG,
    ],
)
def test_entries_of_a_segment_are_found_by_its_key(stated: Statement) -> None:
    """Those with the segment's own key are in no index by segment; all of a datasource's are too many."""
    lines = planned(stated)
    assert any("entries USING INTEGER PRIMARY KEY (rowid=?)" in line for line in lines)
    assert any("entries USING INDEX entries_by_segment" in line for line in lines)
    assert not any("entries_live" in line or "entries_gone" in line for line in lines)


@pytest.mark.parametrize(
    "stated",
    [
        queries.ADDED_SEGMENTS,
        queries.LIVE_SEGMENTS,
        statements.LIVE_ENTRIES_OF_CHUNK,
        statements.LIVE_IDS_OF_CHUNK,
        statements.LIVE_SUMMARY,
        statements.SETTLE_ENTRIES,
        statements.UNSETTLED_CHUNKS,
        statements.UNSETTLED_SCHEMAS,
        statements.SETTLE_DATASOURCES,
        queries.COUNT_LIVE,
        queries.UNSETTLED_CHANGES,
        queries.NEWEST_COMMITS_OF,
        queries.LIVE_TOTALS,
    ],
)
def test_what_is_not_settled_is_found_at_the_end_of_its_table(stated: Statement) -> None:
    lines = planned(stated)
    assert any("INTEGER PRIMARY KEY (rowid>?" in line for line in lines)
    assert not {"SCAN segments", "SCAN entries", "SCAN chunks"} & set(lines)


def test_what_was_dropped_is_found_without_what_is_live() -> None:
    assert any(
        "entries USING INDEX entries_by_drop" in line for line in planned(trimming.GONE_NAMED)
    )


def test_an_append_writes_six_pages(tmp_path: Path) -> None:
    """One of each table and index that it changes, a few where a page is full, and what others have left to it."""
    path = tmp_path / "metadata.db"
    log = Path(f"{path}-wal")
    with closing(open_metadata(f"sqlite:///{path}", clock=SystemClock(), ids=RandomIds())) as store:
        append(store, segment("first", SPAN))
        before, count = log.stat().st_size, 100
        for number in range(count):
            append(store, segment(f"s{number}", SPAN))
        assert log.stat().st_size - before <= 6 * count * FRAME_BYTES
