"""The lockbox on SQL: each decision reads its rows and is written down in one write transaction.

Nothing is kept in memory between transactions. So any process may die at any moment, and the next one decides the same
from the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from carnac.core.locks.events import Decision, LockEvent, LockReply, RequestLock
from carnac.core.locks.machine import decide
from carnac.core.locks.model import Lock, LockState, LockType, Reason, Revocation
from carnac.core.segments.version import parse_id_ranges
from carnac.core.tasks.model import AttemptState, check_may_own, parse_lock_owner
from carnac.core.time.intervals import Interval
from carnac.metadata.row_forms import INTERVAL, Part, RowForm
from carnac.metadata.session import Row, Session
from carnac.metadata.sql import locks as sql
from carnac.metadata.sql import tasks as tasks_sql
from carnac.metadata.sql.dialects import Statement


def _revocation(reason: str | None, at_ms: int, by: int) -> Revocation | None:
    return None if reason is None else Revocation(reason=Reason(reason), at_ms=at_ms, by=by)


LOCKS = RowForm(
    Lock,
    interval=INTERVAL,
    partitions=Part(
        ("partitions",),
        lambda ids: (None if ids is None else str(ids),),
        lambda text: None if text is None else parse_id_ranges(text),
    ),
    type=LockType,
    state=LockState,
    is_publishing=bool,
    revocation=Part(
        ("revoked_reason", "revoked_at_ms", "revoked_by"),
        lambda end: (None,) * 3 if end is None else (str(end.reason), end.at_ms, end.by),
        _revocation,
    ),
)


class SqlLockView:
    """The stored locks, inside a transaction (`LockView`). Locks that were read are kept until `forget`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._read: dict[object, list[Lock]] = {}
        self._made: dict[Row, Lock] = {}

    def read_for(self, request: RequestLock) -> None:
        """Read at once what deciding the request needs, as far as it is not known."""
        where = request.interval
        if (request.datasource, where) in self._read:
            if request.task_id not in self._read:
                self.read_tasks([request.task_id])
            return
        rows = self._session.rows(
            sql.FOR_REQUEST,
            task_id=request.task_id,
            datasource=request.datasource,
            start_ms=where.start_ms,
            end_ms=where.end_ms,
        )
        self._session.memo["lock_number"] = int(rows[0][0]) if rows else 0
        locks = [self._lock(row[1:]) for row in rows if row[1] is not None]
        self._read[request.task_id] = [one for one in locks if one.task_id == request.task_id]
        self._read[request.datasource, where] = [
            one
            for one in locks
            if one.datasource == request.datasource and one.interval.overlaps(where)
        ]

    def read_tasks(self, task_ids: Sequence[str]) -> None:
        """Read at once all locks of these tasks."""
        self._read.update((task_id, []) for task_id in task_ids)
        for lock in self._locks(sql.OF_TASKS, task_ids=self._session.array(task_ids)):
            self._read[lock.task_id].append(lock)

    def forget(self) -> None:
        """Read anew from here on: something has changed."""
        self._read.clear()

    def last_number(self) -> int:
        """Return the highest arrival number or fence given so far."""
        known: int | None = self._session.memo.get("lock_number")
        if known is None:
            row = self._session.row(sql.LAST_NUMBER)
            known = 0 if row is None else int(row[0])
            self._session.memo["lock_number"] = known
        return known

    def overlapping(self, datasource: str, interval: Interval) -> Sequence[Lock]:
        """Return the locks of the datasource that share an instant with `interval`."""
        known = self._read.get((datasource, interval))
        if known is not None:
            return known
        return self._locks(
            sql.OVERLAPPING,
            datasource=datasource,
            start_ms=interval.start_ms,
            end_ms=interval.end_ms,
        )

    def of_task(self, task_id: str) -> Sequence[Lock]:
        """Return all locks of the task."""
        known = self._read.get(task_id)
        if known is not None:
            return known
        return self._locks(sql.OF_TASK, task_id=task_id)

    def find(self, lock_ids: Sequence[int]) -> Sequence[Lock]:
        """Return those of the locks that there are."""
        return self._locks(sql.FIND, lock_ids=self._session.array(lock_ids))

    def due(self, at_ms: int) -> Sequence[Lock]:
        """Return the locks past their lease, those that waited long enough, and the revoked ones."""
        return self._locks(sql.DUE, at_ms=at_ms)

    def _locks(self, stated: Statement, **params: object) -> list[Lock]:
        return [self._lock(row) for row in self._session.rows(stated, **params)]

    def _lock(self, row: Row) -> Lock:
        """Return the lock in a row; rows of one transaction come again and again."""
        row = tuple(row)
        lock = self._made.get(row)
        if lock is None:
            lock = self._made[row] = LOCKS.value(row)
        return lock


def change_locks(
    session: Session, event: LockEvent, at_ms: int, *, view: SqlLockView | None = None
) -> LockReply:
    """Decide an event and write the decision down, inside a write transaction.

    Args:
        view: View of the same transaction; None: a new one. Locks that it has read for one request are not read again
            for the next. The caller has checked the owners of the requests.

    Raises:
        Revoked: An attempt that is over asks for a lock.
    """
    if view is None:
        view = SqlLockView(session)
        if isinstance(event, RequestLock):
            check_owner(session, event.task_id)
    if isinstance(event, RequestLock):
        view.read_for(event)
    decision = decide(view, event, at_ms=at_ms)
    if decision.is_change:
        view.forget()
        _write(session, decision)
    return decision.reply


def check_owner(session: Session, owner: str) -> None:
    """Refuse one that is an attempt which is over; raises Revoked."""
    named = parse_lock_owner(owner)
    if named is not None:
        row = session.row(tasks_sql.ATTEMPT_STATE, task_id=named[0], number=named[1])
        check_may_own(owner, None if row is None else AttemptState(row[0]))


def load_locks(session: Session, datasource: str | None = None) -> tuple[Lock, ...]:
    """Return the locks of a datasource, or all, in order of arrival."""
    rows = (
        session.rows(sql.ALL)
        if datasource is None
        else session.rows(sql.ALL_OF, datasource=datasource)
    )
    return tuple(map(LOCKS.value, rows))


def _write(session: Session, decision: Decision) -> None:
    if decision.beat is not None:
        session.run(sql.BEAT, k_task_id=decision.beat, at_ms=decision.at_ms)
    if decision.removes:
        session.run(sql.REMOVE, lock_ids=session.array(decision.removes))
    session.run_many(sql.PUT, [LOCKS.row(lock) for lock in decision.puts])
    if decision.last_number is not None:
        session.run(sql.PUT_NUMBER, id=1, last_number=decision.last_number)
        session.memo["lock_number"] = decision.last_number
