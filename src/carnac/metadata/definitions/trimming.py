"""What a trim reads, marks and removes, and the trash."""

from __future__ import annotations

from sqlalchemy import ColumnElement, bindparam, delete, func, literal_column, select, update

from carnac.metadata import tables as t
from carnac.metadata.definitions.building import (
    IsIn,
    statement,
)
from carnac.metadata.definitions.statements import LEASE_IS_OVER

p = bindparam
OLDEST_READER = statement(
    lambda: select(func.min(t.leases.c.revision)).where(
        t.leases.c.kind == literal_column("'reader'"), ~LEASE_IS_OVER
    )
)
DROPPED_IN = statement(
    lambda: select(
        t.entries.c.entry_id, t.entries.c.segment_key, t.entries.c.dropped_revision
    ).where(t.entries.c.dropped_revision.between(p("first"), p("last")))
)
LIVES_OF = statement(
    lambda: select(
        t.entries.c.segment_key, t.entries.c.entry_id, t.entries.c.dropped_revision
    ).where(IsIn(t.entries.c.segment_key, "segment_keys"))
)
UNTRASHED = statement(
    lambda: select(t.segments.c.segment_key, t.segments.c.record).where(
        IsIn(t.segments.c.segment_key, "segment_keys"), t.segments.c.trashed_at_ms.is_(None)
    )
)
GONE_NAMED = statement(
    lambda: (
        select(t.segments.c.segment_id, t.entries.c.entry_id, t.entries.c.dropped_revision)
        .join(t.segments, t.segments.c.segment_key == t.entries.c.segment_key)
        .where(t.entries.c.dropped_revision.is_not(None), t.segments.c.trashed_at_ms.is_(None))
        .order_by(t.entries.c.entry_id)
    )
)
LIVE_AMONG = statement(
    lambda: (
        select(t.segments.c.segment_id)
        .join(t.entries, t.segments.c.segment_key == t.entries.c.segment_key)
        .where(IsIn(t.segments.c.segment_id, "segment_ids"), t.entries.c.dropped_revision.is_(None))
    )
)
SET_UNTIL = statement(
    lambda: (
        update(t.commits)
        .where(t.commits.c.revision == p("k_revision"))
        .values(until_ms=p("until_ms"))
    )
)
DELETE_COMMITS = statement(
    lambda: delete(t.commits).where(t.commits.c.revision.between(p("first"), p("last")))
)
DELETE_COMMIT_DATASOURCES = statement(
    lambda: delete(t.commit_datasources).where(
        t.commit_datasources.c.revision.between(p("first"), p("last"))
    )
)
DELETE_ENTRIES = statement(lambda: delete(t.entries).where(IsIn(t.entries.c.entry_id, "ids")))
TRASH = statement(
    lambda: (
        update(t.segments)
        .where(IsIn(t.segments.c.segment_key, "segment_keys"))
        .values(trashed_at_ms=p("at_ms"))
    )
)
GONE_LOOKUPS = statement(
    lambda: select(
        t.lookups.c.name, t.lookups.c.added_revision, t.lookups.c.dropped_revision
    ).where(t.lookups.c.dropped_revision.is_not(None))
)
DELETE_LOOKUP = statement(
    lambda: delete(t.lookups).where(
        t.lookups.c.name == p("name"), t.lookups.c.added_revision == p("added_revision")
    )
)
COVERS_IN = statement(
    lambda: select(
        t.covers.c.datasource_id, t.covers.c.revision, t.covers.c.start_ms, t.covers.c.end_ms
    ).where(t.covers.c.revision.between(p("first"), p("last")))
)
REVERTS_IN = statement(
    lambda: select(t.commits.c.revision).where(
        t.commits.c.revision.between(p("first"), p("last")),
        t.commits.c.kind == literal_column("'revert'"),
    )
)
DELETE_COVERS = statement(
    lambda: delete(t.covers).where(t.covers.c.revision.between(p("first"), p("last")))
)
FRAMES = statement(
    lambda: select(
        t.key_frames.c.datasource_id,
        t.key_frames.c.chunk_start,
        t.key_frames.c.chunk_end,
        t.key_frames.c.revision,
    ).order_by(
        t.key_frames.c.datasource_id,
        t.key_frames.c.chunk_start,
        t.key_frames.c.chunk_end,
        t.key_frames.c.revision,
    )
)
DELETE_FRAME = statement(
    lambda: delete(t.key_frames).where(
        t.key_frames.c.datasource_id == p("datasource_id"),
        t.key_frames.c.chunk_start == p("chunk_start"),
        t.key_frames.c.chunk_end == p("chunk_end"),
        t.key_frames.c.revision == p("revision"),
    )
)
DELETE_DEAD_CHUNKS = statement(
    lambda: delete(t.chunks).where(
        t.chunks.c.entries == t.ZERO,
        t.chunks.c.revision <= p("oldest"),
        ~select(t.entries.c.entry_id)
        .where(
            t.entries.c.datasource_id == t.chunks.c.datasource_id,
            t.entries.c.chunk_start == t.chunks.c.start_ms,
            t.entries.c.chunk_end == t.chunks.c.end_ms,
            t.entries.c.dropped_revision.is_not(None),
        )
        .exists(),
    )
)


def _old_batches() -> tuple[ColumnElement[bool], ...]:
    """Published before an instant, and not the newest of their writers: from that one a stream goes on."""
    newest = select(func.max(t.batches.c.revision)).group_by(t.batches.c.writer)
    return t.batches.c.at_ms < p("before_ms"), t.batches.c.revision.not_in(newest)


COUNT_OLD_BATCHES = statement(
    lambda: select(func.count()).select_from(t.batches).where(*_old_batches())
)
DELETE_OLD_BATCHES = statement(lambda: delete(t.batches).where(*_old_batches()))
TRASHED = statement(
    lambda: (
        select(t.segments.c.record, t.segments.c.trashed_at_ms)
        .where(t.segments.c.trashed_at_ms.is_not(None))
        .order_by(t.segments.c.segment_key)
    )
)
FORGET_SEGMENTS = statement(
    lambda: delete(t.segments).where(
        IsIn(t.segments.c.segment_id, "segment_ids"), t.segments.c.trashed_at_ms.is_not(None)
    )
)
DELETE_EMPTY_SCHEMAS = statement(
    lambda: delete(t.schemas).where(
        t.schemas.c.segments == t.ZERO,
        ~select(t.segments.c.segment_key)
        .where(
            t.segments.c.datasource_id == t.schemas.c.datasource_id,
            t.segments.c.digest == t.schemas.c.digest,
        )
        .exists(),
    )
)
DELETE_EMPTY_DATASOURCES = statement(
    lambda: delete(t.datasources).where(
        ~select(t.commit_datasources.c.revision)
        .where(t.commit_datasources.c.datasource_id == t.datasources.c.datasource_id)
        .exists(),
        ~select(t.schemas.c.digest)
        .where(t.schemas.c.datasource_id == t.datasources.c.datasource_id)
        .exists(),
        ~select(t.covers.c.revision)
        .where(t.covers.c.datasource_id == t.datasources.c.datasource_id)
        .exists(),
        ~select(t.chunks.c.revision)
        .where(t.chunks.c.datasource_id == t.datasources.c.datasource_id)
        .exists(),
    )
)
KNOWN_PATHS = statement(lambda: select(t.segments.c.path))
