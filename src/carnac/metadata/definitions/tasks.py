"""The statements over tasks, their attempts and who leads."""

from __future__ import annotations

from sqlalchemy import Table, bindparam, delete, insert, or_, select

from carnac.core.tasks.model import TaskState
from carnac.core.time.leases import CLOCKS_AGREE_MS
from carnac.metadata import tables as t
from carnac.metadata.definitions.building import dialect_statement, statement, upsert
from carnac.metadata.session import Statement

p = bindparam
c = t.tasks.c
a = t.task_attempts.c
_TASK = tuple(c)
_ATTEMPT = tuple(a)
LAST_NUMBER = statement(lambda: select(t.task_numbers.c.last_number))
PUT_NUMBER = dialect_statement(
    lambda dialect: upsert(t.task_numbers, dialect, {"last_number": "new"})
)
FIND = statement(lambda: select(*_TASK).where(c.task_id == p("task_id")))
DEPENDENTS = statement(
    lambda: (
        select(*_TASK)
        .join(t.task_waits, t.task_waits.c.task_id == c.task_id)
        .where(t.task_waits.c.waits_for == p("task_id"))
        .order_by(c.number)
    )
)
SLEEPING = statement(
    lambda: (
        select(*_TASK)
        .where(
            c.state == str(TaskState.WAITING),
            c.wakes_at_ms.is_not(None),
            or_(c.wakes_at_ms <= p("at_ms"), c.changed_at_ms - CLOCKS_AGREE_MS > p("at_ms")),
        )
        .order_by(c.number)
    )
)
READY = statement(
    lambda: (
        select(*_TASK)
        .where(c.state == str(TaskState.PENDING))
        .order_by(c.priority.desc(), c.number)
        .limit(p("limit"))
    )
)
PAYLOAD = statement(
    lambda: select(t.task_payloads.c.payload).where(t.task_payloads.c.task_id == p("task_id"))
)
REPORT = statement(
    lambda: select(t.task_reports.c.report).where(
        t.task_reports.c.task_id == p("task_id"), t.task_reports.c.number == p("number")
    )
)
LAST_REPORT = statement(
    lambda: (
        select(t.task_reports.c.report)
        .where(t.task_reports.c.task_id == p("task_id"))
        .order_by(t.task_reports.c.number.desc())
        .limit(t.ONE)
    )
)
FIND_ATTEMPT = statement(
    lambda: select(*_ATTEMPT).where(a.task_id == p("task_id"), a.number == p("number"))
)
ATTEMPT_STATE = statement(
    lambda: select(a.state).where(a.task_id == p("task_id"), a.number == p("number"))
)
ATTEMPTS = statement(lambda: select(*_ATTEMPT).where(a.task_id == p("task_id")).order_by(a.number))
ALL_TASKS = statement(lambda: select(*_TASK).order_by(c.number))
ALL_ATTEMPTS = statement(lambda: select(*_ATTEMPT).order_by(a.task_id, a.number))
LIVE_ATTEMPTS = statement(
    lambda: select(*_ATTEMPT).where(a.is_settled == t.ZERO).order_by(a.task_id, a.number)
)
LEADER = statement(lambda: select(*t.leaders.c).where(t.leaders.c.role == p("role")))
PUT_LEADER = dialect_statement(
    lambda dialect: upsert(
        t.leaders, dialect, {one.name: "new" for one in t.leaders.c if not one.primary_key}
    )
)
PUT_TASK = dialect_statement(
    lambda dialect: upsert(t.tasks, dialect, {one.name: "new" for one in c if not one.primary_key})
)
PUT_ATTEMPT = dialect_statement(
    lambda dialect: upsert(
        t.task_attempts, dialect, {one.name: "new" for one in a if not one.primary_key}
    )
)
PUT_REPORT = dialect_statement(lambda dialect: upsert(t.task_reports, dialect, {"report": "new"}))
INSERT_PAYLOAD = statement(lambda: insert(t.task_payloads))
INSERT_WAIT = statement(lambda: insert(t.task_waits))


def _removal(table: Table) -> Statement:
    return statement(lambda: delete(table).where(table.c.task_id == p("task_id")))


REMOVE_WAITS = _removal(t.task_waits)
REMOVALS = [
    REMOVE_WAITS,
    *map(_removal, (t.task_reports, t.task_attempts, t.task_payloads, t.tasks)),
]
