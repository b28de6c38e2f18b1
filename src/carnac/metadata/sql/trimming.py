"""Statements of a trim and of the trash."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import statement

OLDEST_READER = statement(
    f"SELECT min(revision) FROM leases WHERE kind = 'reader' AND NOT {c.IS_OVER}"
)
DROPPED_IN = statement(
    """
    SELECT entry_id, segment_key, dropped_revision
    FROM entries
    WHERE dropped_revision BETWEEN :first AND :last
    """
)
LIVES_OF = statement(
    f"""
    SELECT segment_key, entry_id, dropped_revision
    FROM entries
    WHERE {c.entries_of("IN :segment_keys[]")}
    """
)
UNTRASHED = statement(
    """
    SELECT segment_key, record
    FROM segments
    WHERE segment_key IN :segment_keys[]
      AND trashed_at_ms IS NULL
    """
)
# `+ 0`: not in the order of the table, in which a planner would walk through all that is live
GONE_NAMED = statement(
    """
    SELECT segments.segment_id, entries.entry_id, entries.dropped_revision
    FROM entries
    JOIN segments ON segments.segment_key = entries.segment_key
    WHERE entries.dropped_revision IS NOT NULL
      AND segments.trashed_at_ms IS NULL
    ORDER BY entries.entry_id + 0
    """
)
LIVE_AMONG = statement(
    f"""
    SELECT segments.segment_id
    FROM segments
    JOIN entries ON {c.entries_of("= segments.segment_key")}
    WHERE segments.segment_id IN :segment_ids[]
      AND entries.dropped_revision IS NULL
    """
)
SET_UNTIL = statement("UPDATE commits SET until_ms = :until_ms WHERE revision = :k_revision")
DELETE_COMMITS = statement("DELETE FROM commits WHERE revision BETWEEN :first AND :last")
# not `NOT IN`, which PostgreSQL looks up row by row where many commits are kept
DELETE_COMMIT_DATASOURCES = statement(
    """
    DELETE FROM commit_datasources
    WHERE NOT EXISTS (SELECT 1 FROM commits WHERE commits.revision = commit_datasources.revision)
    """
)
DELETE_ENTRIES = statement("DELETE FROM entries WHERE entry_id IN :ids[]")
TRASH = statement("UPDATE segments SET trashed_at_ms = :at_ms WHERE segment_key IN :segment_keys[]")
GONE_LOOKUPS = statement(
    "SELECT name, added_revision, dropped_revision FROM lookups WHERE dropped_revision IS NOT NULL"
)
DELETE_LOOKUP = c.delete("lookups")
COVERS_IN = statement(
    """
    SELECT datasource_id, revision, start_ms, end_ms
    FROM covers
    WHERE revision BETWEEN :first AND :last
    """
)
REVERTS_IN = statement(
    "SELECT revision FROM commits WHERE revision BETWEEN :first AND :last AND kind = 'revert'"
)
DELETE_COVERS = statement("DELETE FROM covers WHERE revision BETWEEN :first AND :last")
FRAMES = statement(
    """
    SELECT datasource_id, chunk_start, chunk_end, revision
    FROM key_frames
    ORDER BY datasource_id, chunk_start, chunk_end, revision
    """
)
DELETE_FRAME = c.delete("key_frames")
DELETE_DEAD_CHUNKS = statement(
    """
    DELETE FROM chunks
    WHERE chunks.entries = 0
      AND chunks.revision <= :oldest
      AND NOT (EXISTS (SELECT entries.entry_id FROM entries
        WHERE entries.datasource_id = chunks.datasource_id
        AND entries.chunk_start = chunks.start_ms
        AND entries.chunk_end = chunks.end_ms AND entries.dropped_revision IS NOT NULL))
    """
)
_OLD_BATCHES = """
    batches WHERE at_ms < :before_ms AND revision NOT IN (SELECT max(revision) FROM batches GROUP BY writer)
"""
COUNT_OLD_BATCHES = statement(f"SELECT count(*) FROM {_OLD_BATCHES}")
DELETE_OLD_BATCHES = statement(f"DELETE FROM {_OLD_BATCHES}")
TRASHED = statement(
    """
    SELECT record, trashed_at_ms
    FROM segments
    WHERE trashed_at_ms IS NOT NULL
    ORDER BY segment_key
    """
)
FORGET_SEGMENTS = statement(
    "DELETE FROM segments WHERE segment_id IN :segment_ids[] AND trashed_at_ms IS NOT NULL"
)
DELETE_EMPTY_SCHEMAS = statement(
    """
    DELETE FROM schemas
    WHERE schemas.segments = 0
      AND NOT (EXISTS (SELECT segments.segment_key FROM segments
        WHERE segments.datasource_id = schemas.datasource_id
        AND segments.digest = schemas.digest))
    """
)
DELETE_EMPTY_DATASOURCES = statement(
    """
    DELETE FROM datasources
    WHERE NOT (EXISTS (SELECT commit_datasources.revision FROM commit_datasources
      WHERE commit_datasources.datasource_id = datasources.datasource_id))
      AND NOT (EXISTS (SELECT schemas.digest FROM schemas
        WHERE schemas.datasource_id = datasources.datasource_id))
      AND NOT (EXISTS (SELECT covers.revision FROM covers
        WHERE covers.datasource_id = datasources.datasource_id))
      AND NOT (EXISTS (SELECT chunks.revision FROM chunks
        WHERE chunks.datasource_id = datasources.datasource_id))
    """
)
KNOWN_PATHS = statement("SELECT path FROM segments UNION ALL SELECT path FROM erased_files")
