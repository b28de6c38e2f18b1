"""Tasks on SQL: each decision reads its rows and is written down in one write transaction.

Nothing is kept in memory between transactions. So any overlord may die at any moment, and the next one decides the same
from the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from carnac.core.locks.events import ReleaseLocks
from carnac.core.tasks.events import TaskDecision, TaskEvent, TaskReply
from carnac.core.tasks.leadership import Candidacy, Leadership, decide_leader, decide_resignation
from carnac.core.tasks.machine import decide
from carnac.core.tasks.model import Attempt, AttemptState, RetryPolicy, Task, TaskState
from carnac.metadata.locking.locks import change_locks
from carnac.metadata.records.allocation import release_pending
from carnac.metadata.row_forms import Part, RowForm
from carnac.metadata.session import Session
from carnac.metadata.sql import tasks as sql
from carnac.metadata.sql.dialects import Statement
from carnac.ports import TaskFilter


def _names(column: str) -> Part:
    return Part((column,), lambda ids: (json.dumps(ids),), lambda text: tuple(json.loads(text)))


TASKS = RowForm(
    Task,
    dependencies=_names("dependencies"),
    waits_for=_names("waits_for"),
    retry=Part(
        ("retry_limit", "retry_delay_ms", "retry_longest_delay_ms"),
        lambda one: (one.limit, one.delay_ms, one.longest_delay_ms),
        lambda limit, delay_ms, longest_ms: RetryPolicy(
            limit=limit, delay_ms=delay_ms, longest_delay_ms=longest_ms
        ),
    ),
    state=TaskState,
)
ATTEMPTS = RowForm(Attempt, state=AttemptState, is_settled=bool)
LEADERS = RowForm(Leadership)


class SqlTaskView:
    """The stored tasks, inside a transaction (`TaskView`)."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def last_number(self) -> int:
        """Return the highest arrival number given so far."""
        row = self._session.row(sql.LAST_NUMBER)
        return 0 if row is None else int(row[0])

    def find(self, task_ids: Sequence[str]) -> list[Task]:
        """Return those of the tasks that there are."""
        return [task for one in task_ids for task in self._tasks(sql.FIND, task_id=one)]

    def dependents(self, task_id: str) -> list[Task]:
        """Return the tasks that wait for this one."""
        return self._tasks(sql.DEPENDENTS, task_id=task_id)

    def find_attempt(self, task_id: str, number: int) -> Attempt | None:
        """Return an attempt; None if there is none."""
        row = self._session.row(sql.FIND_ATTEMPT, task_id=task_id, number=number)
        return None if row is None else ATTEMPTS.value(row)

    def open_attempts(self) -> list[Attempt]:
        """Return the attempts that are not over."""
        return [one for one in load_live_attempts(self._session) if not one.state.is_over]

    def sleeping(self, at_ms: int) -> list[Task]:
        """Return the tasks whose pause before the next attempt is over."""
        return self._tasks(sql.SLEEPING, at_ms=at_ms)

    def ready(self, limit: int) -> list[Task]:
        """Return the first so many pending tasks, in order of rank."""
        return self._tasks(sql.READY, limit=limit)

    def leader(self, role: str) -> Leadership | None:
        """Return the leader of a role, or the last one."""
        return load_leader(self._session, role)

    def _tasks(self, stated: Statement, **params: object) -> list[Task]:
        return [TASKS.value(row) for row in self._session.rows(stated, **params)]


def change_tasks(session: Session, event: TaskEvent, at_ms: int) -> TaskReply:
    """Apply an event inside a write transaction; attempts that it ends lose their locks and reservations."""
    decision = decide_tasks(session, event, at_ms)
    for owner in decision.freed:
        change_locks(session, ReleaseLocks(task_id=owner), at_ms)
        release_pending(session, owner)
    return decision.reply


def decide_tasks(session: Session, event: TaskEvent, at_ms: int) -> TaskDecision:
    """Decide an event and write the decision down, all but the locks that it frees; inside a write transaction."""
    decision = decide(SqlTaskView(session), event, at_ms=at_ms)
    if decision.is_change:
        _write(session, decision)
    return decision


def change_leader(session: Session, candidacy: Candidacy, at_ms: int) -> Leadership:
    """Let a process become or remain the leader, if nobody else is; inside a write transaction."""
    now = load_leader(session, candidacy.role)
    leader = decide_leader(now, candidacy, at_ms=at_ms)
    if leader != now:
        session.run(sql.PUT_LEADER, **LEADERS.row(leader))
    return leader


def resign(session: Session, role: str, leader_id: str) -> None:
    """End a leadership; inside a write transaction."""
    now = load_leader(session, role)
    left = decide_resignation(now, leader_id)
    if left is not None and left != now:
        session.run(sql.PUT_LEADER, **LEADERS.row(left))


# -------------------------------------------------------------------------------------------------- reading


def load_leader(session: Session, role: str) -> Leadership | None:
    """Return the leader of a role, or the last one."""
    row = session.row(sql.LEADER, role=role)
    return None if row is None else LEADERS.value(row)


def load_tasks(session: Session, which: TaskFilter, limit: int) -> tuple[Task, ...]:
    """Return tasks, newest first."""
    params: dict[str, object] = {
        "datasource": which.datasource,
        "type": which.type,
        "group_id": which.group_id,
        "finished_until_ms": which.finished_until_ms,
        "before": which.before,
    }
    params = {name: value for name, value in params.items() if value is not None}
    if which.states is not None:
        params["states"] = session.array(str(state) for state in which.states)
    if which.created is not None:
        params["created_from_ms"] = which.created.start_ms
        params["created_before_ms"] = which.created.end_ms
    rows = session.rows(sql.listing(tuple(sorted(params))), limit=limit, **params)
    return tuple(TASKS.value(row) for row in rows)


def load_all_tasks(session: Session) -> tuple[list[Task], list[Attempt]]:
    """Return all tasks and all attempts there are."""
    tasks = [TASKS.value(row) for row in session.rows(sql.ALL_TASKS)]
    return tasks, [ATTEMPTS.value(row) for row in session.rows(sql.ALL_ATTEMPTS)]


def load_attempts(session: Session, task_id: str) -> tuple[Attempt, ...]:
    """Return the attempts of a task, the first one first."""
    return tuple(ATTEMPTS.value(row) for row in session.rows(sql.ATTEMPTS, task_id=task_id))


def load_live_attempts(session: Session) -> tuple[Attempt, ...]:
    """Return the attempts that are not over, or whose process is perhaps there yet."""
    return tuple(ATTEMPTS.value(row) for row in session.rows(sql.LIVE_ATTEMPTS))


def load_report(session: Session, task_id: str, number: int | None) -> str | None:
    """Return what an attempt did, or the last one that said."""
    row = (
        session.row(sql.LAST_REPORT, task_id=task_id)
        if number is None
        else session.row(sql.REPORT, task_id=task_id, number=number)
    )
    return None if row is None else str(row[0])


def load_payload(session: Session, task_id: str) -> str | None:
    """Return the task as it was submitted."""
    row = session.row(sql.PAYLOAD, task_id=task_id)
    return None if row is None else str(row[0])


# -------------------------------------------------------------------------------------------------- writing


def _write(session: Session, decision: TaskDecision) -> None:
    if decision.tasks:
        session.run_many(sql.REMOVE_WAITS, [{"task_id": one.task_id} for one in decision.tasks])
        waits = [
            {"waits_for": name, "task_id": task.task_id}
            for task in decision.tasks
            for name in task.waits_for
        ]
        session.run_many(sql.INSERT_WAIT, waits)
        session.run_many(sql.PUT_TASK, [*map(TASKS.row, decision.tasks)])
    session.run_many(sql.PUT_ATTEMPT, [*map(ATTEMPTS.row, decision.attempts)])
    session.run_many(
        sql.INSERT_PAYLOAD, [{"task_id": one, "payload": text} for one, text in decision.payloads]
    )
    session.run_many(
        sql.PUT_REPORT,
        [
            {"task_id": task_id, "number": number, "report": report}
            for task_id, number, report in decision.reports
        ],
    )
    for removal in sql.REMOVALS:
        session.run_many(removal, [{"task_id": one} for one in decision.removes])
    if decision.last_number is not None:
        session.run(sql.PUT_NUMBER, id=1, last_number=decision.last_number)
