"""The statements over pending segments and the chunks they found."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import row_of, statement

_SELECT = f"SELECT {c.PENDING.partition(', ')[2]} FROM pending_segments"
FIND_BY_REQUEST = statement(f"{_SELECT} WHERE request IN :requests[]")
FIND_BY_ID = statement(f"{_SELECT} WHERE pending_id IN :pending_ids[]")
ALL = statement(_SELECT)
OF_OWNER = statement(f"{_SELECT} WHERE owner = :owner")
PUT = statement(
    f"""
    INSERT INTO pending_segments {row_of(c.PENDING)}
    ON CONFLICT (request)
    DO UPDATE SET created_at_ms = excluded.created_at_ms
    """
)
REMOVE = statement("DELETE FROM pending_segments WHERE pending_id IN :pending_ids[]")
REMOVE_OF_OWNER = c.delete("pending_segments", "owner")
REMOVE_OF_LEASE = c.delete("pending_segments", "lease_id")
SWEEP = statement(
    """
    DELETE FROM pending_segments
    WHERE pending_segments.lease_id IS NOT NULL
      AND NOT (EXISTS (SELECT * FROM leases
        WHERE leases.lease_id = pending_segments.lease_id))
      OR pending_segments.lease_id IS NULL
      AND pending_segments.created_at_ms < :before_ms
      AND NOT (EXISTS (SELECT * FROM task_attempts
        WHERE (task_attempts.state = 'starting' OR task_attempts.state = 'running')
        AND (task_attempts.task_id || '/' || CAST(task_attempts.number AS TEXT)) = pending_segments.owner))
    """
)
"""Pending segments of ended leases, and old ones of no running attempt."""
CHUNKS = statement(
    """
    SELECT datasource, start_ms, end_ms, major_ms, next_partition_id
    FROM pending_chunks
    WHERE datasource = :datasource
      AND start_ms < :end_ms
      AND end_ms > :start_ms
    """
)
PUT_CHUNK = c.put("pending_chunks")
REMOVE_CHUNK = c.delete("pending_chunks")
SWEEP_CHUNKS = statement(
    """
    DELETE FROM pending_chunks
    WHERE NOT (EXISTS (SELECT * FROM pending_segments
      WHERE pending_segments.datasource = pending_chunks.datasource
      AND pending_segments.start_ms = pending_chunks.start_ms
      AND pending_segments.end_ms = pending_chunks.end_ms))
    """
)
"""Those in which nothing is pending any more."""
USE_UP = statement(
    """
    UPDATE chunks SET next_partition_id = :next_partition_id
    WHERE datasource_id = :k_datasource_id
      AND start_ms = :k_start_ms
      AND end_ms = :k_end_ms
    """
)
"""Partition ids of a live chunk that are reserved are used up: publishing takes the next ones."""
