"""Statements of an erasure: what history names is named anew."""

from __future__ import annotations

from carnac.core.log.entries import ENTRY_BITS
from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import statement

EDITION_SETTING = "erased"
"""The name of the setting that has the revision of the newest erasure."""
NEWEST = statement("SELECT value FROM settings WHERE name = :name")
UNSHOWN = statement(
    f"""
    SELECT record
    FROM segments
    WHERE datasource_id = :datasource_id
      AND trashed_at_ms IS NULL
      AND NOT EXISTS (
        SELECT 1
        FROM entries
        WHERE {c.entries_of("= segments.segment_key")}
          AND entries.dropped_revision IS NULL
      )
    ORDER BY segment_key
    """
)
NAME_ANEW = statement(
    """
    UPDATE segments
    SET segment_id = :segment_id, digest = :digest, path = :path, rows = :rows, size_bytes = :size_bytes,
      record = :record
    WHERE segment_key = :k_segment_key
    """
)
RETAINED = statement(
    f"""
    SELECT segments.segment_id, segments.segment_key, commits.kind
    FROM segments
    LEFT JOIN commits ON commits.revision = segments.segment_key / {1 << ENTRY_BITS}
    WHERE segments.datasource_id = :datasource_id
      AND segments.trashed_at_ms IS NULL
    """
)
"""Segments, with the kind of the commit that added each; null: that is forgotten."""
NAME_IN_ENTRY = statement(
    """
    UPDATE entries
    SET segment_id = :segment_id, span_start = :span_start, span_end = :span_end, clip = :clip,
      shown_start = :shown_start, shown_end = :shown_end
    WHERE entry_id = :k_entry_id
    """
)
ENTRIES_NAMING = statement(
    f"""
    SELECT entry_id, dropped_revision, segment_key, clip
    FROM entries
    WHERE {c.entries_of("IN :segment_keys[]")}
    """
)
DELETE_ENTRIES = statement("DELETE FROM entries WHERE entry_id IN :entry_ids[]")
DELETE_SEGMENTS = statement("DELETE FROM segments WHERE segment_key IN :segment_keys[]")
CHANGES = statement("SELECT changes FROM commits WHERE revision = :revision")
SET_CHANGES = statement("UPDATE commits SET changes = :changes WHERE revision = :k_revision")
COUNTS = statement(
    f"""
    SELECT count(*), CAST(coalesce(sum(rows), 0) AS BIGINT), CAST(coalesce(sum(size_bytes), 0) AS BIGINT),
      (
        SELECT count(*)
        FROM entries
        WHERE entry_id >= :revision * {1 << ENTRY_BITS}
          AND entry_id < (:revision + 1) * {1 << ENTRY_BITS}
          AND datasource_id = :datasource_id
      ),
      (
        SELECT count(*)
        FROM entries
        WHERE dropped_revision = :revision
          AND datasource_id = :datasource_id
      )
    FROM segments
    WHERE segment_key >= :revision * {1 << ENTRY_BITS}
      AND segment_key < (:revision + 1) * {1 << ENTRY_BITS}
      AND datasource_id = :datasource_id
    """
)
"""What is there of a commit's change to a datasource: segments, their rows and bytes, entries added, and dropped."""
MESSAGES = statement("SELECT revision, message, changes FROM commits WHERE message <> ''")
SET_MESSAGE = statement("UPDATE commits SET message = :message WHERE revision = :k_revision")
RANGE_RECORDS = statement(
    """
    SELECT segment_key, record
    FROM segments
    WHERE datasource_id = :datasource_id
      AND record LIKE '%"type":"range"%'
    """
)
SET_RECORD = statement(
    "UPDATE segments SET record = :record, digest = :digest WHERE segment_key = :k_segment_key"
)
INSERT_FILE = c.insert("erased_files")
FILES = statement("SELECT path, revision, at_ms FROM erased_files ORDER BY revision, path")
FORGET_FILES = statement("DELETE FROM erased_files WHERE path IN :paths[]")
MENTIONS = {
    kind: statement(f"SELECT {columns} FROM {table}")
    for kind, table, columns in (
        ("messages of commits", "commits", "message"),
        ("names and details of commits", "commits", "writer, batch, details"),
        ("batches of writers", "batches", "writer, batch"),
        ("positions of writers", "positions", "writer, source, reached, came_from"),
        ("tags", "tags", "name"),
        ("settings", "settings", "value"),
        ("segments", "segments", "record"),
        ("lookups", "lookups", "mapping"),
        ("tasks", "task_payloads", "payload"),
        ("reports of tasks", "task_reports", "report"),
        ("errors of tasks", "tasks", "error"),
        ("errors of attempts", "task_attempts", "error"),
        ("specs of supervisors", "supervisor_specs", "spec"),
        ("specs of compaction", "compaction_specs", "spec"),
        ("comments on rules", "rule_changes", "comment"),
    )
}
"""Texts of people, or of rows, by what they are called: the query for each."""
