"""The statements of the lockbox."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import of, statement

LAST_NUMBER = statement("SELECT last_number FROM lock_numbers")
PUT_NUMBER = c.put("lock_numbers")
FOR_REQUEST = statement(
    f"""
    SELECT lock_numbers.last_number, {of("locks", c.LOCK)}
    FROM lock_numbers
    LEFT JOIN locks ON locks.task_id = :task_id
      OR locks.datasource = :datasource
      AND locks.start_ms < :end_ms
      AND locks.end_ms > :start_ms
    """
)
"""All that deciding a request nearly always needs, in one journey to the database; no row before the first lock."""
OVERLAPPING = c.select("locks", f"datasource = :datasource AND {c.OVERLAPS}")
OF_TASK = c.find("locks", "task_id")
OF_TASKS = c.select("locks", "task_id IN :task_ids[]")
FIND = c.select("locks", "lock_id IN :lock_ids[]")
DUE = c.select(
    "locks",
    "heartbeat_at_ms + lease_ms <= :at_ms OR heartbeat_at_ms - lease_ms >= :at_ms OR state = 'revoked' "
    "OR state = 'waiting' AND waits_until_ms <= :at_ms",
)
ALL = c.select("locks", order="lock_id")
ALL_OF = c.find("locks", "datasource", order="lock_id")
PUT = c.put("locks")
REMOVE = statement("DELETE FROM locks WHERE lock_id IN :lock_ids[]")
BEAT = statement(
    "UPDATE locks SET heartbeat_at_ms = :at_ms WHERE task_id = :k_task_id AND state != 'revoked'"
)
