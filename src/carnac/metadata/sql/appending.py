"""The commit that is made most, as one statement: between databases of which each statement is a round trip."""

from __future__ import annotations

from collections.abc import Mapping

from carnac.core.log.entries import ENTRY_BITS
from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import statement

_NUMBERS = ("revision", "at_ms", "datasource_id", "major_ms", "partition_id")
_KEY = f"revision << {ENTRY_BITS}"
_BATCH = {"writer": "CAST(:writer AS TEXT)", "batch": "CAST(:batch AS TEXT)"}


def _insert(table: str, made: Mapping[str, str]) -> str:
    """Return the text that inserts the one row of a table, with the numbers of `place` where it has such columns."""
    return c.insert_from("place", table, {name: name for name in _NUMBERS} | {**made})


APPEND = statement(
    f"""
    WITH newest AS (
      SELECT revision, at_ms, settled_revision FROM commits ORDER BY revision DESC LIMIT 1
    ),
    place AS (
      SELECT newest.revision + 1 AS revision, greatest(newest.at_ms, :now_ms) AS at_ms,
        chunks.datasource_id, chunks.major_ms, chunks.next_partition_id AS partition_id
      FROM newest
      CROSS JOIN datasources
      JOIN chunks ON chunks.datasource_id = datasources.datasource_id
      JOIN schemas ON schemas.datasource_id = datasources.datasource_id
      WHERE newest.settled_revision = newest.revision
        AND newest.revision >= coalesce(CAST(:base_revision AS BIGINT), 0)
        AND datasources.name = :datasource
        AND chunks.start_ms = :chunk_start
        AND chunks.end_ms = :chunk_end
        AND chunks.shown_start IS NOT NULL
        AND chunks.changes < greatest(:changes_max, chunks.entries + 1)
        AND schemas.digest = :digest
        AND (CAST(:after_segment_id AS TEXT) IS NULL OR EXISTS (
          SELECT 1 FROM segments
          WHERE segment_key = newest.revision << {ENTRY_BITS}
            AND segment_id = CAST(:after_segment_id AS TEXT)
        ))
        AND NOT EXISTS (
          SELECT 1 FROM batches WHERE writer = {_BATCH["writer"]} AND batch = {_BATCH["batch"]}
        )
        AND (CAST(:lease_id AS TEXT) IS NULL OR EXISTS (
          SELECT 1 FROM leases
          WHERE lease_id = CAST(:lease_id AS TEXT) AND kind = :lease_kind AND NOT {c.IS_OVER}
        ))
    ),
    new_commit AS ({
        _insert(
            "commits",
            _BATCH
            | {
                "until_ms": "NULL",
                "base_revision": "CAST(:base_revision AS BIGINT)",
                "changes": "'[[' || datasource_id || substr(:changes, length('[[0') + 1)",
                "settled_revision": "revision",
            },
        )
    }),
    new_change AS ({_insert("commit_datasources", {})}),
    new_batch AS ({_insert("batches", _BATCH)} WHERE {_BATCH["batch"]} IS NOT NULL),
    new_segment AS ({_insert("segments", {"segment_key": _KEY, "trashed_at_ms": "NULL"})}),
    new_entry AS ({
        _insert(
            "entries",
            {
                "entry_id": _KEY,
                "segment_key": _KEY,
                "clip": "NULL",
                "update_group": "CAST(partition_id AS TEXT)",
                "dropped_revision": "NULL",
            },
        )
    }),
    grown_chunk AS (
      UPDATE chunks SET entries = chunks.entries + 1, next_partition_id = place.partition_id + 1,
        revision = place.revision, changes = chunks.changes + 1,
        shown_start = least(chunks.shown_start, :span_start),
        shown_end = greatest(chunks.shown_end, :span_end)
      FROM place
      WHERE chunks.datasource_id = place.datasource_id
        AND chunks.start_ms = :chunk_start AND chunks.end_ms = :chunk_end
    ),
    grown_schema AS (
      UPDATE schemas SET segments = schemas.segments + 1, rows = schemas.rows + :rows,
        size_bytes = schemas.size_bytes + :size_bytes
      FROM place
      WHERE schemas.datasource_id = place.datasource_id AND schemas.digest = :digest
    )
    SELECT revision, at_ms, major_ms, partition_id FROM place
    """
).postgresql
"""Appends a segment with a schema that the datasource has to a chunk that is there; returns the numbers that it got.

It does nothing and returns no row where that is not all there is to do, nor behind one that did nothing: in a group,
`after_segment_id` is the segment of the one before. PostgreSQL only.
"""
