"""The part of a metadata store on SQL that keeps tasks (`TaskRecords`); `tasks` does the work when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from carnac.core.time.leases import CLOCKS_AGREE_MS
from carnac.metadata.sql import checks
from carnac.metadata.transactions import SqlTransactions
from carnac.ports.tasks import EVERY_TASK

if TYPE_CHECKING:
    from carnac.core.tasks.events import TaskEvent, TaskReply
    from carnac.core.tasks.leadership import Candidacy, Leadership
    from carnac.core.tasks.model import Attempt, Task
    from carnac.ports import TaskFilter


class TaskRecords(SqlTransactions):
    """Tasks, attempts and leaders. Safe for use by many threads and processes at once.

    Errors, besides those named: Unavailable when the database does not answer.
    """

    def change_tasks(self, event: TaskEvent) -> TaskReply:
        """Apply an event to the tasks, in one transaction; return the answer.

        `core.tasks.machine.decide` decides the outcome, at the store's own time. Locks of attempts that the event ends
        are released in the same transaction.

        Raises:
            Invalid, NotFound, Conflict: As `decide`.
        """
        from carnac.metadata.records import tasks as sql

        return self._write(lambda session: sql.change_tasks(session, event, self._clock.now_ms()))

    def find_task(self, task_id: str) -> Task | None:
        """Return a task; None if there is none, or not any more."""
        from carnac.metadata.records import tasks as sql

        with self._read() as session:
            return next(iter(sql.SqlTaskView(session).find((task_id,))), None)

    def tasks(self, which: TaskFilter = EVERY_TASK, *, limit: int = 100) -> tuple[Task, ...]:
        """Return tasks, newest first."""
        from carnac.metadata.records import tasks as sql

        with self._read() as session:
            return sql.load_tasks(session, which, limit)

    def task_payload(self, task_id: str) -> str | None:
        """Return the task as it was submitted, as JSON text; None if there is no such task."""
        from carnac.metadata.records import tasks as sql

        with self._read() as session:
            return sql.load_payload(session, task_id)

    def task_report(self, task_id: str, number: int | None = None) -> str | None:
        """Return what an attempt did, as JSON text (None: the last one that said); None if there is nothing."""
        from carnac.metadata.records import tasks as sql

        with self._read() as session:
            return sql.load_report(session, task_id, number)

    def attempts(self, task_id: str) -> tuple[Attempt, ...]:
        """Return the attempts of a task, the first one first."""
        from carnac.metadata.records import tasks as sql

        with self._read() as session:
            return sql.load_attempts(session, task_id)

    def live_attempts(self) -> tuple[Attempt, ...]:
        """Return the attempts of all tasks that are not over, or whose process is perhaps there yet."""
        from carnac.metadata.records import tasks as sql

        with self._read() as session:
            return sql.load_live_attempts(session)

    def server_now_ms(self) -> int | None:
        """Return the time of the database's server; None if it has no clock of its own."""
        with self._read() as session:
            row = session.row(checks.SERVER_NOW)
            return None if row is None else row[0]

    def ahead(self) -> Mapping[str, int]:
        """Return whose last sign of life is from ahead of now by more than `CLOCKS_AGREE_MS`, and by how many ms."""
        now_ms = self._clock.now_ms()
        with self._read() as session:
            signs = {
                holder: at_ms - now_ms
                for holder, at_ms in session.rows(checks.SIGNS_AFTER, at_ms=now_ms)
            }
        return {holder: ms for holder, ms in signs.items() if ms > CLOCKS_AGREE_MS}

    def lead(self, candidacy: Candidacy) -> Leadership:
        """Become or remain the leader, if nobody else is; return the leader."""
        from carnac.metadata.records import tasks as sql

        return self._write_own(
            lambda session: sql.change_leader(session, candidacy, self._clock.now_ms()),
            is_durable=True,
        )

    def resign(self, role: str, leader_id: str) -> None:
        """Stop leading, so that another one takes over at once. Idempotent."""
        from carnac.metadata.records import tasks as sql

        self._write(lambda session: sql.resign(session, role, leader_id))

    def leader(self, role: str) -> Leadership | None:
        """Return the leader of a role, or the last one; None if there never was one."""
        from carnac.metadata.records import tasks as sql

        with self._read() as session:
            return sql.load_leader(session, role)
