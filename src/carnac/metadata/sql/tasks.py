"""The statements over tasks, their attempts and their leaders."""

from __future__ import annotations

from functools import cache

from carnac.core.time.leases import CLOCKS_AGREE_MS
from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import Statement, of, statement

LAST_NUMBER = statement("SELECT last_number FROM task_numbers")
PUT_NUMBER = c.put("task_numbers")
FIND = c.find("tasks")
DEPENDENTS = statement(
    f"""
    SELECT {of("tasks", c.TASK)}
    FROM tasks
    JOIN task_waits ON task_waits.task_id = tasks.task_id
    WHERE task_waits.waits_for = :task_id
    ORDER BY tasks.number
    """
)
SLEEPING = c.select(
    "tasks",
    "state = 'waiting' AND wakes_at_ms IS NOT NULL "
    f"AND (wakes_at_ms <= :at_ms OR changed_at_ms - {CLOCKS_AGREE_MS} > :at_ms)",
    order="number",
)
READY = c.select("tasks", "state = 'pending'", order="priority DESC, number LIMIT :limit")
PAYLOAD = statement("SELECT payload FROM task_payloads WHERE task_id = :task_id")
REPORT = statement("SELECT report FROM task_reports WHERE task_id = :task_id AND number = :number")
LAST_REPORT = statement(
    "SELECT report FROM task_reports WHERE task_id = :task_id ORDER BY number DESC LIMIT 1"
)
FIND_ATTEMPT = c.find("task_attempts")
ATTEMPT_STATE = statement(
    "SELECT state FROM task_attempts WHERE task_id = :task_id AND number = :number"
)
ATTEMPTS = c.find("task_attempts", "task_id", order="number")
ALL_TASKS = c.select("tasks", order="number")
ALL_ATTEMPTS = c.select("task_attempts", order="task_id, number")
LIVE_ATTEMPTS = c.select("task_attempts", "is_settled = 0", order="task_id, number")
LEADER = c.find("leaders")
PUT_LEADER = c.put("leaders")
PUT_TASK = c.put("tasks")
PUT_ATTEMPT = c.put("task_attempts")
PUT_REPORT = c.put("task_reports")
INSERT_PAYLOAD = c.insert("task_payloads")
INSERT_WAIT = c.insert("task_waits")
REMOVE_WAITS = c.delete("task_waits", "task_id")
REMOVALS = [
    c.delete(table, "task_id")
    for table in ("task_waits", "task_reports", "task_attempts", "task_payloads", "tasks")
]

_CONDITIONS = {
    "before": "number < :before",
    "created_before_ms": "created_at_ms < :created_before_ms",
    "created_from_ms": "created_at_ms >= :created_from_ms",
    "datasource": "datasource = :datasource",
    "finished_until_ms": "finished_at_ms <= :finished_until_ms",
    "group_id": "group_id = :group_id",
    "states": "state IN :states[]",
    "type": "type = :type",
}


@cache
def listing(names: tuple[str, ...]) -> Statement:
    """Return the statement that lists tasks by these conditions, newest first."""
    where = " AND ".join(_CONDITIONS[name] for name in names)
    return c.select("tasks", where, order="number DESC LIMIT :limit")
