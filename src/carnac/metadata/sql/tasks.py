"""The statements over tasks, their attempts and their leaders."""

from __future__ import annotations

from functools import cache

from carnac.core.time.leases import CLOCKS_AGREE_MS
from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import Statement, of, statement

LAST_NUMBER = statement("SELECT last_number FROM task_numbers")
PUT_NUMBER = c.put("task_numbers")
FIND = statement(f"SELECT {c.TASK} FROM tasks WHERE task_id = :task_id")
DEPENDENTS = statement(
    f"""
    SELECT {of("tasks", c.TASK)}
    FROM tasks
    JOIN task_waits ON task_waits.task_id = tasks.task_id
    WHERE task_waits.waits_for = :task_id
    ORDER BY tasks.number
    """
)
SLEEPING = statement(
    f"""
    SELECT {c.TASK}
    FROM tasks
    WHERE state = 'waiting'
      AND wakes_at_ms IS NOT NULL
      AND (wakes_at_ms <= :at_ms OR changed_at_ms - {CLOCKS_AGREE_MS} > :at_ms)
    ORDER BY number
    """
)
READY = statement(
    f"""
    SELECT {c.TASK}
    FROM tasks
    WHERE state = 'pending'
    ORDER BY priority DESC, number
    LIMIT :limit
    """
)
PAYLOAD = statement("SELECT payload FROM task_payloads WHERE task_id = :task_id")
REPORT = statement("SELECT report FROM task_reports WHERE task_id = :task_id AND number = :number")
LAST_REPORT = statement(
    """
    SELECT report
    FROM task_reports
    WHERE task_id = :task_id
    ORDER BY number DESC
    LIMIT 1
    """
)
FIND_ATTEMPT = statement(
    f"""
    SELECT {c.ATTEMPT} FROM task_attempts WHERE task_id = :task_id AND number = :number
    """
)
ATTEMPT_STATE = statement(
    "SELECT state FROM task_attempts WHERE task_id = :task_id AND number = :number"
)
ATTEMPTS = statement(
    f"SELECT {c.ATTEMPT} FROM task_attempts WHERE task_id = :task_id ORDER BY number"
)
ALL_TASKS = statement(f"SELECT {c.TASK} FROM tasks ORDER BY number")
ALL_ATTEMPTS = statement(f"SELECT {c.ATTEMPT} FROM task_attempts ORDER BY task_id, number")
LIVE_ATTEMPTS = statement(
    f"""
    SELECT {c.ATTEMPT} FROM task_attempts WHERE is_settled = 0 ORDER BY task_id, number
    """
)
LEADER = statement(f"SELECT {c.LEADER} FROM leaders WHERE role = :role")
PUT_LEADER = c.put("leaders")
PUT_TASK = c.put("tasks")
PUT_ATTEMPT = c.put("task_attempts", "task_id", "number")
PUT_REPORT = c.put("task_reports", "task_id", "number")
INSERT_PAYLOAD = statement(
    "INSERT INTO task_payloads (task_id, payload) VALUES (:task_id, :payload)"
)
INSERT_WAIT = statement("INSERT INTO task_waits (waits_for, task_id) VALUES (:waits_for, :task_id)")
REMOVE_WAITS = statement("DELETE FROM task_waits WHERE task_id = :task_id")
REMOVALS = [
    REMOVE_WAITS,
    statement("DELETE FROM task_reports WHERE task_id = :task_id"),
    statement("DELETE FROM task_attempts WHERE task_id = :task_id"),
    statement("DELETE FROM task_payloads WHERE task_id = :task_id"),
    statement("DELETE FROM tasks WHERE task_id = :task_id"),
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
    found = f"SELECT {c.TASK} FROM tasks {f'WHERE {where}' if where else ''}"
    return statement(f"{found} ORDER BY number DESC LIMIT :limit")
