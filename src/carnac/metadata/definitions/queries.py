"""The statements of reading: states of datasources, commits, lookups."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    union_all,
)
from sqlalchemy.sql.base import Executable

from carnac.metadata import tables as t
from carnac.metadata.definitions.building import IsIn, statement
from carnac.metadata.definitions.statements import CHUNK_COLUMNS, ENTRY_COLUMNS, in_chunk
from carnac.metadata.session import Statement

p = bindparam
e = t.entries.c

ENTRY_WIDTH = len(ENTRY_COLUMNS)
"""Columns of an entry; what a query adds comes after them."""
SEGMENT_COLUMNS = (t.segments.c.segment_key, t.segments.c.record)
NUMBER_COLUMNS = (
    t.segments.c.segment_key,
    t.segments.c.digest,
    t.segments.c.rows,
    t.segments.c.size_bytes,
)
IS_LATE: tuple[ColumnElement[bool], ...] = (
    t.segments.c.record.like(literal_column("'%\"late\":{%'")),
)
"""Of segments with late rows: the record has that member. A few others may pass, whoever reads the record sees that."""


def _entries_with(
    columns: tuple[ColumnElement[Any], ...], conditions: tuple[ColumnElement[bool], ...] = ()
) -> Select[Any]:
    found = select(*ENTRY_COLUMNS, *columns).join(
        t.segments, t.segments.c.segment_key == e.segment_key
    )
    return found.where(*conditions)


def _live(
    columns: tuple[ColumnElement[Any], ...], conditions: tuple[ColumnElement[bool], ...] = ()
) -> Statement:
    """Live entries of chunks that start in a range, and that show something of an interval."""
    return statement(
        lambda: _entries_with(columns, conditions).where(
            e.datasource_id == p("datasource_id"),
            e.dropped_revision.is_(None),
            e.chunk_start >= p("first_start"),
            e.chunk_start < p("end_ms"),
            e.shown_start < p("end_ms"),
            e.shown_end > p("start_ms"),
        )
    )


def _since_frame(
    columns: tuple[ColumnElement[Any], ...], conditions: tuple[ColumnElement[bool], ...] = ()
) -> Statement:
    """Entries of a chunk added in a range of ids and still there at a revision."""

    def build() -> Executable:
        added = (*in_chunk(), e.entry_id >= p("first_id"), e.entry_id < p("end_id"))
        found = _entries_with(columns, conditions).where(*added)
        still = found.where(e.dropped_revision.is_(None))
        later = found.where(e.dropped_revision > p("revision"))
        return union_all(still, later)

    return statement(build)


def _of_frame(
    columns: tuple[ColumnElement[Any], ...], conditions: tuple[ColumnElement[bool], ...] = ()
) -> Statement:
    """Entries that a key frame names, as far as they were still there at a revision."""
    return statement(
        lambda: _entries_with(columns, conditions).where(
            IsIn(e.entry_id, "entry_ids"),
            or_(e.dropped_revision.is_(None), e.dropped_revision > p("revision")),
        )
    )


LIVE_SEGMENTS, LIVE_NUMBERS = _live(SEGMENT_COLUMNS), _live(NUMBER_COLUMNS)
ADDED_SEGMENTS, ADDED_NUMBERS = _since_frame(SEGMENT_COLUMNS), _since_frame(NUMBER_COLUMNS)
FRAME_SEGMENTS, FRAME_NUMBERS = _of_frame(SEGMENT_COLUMNS), _of_frame(NUMBER_COLUMNS)
LIVE_LATE = _live(SEGMENT_COLUMNS, IS_LATE)
ADDED_LATE = _since_frame(SEGMENT_COLUMNS, IS_LATE)
FRAME_LATE = _of_frame(SEGMENT_COLUMNS, IS_LATE)

FIND_FRAME = statement(
    lambda: (
        select(t.key_frames.c.revision, t.key_frames.c.entry_ids)
        .where(
            t.key_frames.c.datasource_id == p("datasource_id"),
            t.key_frames.c.chunk_start == p("start_ms"),
            t.key_frames.c.chunk_end == p("end_ms"),
            t.key_frames.c.revision <= p("revision"),
        )
        .order_by(t.key_frames.c.revision.desc())
        .limit(t.ONE)
    )
)
FIRST_CHUNK_START = statement(
    lambda: select(func.max(t.chunks.c.start_ms)).where(
        t.chunks.c.datasource_id == p("datasource_id"),
        t.chunks.c.entries > t.ZERO,
        t.chunks.c.start_ms <= p("start_ms"),
    )
)
LIVE_CHUNKS = statement(
    lambda: (
        select(*CHUNK_COLUMNS)
        .where(t.chunks.c.datasource_id == p("datasource_id"), t.chunks.c.entries > t.ZERO)
        .order_by(t.chunks.c.start_ms)
    )
)
COUNT_LIVE = statement(
    lambda: select(func.coalesce(func.sum(t.chunks.c.entries), t.ZERO)).where(
        t.chunks.c.datasource_id == p("datasource_id"), t.chunks.c.entries > t.ZERO
    )
)
LIVE_EXTENTS = statement(
    lambda: (
        select(
            t.datasources.c.datasource_id,
            t.datasources.c.name,
            func.count(),
            func.min(t.chunks.c.shown_start),
            func.max(t.chunks.c.shown_end),
        )
        .join(t.chunks, t.chunks.c.datasource_id == t.datasources.c.datasource_id)
        .where(t.chunks.c.entries > t.ZERO)
        .group_by(t.datasources.c.datasource_id, t.datasources.c.name)
    )
)
LIVE_TOTALS = statement(
    lambda: select(
        t.schemas.c.datasource_id,
        func.sum(t.schemas.c.segments),
        func.sum(t.schemas.c.rows),
        func.sum(t.schemas.c.size_bytes),
    ).group_by(t.schemas.c.datasource_id)
)
LAST_CHANGE = statement(
    lambda: select(func.max(t.commit_datasources.c.revision)).where(
        t.commit_datasources.c.datasource_id == p("datasource_id"),
        t.commit_datasources.c.revision <= p("revision"),
    )
)
SCHEMAS = statement(
    lambda: (
        select(t.schemas.c.digest, t.schemas.c.columns, t.schemas.c.segments)
        .where(t.schemas.c.datasource_id == p("datasource_id"))
        .order_by(t.schemas.c.first_key)
    )
)
FIND_SEGMENT = statement(
    lambda: select(t.segments.c.record).where(t.segments.c.segment_id == p("segment_id"))
)
SEGMENTS_AFTER = statement(
    lambda: (
        select(t.segments.c.record)
        .where(t.segments.c.segment_id > p("after"), t.segments.c.trashed_at_ms.is_(None))
        .order_by(t.segments.c.segment_id)
        .limit(p("limit"))
    )
)

# ---------------------------------------------------------------------------------------------------- commits

COMMIT_COLUMNS = tuple(t.commits.c)
FIND_COMMIT = statement(
    lambda: select(*COMMIT_COLUMNS).where(t.commits.c.revision == p("revision"))
)
COMMITS_AFTER = statement(
    lambda: (
        select(*COMMIT_COLUMNS)
        .where(t.commits.c.revision > p("after"))
        .order_by(t.commits.c.revision)
        .limit(p("limit"))
    )
)
NEWEST_COMMITS = statement(
    lambda: (
        select(*COMMIT_COLUMNS)
        .where(t.commits.c.revision < p("before"))
        .order_by(t.commits.c.revision.desc())
        .limit(p("limit"))
    )
)
NEWEST_COMMITS_OF = statement(
    lambda: (
        select(*COMMIT_COLUMNS)
        .join(t.commit_datasources, t.commit_datasources.c.revision == t.commits.c.revision)
        .where(
            t.commit_datasources.c.datasource_id == p("datasource_id"),
            t.commit_datasources.c.revision < p("before"),
        )
        .order_by(t.commit_datasources.c.revision.desc())
        .limit(p("limit"))
    )
)
CHANGES_BETWEEN = statement(
    lambda: (
        select(*t.commit_datasources.c, t.datasources.c.name)
        .join(
            t.datasources,
            t.datasources.c.datasource_id == t.commit_datasources.c.datasource_id,
        )
        .where(t.commit_datasources.c.revision.between(p("first"), p("last")))
    )
)
CHANGES_OF = statement(
    lambda: (
        select(*t.commit_datasources.c, t.datasources.c.name)
        .join(
            t.datasources,
            t.datasources.c.datasource_id == t.commit_datasources.c.datasource_id,
        )
        .where(IsIn(t.commit_datasources.c.revision, "revisions"))
    )
)
ENTRIES_ADDED = statement(
    lambda: (
        select(*ENTRY_COLUMNS)
        .where(e.entry_id >= p("first_id"), e.entry_id < p("end_id"))
        .order_by(e.entry_id)
    )
)
ENTRIES_DROPPED = statement(
    lambda: (
        select(*ENTRY_COLUMNS)
        .where(e.dropped_revision >= p("first"), e.dropped_revision <= p("last"))
        .order_by(e.entry_id)
    )
)
SEGMENTS_ADDED = statement(
    lambda: (
        select(t.segments.c.segment_key, t.segments.c.datasource_id, t.segments.c.record)
        .where(t.segments.c.segment_key >= p("first_id"), t.segments.c.segment_key < p("end_id"))
        .order_by(t.segments.c.segment_key)
    )
)
LOOKUPS_ADDED = statement(
    lambda: select(t.lookups.c.name, t.lookups.c.added_revision, t.lookups.c.mapping).where(
        t.lookups.c.added_revision.between(p("first"), p("last"))
    )
)
LOOKUPS_AT = statement(
    lambda: select(t.lookups.c.name, t.lookups.c.mapping).where(
        t.lookups.c.added_revision <= p("revision"),
        or_(
            t.lookups.c.dropped_revision.is_(None),
            t.lookups.c.dropped_revision > p("revision"),
        ),
    )
)

# -------------------------------------------------------------------------------------------------- revisions

RETAINED = statement(
    lambda: select(t.commits.c.revision, t.commits.c.at_ms, t.commits.c.until_ms).order_by(
        t.commits.c.revision
    )
)
LAST_UNTIL = statement(
    lambda: (
        select(t.commits.c.revision, t.commits.c.at_ms, t.commits.c.until_ms)
        .where(t.commits.c.at_ms <= p("at_ms"))
        .order_by(t.commits.c.revision.desc())
        .limit(t.ONE)
    )
)
FIRST_ABOVE = statement(
    lambda: (
        select(t.commits.c.revision, t.commits.c.at_ms, t.commits.c.until_ms)
        .where(t.commits.c.revision > p("revision"))
        .order_by(t.commits.c.revision)
        .limit(t.ONE)
    )
)
NEAREST_BELOW = statement(
    lambda: select(func.max(t.commits.c.revision)).where(t.commits.c.revision < p("revision"))
)
NEAREST_ABOVE = statement(
    lambda: select(func.min(t.commits.c.revision)).where(t.commits.c.revision > p("revision"))
)
OLDEST = statement(lambda: select(func.min(t.commits.c.revision)))
