"""The statements of the publish path, and small ones for settings, tags and leases.

Parameter names that equal a column of an UPDATE's table would clash with SQLAlchemy's own, so keys are `k_…` there.
"""

from __future__ import annotations

from sqlalchemy import (
    ColumnElement,
    Table,
    bindparam,
    column,
    delete,
    func,
    insert,
    or_,
    select,
    table,
    update,
)
from sqlalchemy.sql.base import Executable

from carnac.metadata import tables as t
from carnac.metadata.definitions.building import (
    IsIn,
    IsPairIn,
    dialect_statement,
    is_over,
    statement,
    upsert,
)

p = bindparam

ENTRY_COLUMNS = tuple(t.entries.c)
CHUNK_COLUMNS = tuple(t.chunks.c)


def _all_new(written: Table) -> dict[str, str]:
    return {one.name: "new" for one in written.c if not one.primary_key}


# ------------------------------------------------------------------------------------------- reading the head

HEAD = statement(
    lambda: (
        select(t.commits.c.revision, t.commits.c.at_ms)
        .order_by(t.commits.c.revision.desc())
        .limit(t.ONE)
    )
)
STORE_VERSION = statement(lambda: select(column("version_num")).select_from(table(t.VERSION_TABLE)))
ORIGIN = statement(lambda: select(t.origin.c.created_at_ms))
SET_ORIGIN = statement(lambda: update(t.origin).values(created_at_ms=p("at_ms")))
FIND_BATCH = statement(
    lambda: select(t.batches.c.revision, t.batches.c.at_ms).where(
        t.batches.c.writer == p("writer"), t.batches.c.batch == p("batch")
    )
)
FIND_BATCHES = statement(
    lambda: select(
        t.batches.c.writer, t.batches.c.batch, t.batches.c.revision, t.batches.c.at_ms
    ).where(IsPairIn(t.batches.c.writer, t.batches.c.batch, "pairs"))
)
FIND_DATASOURCE = statement(
    lambda: select(t.datasources.c.datasource_id).where(t.datasources.c.name == p("name"))
)
DATASOURCES = statement(lambda: select(t.datasources.c.datasource_id, t.datasources.c.name))

# --------------------------------------------------------------------------------------- what a publish reads


def _live_chunks_over() -> Executable:
    """Live chunks are disjoint: of those that start at or before the interval only the last can reach it."""
    c = t.chunks.c
    earlier = t.chunks.alias("earlier")
    first = (
        select(func.max(earlier.c.start_ms))
        .where(
            earlier.c.datasource_id == p("datasource_id"),
            earlier.c.entries > t.ZERO,
            earlier.c.start_ms <= p("start_ms"),
        )
        .scalar_subquery()
    )
    return (
        select(*CHUNK_COLUMNS)
        .where(
            c.datasource_id == p("datasource_id"),
            c.entries > t.ZERO,
            c.start_ms >= func.coalesce(first, p("start_ms")),
            c.start_ms < p("end_ms"),
            c.end_ms > p("start_ms"),
        )
        .order_by(c.start_ms)
    )


CHUNKS_LIVE_OVER = statement(_live_chunks_over)
CHUNKS_EVER_OVER = statement(
    lambda: select(*CHUNK_COLUMNS).where(
        t.chunks.c.datasource_id == p("datasource_id"),
        t.chunks.c.start_ms < p("end_ms"),
        t.chunks.c.end_ms > p("start_ms"),
    )
)
FIND_CHUNK = statement(
    lambda: select(*CHUNK_COLUMNS).where(
        t.chunks.c.datasource_id == p("datasource_id"),
        t.chunks.c.start_ms == p("start_ms"),
        t.chunks.c.end_ms == p("end_ms"),
    )
)


def in_chunk() -> tuple[ColumnElement[bool], ...]:
    """Return the condition of being an entry of one chunk."""
    e = t.entries.c
    return (
        e.datasource_id == p("datasource_id"),
        e.chunk_start == p("start_ms"),
        e.chunk_end == p("end_ms"),
    )


LIVE_ENTRIES_OF_CHUNK = statement(
    lambda: select(*ENTRY_COLUMNS).where(*in_chunk(), t.entries.c.dropped_revision.is_(None))
)
LIVE_ENTRIES_OF_SEGMENTS = statement(
    lambda: (
        select(*ENTRY_COLUMNS)
        .join(t.segments, t.segments.c.segment_key == t.entries.c.segment_key)
        .where(
            IsIn(t.segments.c.segment_id, "segment_ids"),
            t.entries.c.datasource_id == p("datasource_id"),
            t.entries.c.dropped_revision.is_(None),
        )
    )
)
DROPPED_BY = statement(
    lambda: (
        select(func.max(t.entries.c.dropped_revision))
        .join(t.segments, t.segments.c.segment_key == t.entries.c.segment_key)
        .where(
            t.segments.c.segment_id == p("segment_id"),
            t.entries.c.datasource_id == p("datasource_id"),
            t.entries.c.dropped_revision > p("after"),
        )
    )
)
LIVES_AFTER = statement(
    lambda: (
        select(*ENTRY_COLUMNS, t.commits.c.kind)
        .join(t.segments, t.segments.c.segment_key == t.entries.c.segment_key)
        .outerjoin(t.commits, t.commits.c.revision == t.entries.c.dropped_revision)
        .where(
            IsIn(t.segments.c.segment_id, "segment_ids"),
            t.entries.c.datasource_id == p("datasource_id"),
            or_(
                t.entries.c.dropped_revision.is_(None),
                t.entries.c.dropped_revision > p("after"),
            ),
        )
    )
)
CHANGED_AFTER = statement(
    lambda: select(func.max(t.chunks.c.revision)).where(
        t.chunks.c.datasource_id == p("datasource_id"),
        t.chunks.c.start_ms < p("end_ms"),
        t.chunks.c.end_ms > p("start_ms"),
        t.chunks.c.revision > p("after"),
    )
)
COVERING_AFTER = statement(
    lambda: select(func.max(t.covers.c.revision)).where(
        t.covers.c.datasource_id == p("datasource_id"),
        t.covers.c.revision > p("after"),
        t.covers.c.start_ms < p("end_ms"),
        t.covers.c.end_ms > p("start_ms"),
    )
)
LOOKUP_SET_BY = statement(
    lambda: select(t.lookups.c.added_revision).where(
        t.lookups.c.name == p("name"), t.lookups.c.dropped_revision.is_(None)
    )
)

# -------------------------------------------------------------------------------------- what a publish writes

INSERT_DATASOURCE = statement(lambda: insert(t.datasources))
INSERT_COMMIT = statement(lambda: insert(t.commits))
INSERT_COMMIT_DATASOURCE = statement(lambda: insert(t.commit_datasources))
INSERT_COVER = statement(lambda: insert(t.covers))
INSERT_BATCH = statement(lambda: insert(t.batches))
INSERT_SEGMENT = statement(lambda: insert(t.segments))
INSERT_ENTRY = statement(lambda: insert(t.entries))
INSERT_KEY_FRAME = statement(lambda: insert(t.key_frames))
INSERT_LOOKUP = statement(lambda: insert(t.lookups))
PUT_CHUNK = dialect_statement(lambda dialect: upsert(t.chunks, dialect, _all_new(t.chunks)))
ADD_TO_SCHEMA = dialect_statement(
    lambda dialect: upsert(
        t.schemas, dialect, {"segments": "add", "rows": "add", "size_bytes": "add"}
    )
)
DROP_ENTRIES = statement(
    lambda: (
        update(t.entries)
        .where(IsIn(t.entries.c.entry_id, "entry_ids"))
        .values(dropped_revision=p("revision"))
    )
)
DROP_LOOKUP = statement(
    lambda: (
        update(t.lookups)
        .where(t.lookups.c.name == p("k_name"), t.lookups.c.dropped_revision.is_(None))
        .values(dropped_revision=p("revision"))
    )
)
SEGMENT_KEYS = statement(
    lambda: select(
        t.segments.c.segment_id,
        t.segments.c.segment_key,
        t.segments.c.digest,
        t.segments.c.rows,
        t.segments.c.size_bytes,
        t.segments.c.trashed_at_ms,
    ).where(IsIn(t.segments.c.segment_id, "segment_ids"))
)
LIVE_SEGMENT_KEYS = statement(
    lambda: (
        select(t.entries.c.segment_key)
        .distinct()
        .where(
            IsIn(t.entries.c.segment_key, "segment_keys"), t.entries.c.dropped_revision.is_(None)
        )
    )
)
LIVE_SUMMARY = statement(
    lambda: select(
        func.max(t.entries.c.major_ms),
        func.max(t.entries.c.minor),
        func.min(t.entries.c.shown_start),
        func.max(t.entries.c.shown_end),
    ).where(*in_chunk(), t.entries.c.dropped_revision.is_(None))
)
LIVE_IDS_OF_CHUNK = statement(
    lambda: (
        select(t.entries.c.entry_id)
        .where(*in_chunk(), t.entries.c.dropped_revision.is_(None))
        .order_by(t.entries.c.entry_id)
    )
)

# ------------------------------------------------------------------------------------ settings, tags, leases

SETTINGS = statement(lambda: select(t.settings.c.name, t.settings.c.value))
PUT_SETTING = dialect_statement(lambda dialect: upsert(t.settings, dialect, {"value": "new"}))
TAGS = statement(lambda: select(t.tags.c.name, t.tags.c.revision, t.tags.c.created_at_ms))
FIND_TAG = statement(lambda: select(t.tags.c.revision).where(t.tags.c.name == p("name")))
PUT_TAG = dialect_statement(
    lambda dialect: upsert(t.tags, dialect, {"revision": "new", "created_at_ms": "new"})
)
REMOVE_TAG = statement(
    lambda: delete(t.tags).where(t.tags.c.name == p("name")).returning(t.tags.c.name)
)
LEASE_COLUMNS = tuple(t.leases.c)
LEASE_IS_OVER = is_over(
    t.leases.c.expires_at_ms - t.leases.c.ttl_ms, t.leases.c.ttl_ms, p("now_ms")
)
INSERT_LEASE = statement(lambda: insert(t.leases))
LEASES = statement(
    lambda: (
        select(*LEASE_COLUMNS)
        .where(~LEASE_IS_OVER)
        .order_by(t.leases.c.acquired_at_ms, t.leases.c.lease_id)
    )
)
FIND_LEASE = statement(
    lambda: select(*LEASE_COLUMNS).where(t.leases.c.lease_id == p("lease_id"), ~LEASE_IS_OVER)
)
FIND_LEASES = statement(
    lambda: select(*LEASE_COLUMNS).where(IsIn(t.leases.c.lease_id, "lease_ids"))
)
MOVE_LEASE = statement(
    lambda: (
        update(t.leases)
        .where(t.leases.c.lease_id == p("k_lease_id"))
        .values(revision=p("revision"), expires_at_ms=p("expires_at_ms"), ttl_ms=p("ttl_ms"))
    )
)
RELEASE_LEASE = statement(lambda: delete(t.leases).where(t.leases.c.lease_id == p("lease_id")))
SWEEP_LEASES = statement(lambda: delete(t.leases).where(LEASE_IS_OVER))
