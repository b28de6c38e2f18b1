"""Writing on SQL what a commit does to chunks: their rows, and key frames where a chunk has changed often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from carnac.core.log.commits import DatasourceCommit
from carnac.core.log.records import dump_ids
from carnac.core.segments.version import SegmentVersion
from carnac.core.time.intervals import Interval
from carnac.metadata.publish.view import SqlPublishView
from carnac.metadata.read.chunk_rows import ChunkRow, LiveSummary, changes_by_chunk, next_row
from carnac.metadata.read.rows import chunk_row
from carnac.metadata.session import Session
from carnac.metadata.sql import statements as s


def write_chunks(
    session: Session,
    view: SqlPublishView,
    change: DatasourceCommit,
    datasource_id: int,
    revision: int,
    *,
    settle: Callable[[ChunkRow], ChunkRow] | None = None,
    settles: bool = True,
) -> None:
    """Write the rows of all chunks that the commit touches, after its entries.

    Args:
        settles: Whether the rows must count its entries; else a row that says nothing else is left to a later commit.
        settle: Makes of the row of a chunk that was reserved before it was made the one to write; None: none was.
    """
    written: list[ChunkRow] = []
    moved: list[ChunkRow] = []
    for interval, done in changes_by_chunk(change).items():
        read_live = partial(_read_live, session, datasource_id, interval)
        before = view.find_row(datasource_id, interval)
        row = next_row(before, interval, done, revision, read_live)
        if settle is not None:
            row = settle(row)
        is_framed = row.needs_key_frame()
        if is_framed:
            _write_key_frame(session, datasource_id, interval, revision)
            row = replace(row, changes=0)
        is_moved = (
            before is None
            or before.top_major_ms != row.top_major_ms
            or (before.live is not row.live and before.live != row.live)
        )
        if is_moved:
            moved.append(row)
        if settles or is_framed or is_moved:
            written.append(row)
        view.keep_row(datasource_id, row)
    moved.sort(key=lambda row: row.entries > 0)  # chunks that end make room for those that begin
    session.defer(s.PUT_CHUNK, [chunk_row(row, datasource_id) for row in moved])
    for row in written:
        key = (datasource_id, row.interval.start_ms, row.interval.end_ms)
        growth = (row.entries, row.next_partition_id, row.revision, row.changes, *key)
        session.defer_merged(s.GROW_CHUNK, key, growth)


def _read_live(session: Session, datasource_id: int, interval: Interval) -> LiveSummary | None:
    row = session.row(
        s.LIVE_SUMMARY,
        datasource_id=datasource_id,
        start_ms=interval.start_ms,
        end_ms=interval.end_ms,
    )
    if row is None or row[0] is None:
        return None
    return LiveSummary(version=SegmentVersion(row[0], row[1]), shown=Interval(row[2], row[3]))


def _write_key_frame(
    session: Session, datasource_id: int, interval: Interval, revision: int
) -> None:
    ids = session.rows(
        s.LIVE_IDS_OF_CHUNK,
        datasource_id=datasource_id,
        start_ms=interval.start_ms,
        end_ms=interval.end_ms,
    )
    session.run(
        s.INSERT_KEY_FRAME,
        datasource_id=datasource_id,
        chunk_start=interval.start_ms,
        chunk_end=interval.end_ms,
        revision=revision,
        entry_ids=dump_ids([row[0] for row in ids]),
    )
