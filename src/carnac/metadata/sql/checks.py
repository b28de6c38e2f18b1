"""Statements of the gauges and the self-check."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import Statement, statement

SERVER_NOW = Statement(
    sqlite=statement("SELECT NULL").sqlite,
    postgresql=statement(
        "SELECT CAST(extract(epoch from clock_timestamp()) * 1000 AS BIGINT)"
    ).postgresql,
)
SIGNS_AFTER = statement(
    """
    SELECT leaders.holder AS holder, leaders.heartbeat_at_ms AS sign_ms
    FROM leaders
    WHERE leaders.heartbeat_at_ms > :at_ms
      AND leaders.lease_ms > 0
    UNION ALL
    SELECT task_attempts.holder AS holder, task_attempts.heartbeat_at_ms AS sign_ms
    FROM task_attempts
    WHERE task_attempts.heartbeat_at_ms > :at_ms
      AND task_attempts.ended_at_ms IS NULL
    UNION ALL
    SELECT locks.holder AS holder, locks.heartbeat_at_ms AS sign_ms
    FROM locks
    WHERE locks.heartbeat_at_ms > :at_ms
      AND locks.revoked_at_ms IS NULL
    UNION ALL
    SELECT servers.holder AS holder, servers.heartbeat_at_ms AS sign_ms
    FROM servers
    WHERE servers.heartbeat_at_ms > :at_ms
      AND servers.lease_ms > 0
    UNION ALL
    SELECT leases.holder AS holder, leases.expires_at_ms - leases.ttl_ms AS sign_ms
    FROM leases
    WHERE leases.expires_at_ms - leases.ttl_ms > :at_ms
    """
)
"""Later signs of life of leaders, attempts, tasks with locks, servers, readers and writers that have not ended."""
LIVE_OF = c.select("entries", "datasource_id = :datasource_id AND dropped_revision IS NULL")
MOVES = statement(
    "SELECT revision, writer, details FROM commits WHERE writer IS NOT NULL ORDER BY revision"
)
"""Commits that may have moved a position."""
LEFT_OUT = statement(
    f"SELECT entry_id FROM entries WHERE is_indexed = 0 AND entry_id < {c.FIRST_UNSETTLED_KEY}"
)
"""Entries that no reader finds."""
CHUNKS_OF = c.find("chunks", "datasource_id")
SCHEMAS_OF = statement(
    "SELECT digest, segments, rows, size_bytes FROM schemas WHERE datasource_id = :datasource_id"
)
SEGMENTS_OF = statement(
    """
    SELECT segment_key, digest, rows, size_bytes, record, path
    FROM segments
    WHERE datasource_id = :datasource_id
    """
)
FRAMES_OF = statement(
    """
    SELECT chunk_start, chunk_end, revision, entry_ids
    FROM key_frames
    WHERE datasource_id = :datasource_id
    """
)
ALL_OF = statement(
    """
    SELECT entry_id, chunk_start, chunk_end, dropped_revision
    FROM entries
    WHERE datasource_id = :datasource_id
    """
)
