"""The statements of the lockbox."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, or_, select, update

from carnac.core.locks.model import LockState
from carnac.metadata import tables as t
from carnac.metadata.definitions.building import (
    IsIn,
    dialect_statement,
    is_over,
    statement,
    upsert,
)

p = bindparam
c = t.locks.c
_COLUMNS = tuple(c)
_REVOKED = str(LockState.REVOKED)
_WAITING = str(LockState.WAITING)
LAST_NUMBER = statement(lambda: select(t.lock_numbers.c.last_number))
PUT_NUMBER = dialect_statement(
    lambda dialect: upsert(t.lock_numbers, dialect, {"last_number": "new"})
)
FOR_REQUEST = statement(
    lambda: select(t.lock_numbers.c.last_number, *_COLUMNS).select_from(
        t.lock_numbers.outerjoin(
            t.locks,
            or_(
                c.task_id == p("task_id"),
                (c.datasource == p("datasource"))
                & (c.start_ms < p("end_ms"))
                & (c.end_ms > p("start_ms")),
            ),
        )
    )
)
"""All that deciding a request nearly always needs, in one journey to the database; no row before the first lock."""
OVERLAPPING = statement(
    lambda: select(*_COLUMNS).where(
        c.datasource == p("datasource"), c.start_ms < p("end_ms"), c.end_ms > p("start_ms")
    )
)
OF_TASK = statement(lambda: select(*_COLUMNS).where(c.task_id == p("task_id")))
OF_TASKS = statement(lambda: select(*_COLUMNS).where(IsIn(c.task_id, "task_ids")))
FIND = statement(lambda: select(*_COLUMNS).where(IsIn(c.lock_id, "lock_ids")))
DUE = statement(
    lambda: select(*_COLUMNS).where(
        or_(
            is_over(c.heartbeat_at_ms, c.lease_ms, p("at_ms")),
            c.state == _REVOKED,
            (c.state == _WAITING) & (c.waits_until_ms <= p("at_ms")),
        )
    )
)
ALL = statement(lambda: select(*_COLUMNS).order_by(c.lock_id))
ALL_OF = statement(
    lambda: select(*_COLUMNS).where(c.datasource == p("datasource")).order_by(c.lock_id)
)
PUT = dialect_statement(
    lambda dialect: upsert(
        t.locks, dialect, {column.name: "new" for column in c if not column.primary_key}
    )
)
REMOVE = statement(lambda: delete(t.locks).where(IsIn(c.lock_id, "lock_ids")))
BEAT = statement(
    lambda: (
        update(t.locks)
        .where(
            c.task_id == p("k_task_id"),
            c.state != _REVOKED,
        )
        .values(heartbeat_at_ms=p("at_ms"))
    )
)
