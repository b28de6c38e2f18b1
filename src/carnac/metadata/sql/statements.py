"""The statements of the publish path, and small ones for settings, tags and leases."""

from __future__ import annotations

from carnac.core.log.entries import ENTRY_BITS
from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import of, row_of, statement

HEAD = statement(
    "SELECT revision, at_ms, settled_revision FROM commits ORDER BY revision DESC LIMIT 1"
)
STORE_VERSION = statement("SELECT version_num FROM carnac_version")
ORIGIN = statement("SELECT created_at_ms FROM origin")
SET_ORIGIN = statement("UPDATE origin SET created_at_ms = :at_ms, store_id = :store_id")
INSERT_ORIGIN = c.insert("origin")
STORE_ID = statement("SELECT store_id FROM origin")
FIND_BATCH = statement(
    "SELECT revision, at_ms FROM batches WHERE writer = :writer AND batch = :batch"
)
FIND_BATCHES = statement(
    "SELECT writer, batch, revision, at_ms FROM batches WHERE (writer, batch) IN :pairs[][]"
)
FIND_POSITIONS = c.find("positions", "writer")
POSITIONS = c.select("positions")
PUT_POSITION = c.put("positions")
FORGET_POSITION = c.delete("positions")
FIND_DATASOURCE = statement("SELECT datasource_id FROM datasources WHERE name = :name")
DATASOURCES = statement("SELECT datasource_id, name FROM datasources")
NAMES_OF = statement(
    "SELECT datasource_id, name FROM datasources WHERE datasource_id IN :datasource_ids[]"
)
CHUNKS_LIVE_OVER = statement(
    f"""
    SELECT {of("chunks", c.CHUNK)}
    FROM chunks
    WHERE chunks.datasource_id = :datasource_id
      AND chunks.shown_start IS NOT NULL
      AND chunks.start_ms >= coalesce((SELECT max(earlier.start_ms)
        FROM chunks AS earlier WHERE earlier.datasource_id = :datasource_id
        AND earlier.shown_start IS NOT NULL AND earlier.start_ms <= :start_ms), :start_ms)
      AND chunks.start_ms < :end_ms
      AND chunks.end_ms > :start_ms
    ORDER BY chunks.start_ms
    """
)
CHUNKS_EVER_OVER = c.select("chunks", f"datasource_id = :datasource_id AND {c.OVERLAPS}")
FIND_CHUNK = c.find("chunks")
_OF_CHUNK = "datasource_id = :datasource_id AND chunk_start = :start_ms AND chunk_end = :end_ms"
LIVE_ENTRIES_OF_CHUNK = statement(c.live_entries(f"SELECT {c.ENTRY} FROM entries", _OF_CHUNK))
# `+ 0`: not by an index of all entries of the datasource, which a planner takes for the shorter way
LIVE_ENTRIES_OF_SEGMENTS = statement(
    f"""
    SELECT {of("entries", c.ENTRY)}
    FROM segments
    JOIN entries ON {c.entries_of("= segments.segment_key")}
    WHERE segments.segment_id IN :segment_ids[]
      AND entries.datasource_id + 0 = :datasource_id
      AND entries.dropped_revision IS NULL
    """
)
DROPPED_BY = statement(
    f"""
    SELECT max(entries.dropped_revision)
    FROM segments
    JOIN entries ON {c.entries_of("= segments.segment_key")}
    WHERE segments.segment_id = :segment_id
      AND entries.datasource_id + 0 = :datasource_id
      AND entries.dropped_revision > :after
    """
)
# with each: the commit that dropped it, and whether that added another segment, which stays, of its time
LIVES_AFTER = statement(
    f"""
    SELECT {of("entries", c.ENTRY)}, commits.kind, EXISTS (
      SELECT 1
      FROM entries AS added
      WHERE added.entry_id >= entries.dropped_revision * {1 << ENTRY_BITS}
        AND added.entry_id < (entries.dropped_revision + 1) * {1 << ENTRY_BITS}
        AND added.datasource_id = entries.datasource_id
        AND added.segment_key <> entries.segment_key
        AND NOT added.segment_id IN :leaving[]
        AND added.span_start < entries.span_end
        AND added.span_end > entries.span_start
    )
    FROM segments
    JOIN entries ON {c.entries_of("= segments.segment_key")}
    LEFT JOIN commits ON commits.revision = entries.dropped_revision
    WHERE segments.segment_id IN :segment_ids[]
      AND entries.datasource_id + 0 = :datasource_id
      AND (entries.dropped_revision IS NULL OR entries.dropped_revision > :after)
    """
)
COVERING_AFTER = statement(
    """
    SELECT max(revision)
    FROM covers
    WHERE datasource_id = :datasource_id
      AND revision > :after
      AND start_ms < :end_ms
      AND end_ms > :start_ms
    """
)
LOOKUP_SET_BY = statement(
    "SELECT added_revision FROM lookups WHERE name = :name AND dropped_revision IS NULL"
)
INSERT_DATASOURCE = c.insert("datasources")
INSERT_COMMIT = c.insert("commits")
INSERT_COMMIT_DATASOURCE = c.insert("commit_datasources")
SETTLE_DATASOURCES = statement(
    f"INSERT INTO commit_datasources (datasource_id, revision) {c.UNSETTLED_CHANGES}"
)
UNSETTLED_SCHEMAS = statement(
    f"""
    SELECT unsettled.datasource_id, unsettled.digest, segments.record, unsettled.first_key,
      unsettled.segments, unsettled.rows, unsettled.size_bytes
    FROM (
      SELECT datasource_id, digest, min(segment_key) AS first_key, count(*) AS segments,
        CAST(sum(rows) AS BIGINT) AS rows, CAST(sum(size_bytes) AS BIGINT) AS size_bytes
      FROM segments
      WHERE segment_key >= {c.FIRST_UNSETTLED_KEY}
      GROUP BY datasource_id, digest
    ) AS unsettled
    JOIN segments ON segments.segment_key = unsettled.first_key
    ORDER BY unsettled.first_key
    """
)
"""Segments that `schemas` does not count yet, as rows of it, with a segment's record in place of the columns."""
SETTLE_ENTRIES = statement(
    f"""
    UPDATE entries SET is_indexed = 1
    WHERE entry_id >= {c.FIRST_UNSETTLED_KEY}
      AND is_indexed = 0
    """
)
INSERT_COVER = c.insert("covers")
INSERT_BATCH = c.insert("batches")
INSERT_SEGMENT = c.insert("segments")
INSERT_ENTRY = c.insert("entries")
INSERT_KEY_FRAME = c.insert("key_frames")
INSERT_LOOKUP = c.insert("lookups")
PUT_CHUNK = c.put("chunks")
GROW_CHUNK = statement(
    """
    UPDATE chunks
    SET entries = :entries, next_partition_id = :next_partition_id, revision = :revision, changes = :changes
    WHERE datasource_id = :datasource_id AND start_ms = :start_ms AND end_ms = :end_ms
    """
)
"""Sets columns alone that no index names."""
UNSETTLED_CHUNKS = statement(
    f"""
    SELECT chunks.entries + count(*),
      CASE WHEN chunks.next_partition_id > max(entries.partition_id) THEN chunks.next_partition_id
        ELSE max(entries.partition_id) + 1 END,
      max(entries.entry_id) / {1 << ENTRY_BITS}, chunks.changes + count(*),
      chunks.datasource_id, chunks.start_ms, chunks.end_ms
    FROM {c.UNSETTLED_ENTRIES}
    GROUP BY chunks.datasource_id, chunks.start_ms, chunks.end_ms
    """
)
"""The parameters of `GROW_CHUNK` for what the rows of chunks do not count yet."""
ADD_TO_SCHEMA = statement(
    f"""
    INSERT INTO schemas {row_of(c.SCHEMA)}
    ON CONFLICT (datasource_id, digest)
    DO UPDATE SET segments = (schemas.segments + excluded.segments),
      rows = (schemas.rows + excluded.rows),
      size_bytes = (schemas.size_bytes + excluded.size_bytes)
    """
)
DROP_ENTRIES = statement(
    "UPDATE entries SET dropped_revision = :revision WHERE entry_id IN :entry_ids[]"
)
DROP_LOOKUP = statement(
    """
    UPDATE lookups SET dropped_revision = :revision
    WHERE name = :k_name
      AND dropped_revision IS NULL
    """
)
SEGMENT_KEYS = statement(
    """
    SELECT segment_id, segment_key, digest, rows, size_bytes, trashed_at_ms
    FROM segments
    WHERE segment_id IN :segment_ids[]
    """
)
LIVE_SEGMENT_KEYS = statement(
    f"""
    SELECT DISTINCT segment_key
    FROM entries
    WHERE {c.entries_of("IN :segment_keys[]")}
      AND dropped_revision IS NULL
    """
)
_SHOWN = "SELECT major_ms, minor, shown_start, shown_end FROM entries"
LIVE_SUMMARY = statement(
    f"""
    SELECT max(major_ms), max(minor), min(shown_start), max(shown_end)
    FROM ({c.live_entries(_SHOWN, _OF_CHUNK)}) AS live
    """
)
LIVE_IDS_OF_CHUNK = statement(
    f"{c.live_entries('SELECT entry_id FROM entries', _OF_CHUNK)} ORDER BY entry_id"
)
SETTINGS = statement("SELECT name, value FROM settings")
PUT_SETTING = c.put("settings")
TAGS = statement("SELECT name, revision, created_at_ms FROM tags")
FIND_TAG = statement("SELECT revision FROM tags WHERE name = :name")
PUT_TAG = c.put("tags")
REMOVE_TAG = c.delete("tags")
INSERT_LEASE = c.insert("leases")
LEASES = c.select("leases", f"NOT {c.IS_OVER}", order="acquired_at_ms, lease_id")
FIND_LEASE = c.select("leases", f"lease_id = :lease_id AND NOT {c.IS_OVER}")
FIND_LEASES = c.select("leases", "lease_id IN :lease_ids[]")
MOVE_LEASE = statement(
    """
    UPDATE leases SET revision = :revision, expires_at_ms = :expires_at_ms, ttl_ms = :ttl_ms
    WHERE lease_id = :k_lease_id
    """
)
RELEASE_LEASE = c.delete("leases")
SWEEP_LEASES = statement(f"DELETE FROM leases WHERE {c.IS_OVER}")
