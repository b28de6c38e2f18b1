"""The statements of reading: states of datasources, commits, lookups."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import Statement, of, statement

ENTRY_WIDTH = c.ENTRY.count(",") + 1
"""Number of columns of an entry; columns that a query adds come after them."""
SEGMENT_COLUMNS = "segments.segment_key, segments.record"
NUMBER_COLUMNS = "segments.segment_key, segments.digest, segments.rows, segments.size_bytes"
LATE = """segments.record LIKE '%"late":{%' AND """
"""Condition for segments with late rows: their record has that member. A few others may match; the record decides."""


def _entries_with(columns: str) -> str:
    return f"""
        SELECT {of("entries", c.ENTRY)}, {columns}
        FROM entries JOIN segments ON segments.segment_key = entries.segment_key
    """


def _live(columns: str, condition: str = "") -> Statement:
    """Live entries of chunks that start in a range, and that show something of an interval."""
    return statement(
        c.live_entries(
            _entries_with(columns),
            f"""
            {condition} entries.datasource_id = :datasource_id
            AND entries.chunk_start >= :first_start
            AND entries.chunk_start < :end_ms
            AND entries.shown_start < :end_ms
            AND entries.shown_end > :start_ms
            """,
        )
    )


def _since_frame(columns: str, condition: str = "") -> Statement:
    """Entries of a chunk added in a range of ids and still there at a revision."""
    added = f"""
        {condition} entries.datasource_id = :datasource_id
        AND entries.chunk_start = :start_ms
        AND entries.chunk_end = :end_ms
        AND entries.entry_id >= :first_id
        AND entries.entry_id < :end_id
    """
    return statement(
        f"""
        {c.live_entries(_entries_with(columns), added)}
        UNION ALL
        {_entries_with(columns)} WHERE {added} AND entries.dropped_revision > :revision
        """
    )


def _of_frame(columns: str, condition: str = "") -> Statement:
    """Entries that a key frame names, as far as they were still there at a revision."""
    return statement(
        f"""
        {_entries_with(columns)}
        WHERE {condition} entries.entry_id IN :entry_ids[]
          AND (entries.dropped_revision IS NULL OR entries.dropped_revision > :revision)
        """
    )


LIVE_SEGMENTS, LIVE_NUMBERS = _live(SEGMENT_COLUMNS), _live(NUMBER_COLUMNS)
ADDED_SEGMENTS, ADDED_NUMBERS = _since_frame(SEGMENT_COLUMNS), _since_frame(NUMBER_COLUMNS)
FRAME_SEGMENTS, FRAME_NUMBERS = _of_frame(SEGMENT_COLUMNS), _of_frame(NUMBER_COLUMNS)
LIVE_LATE = _live(SEGMENT_COLUMNS, LATE)
ADDED_LATE = _since_frame(SEGMENT_COLUMNS, LATE)
FRAME_LATE = _of_frame(SEGMENT_COLUMNS, LATE)
FIND_FRAME = statement(
    """
    SELECT revision, entry_ids
    FROM key_frames
    WHERE datasource_id = :datasource_id
      AND chunk_start = :start_ms
      AND chunk_end = :end_ms
      AND revision <= :revision
    ORDER BY revision DESC
    LIMIT 1
    """
)
FIRST_CHUNK_START = statement(
    """
    SELECT max(start_ms)
    FROM chunks
    WHERE datasource_id = :datasource_id
      AND shown_start IS NOT NULL
      AND start_ms <= :start_ms
    """
)
LIVE_CHUNKS = c.select(
    "chunks", "datasource_id = :datasource_id AND shown_start IS NOT NULL", order="start_ms"
)
COUNT_LIVE = statement(
    f"""
    SELECT coalesce(sum(live), 0)
    FROM (
      SELECT entries AS live
      FROM chunks
      WHERE datasource_id = :datasource_id
        AND shown_start IS NOT NULL
      UNION ALL
      SELECT count(*)
      FROM {c.UNSETTLED_ENTRIES}
        AND entries.datasource_id = :datasource_id
    ) AS counted
    """
)
LIVE_EXTENTS = statement(
    """
    SELECT datasources.datasource_id, datasources.name, count(*), min(chunks.shown_start),
      max(chunks.shown_end)
    FROM datasources
    JOIN chunks ON chunks.datasource_id = datasources.datasource_id
    WHERE chunks.shown_start IS NOT NULL
    GROUP BY datasources.datasource_id, datasources.name
    """
)
SHOWN_END = statement(
    """
    SELECT max(shown_end)
    FROM chunks
    WHERE datasource_id = :datasource_id
      AND shown_start IS NOT NULL
    """
)
LIVE_TOTALS = statement(
    f"""
    SELECT datasource_id, sum(segments), sum(rows), sum(size_bytes)
    FROM (
      SELECT datasource_id, segments, rows, size_bytes
      FROM schemas
      UNION ALL
      SELECT datasource_id, 1, rows, size_bytes
      FROM segments
      WHERE segment_key >= {c.FIRST_UNSETTLED_KEY}
    ) AS live
    GROUP BY datasource_id
    """
)
LAST_CHANGE = statement(
    """
    SELECT max(revision)
    FROM commit_datasources
    WHERE datasource_id = :datasource_id
      AND revision <= :revision
    """
)
UNSETTLED_CHANGES = statement(
    f"""
    SELECT datasource_id, max(revision)
    FROM ({c.UNSETTLED_CHANGES}) AS unsettled
    WHERE revision <= :revision
    GROUP BY datasource_id
    """
)
"""The last change of each datasource that `LAST_CHANGE` does not know yet."""
SCHEMAS = statement(
    """
    SELECT digest, columns, segments
    FROM schemas
    WHERE datasource_id = :datasource_id
    ORDER BY first_key
    """
)
# `+ 0`: not by the index of live entries, which a planner takes for the shorter way, and which names all of them
ADDED_SINCE = statement(
    """
    SELECT segments.digest, count(*), count(DISTINCT entries.segment_key)
    FROM entries JOIN segments ON segments.segment_key = entries.segment_key
    WHERE entries.datasource_id + 0 = :datasource_id
      AND entries.entry_id >= :first_id
      AND entries.dropped_revision IS NULL
    GROUP BY segments.digest
    """
)
"""Live entries from an id on: how many of each schema, and of how many segments."""
DROPPED_SINCE = statement(
    """
    SELECT segments.digest, count(*)
    FROM entries JOIN segments ON segments.segment_key = entries.segment_key
    WHERE entries.datasource_id + 0 = :datasource_id
      AND entries.dropped_revision > :revision
      AND entries.entry_id < :first_id
    GROUP BY segments.digest
    """
)
"""Entries from before an id that were dropped after a revision: how many of each schema."""
KEPT_SINCE = statement(
    f"""
    SELECT DISTINCT segments.digest
    FROM entries AS since
    JOIN entries ON {c.entries_of("= since.segment_key")}
    JOIN segments ON segments.segment_key = since.segment_key
    WHERE since.datasource_id + 0 = :datasource_id
      AND since.entry_id >= :first_id
      AND since.segment_key < :first_id
      AND since.dropped_revision IS NULL
      AND entries.datasource_id + 0 = :datasource_id
      AND entries.entry_id < :first_id
      AND entries.dropped_revision IS NULL
    """
)
"""Schemas of segments that have live entries from before an id, and from that id on as well."""
FIND_SEGMENT = statement("SELECT record FROM segments WHERE segment_id = :segment_id")
SEGMENTS_AFTER = statement(
    """
    SELECT record
    FROM segments
    WHERE segment_id > :after
      AND trashed_at_ms IS NULL
    ORDER BY segment_id
    LIMIT :limit
    """
)
FIND_COMMIT = c.find("commits")
COMMITS_AFTER = c.select("commits", "revision > :after", order="revision LIMIT :limit")
NEWEST_COMMITS = c.select("commits", "revision < :before", order="revision DESC LIMIT :limit")
NEWEST_COMMITS_OF = statement(
    f"""
    SELECT {of("commits", c.COMMIT)}
    FROM (
      SELECT revision
      FROM (
        SELECT revision
        FROM commit_datasources
        WHERE datasource_id = :datasource_id AND revision < :before
        ORDER BY revision DESC
        LIMIT :limit
      ) AS settled
      UNION ALL
      SELECT revision
      FROM ({c.UNSETTLED_CHANGES}) AS unsettled
      WHERE datasource_id = :datasource_id AND revision < :before
    ) AS changes
    JOIN commits ON commits.revision = changes.revision
    ORDER BY changes.revision DESC
    LIMIT :limit
    """
)
ENTRIES_ADDED = c.select(
    "entries", "entry_id >= :first_id AND entry_id < :end_id", order="entry_id"
)
ENTRIES_DROPPED = c.select(
    "entries", "dropped_revision >= :first AND dropped_revision <= :last", order="entry_id"
)
SEGMENTS_ADDED = statement(
    """
    SELECT segment_key, datasource_id, record
    FROM segments
    WHERE segment_key >= :first_id
      AND segment_key < :end_id
    ORDER BY segment_key
    """
)
LOOKUPS_ADDED = statement(
    """
    SELECT name, added_revision, mapping
    FROM lookups
    WHERE added_revision BETWEEN :first AND :last
    """
)
LOOKUPS_AT = statement(
    """
    SELECT name, added_revision, mapping
    FROM lookups
    WHERE added_revision <= :revision
      AND (dropped_revision IS NULL OR dropped_revision > :revision)
    """
)
RETAINED = statement("SELECT revision, at_ms, until_ms FROM commits ORDER BY revision")
LAST_UNTIL = statement(
    """
    SELECT revision, at_ms, until_ms
    FROM commits
    WHERE at_ms <= :at_ms
    ORDER BY revision DESC
    LIMIT 1
    """
)
FIRST_ABOVE = statement(
    """
    SELECT revision, at_ms, until_ms
    FROM commits
    WHERE revision > :revision
    ORDER BY revision
    LIMIT 1
    """
)
NEAREST_BELOW = statement("SELECT max(revision) FROM commits WHERE revision < :revision")
NEAREST_ABOVE = statement("SELECT min(revision) FROM commits WHERE revision > :revision")
OLDEST = statement("SELECT min(revision) FROM commits")
