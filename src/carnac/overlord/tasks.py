"""Tasks for people and programs: submit, look, cancel, try again. Every call is one transaction, no state is here."""

from __future__ import annotations

import builtins
import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from carnac.core.arguments import checked
from carnac.core.redaction import show_submitted
from carnac.core.tasks.context import parse_task_context
from carnac.core.tasks.events import (
    CancelTask,
    Changed,
    ForgetTasks,
    RetryTask,
    SubmitTask,
    Submitted,
)
from carnac.core.tasks.leadership import Leadership
from carnac.core.tasks.machine import OVERLORD
from carnac.core.tasks.model import Attempt, Task, TaskState
from carnac.core.texts import NAME_MAX
from carnac.core.time.intervals import format_ms
from carnac.core.time.leases import is_over
from carnac.errors import NotFound
from carnac.overlord.waiting import Waiting
from carnac.ports import Clock, IdSource, TaskFilter, TaskRunner
from carnac.ports.loops import safely
from carnac.ports.tasks import EVERY_TASK

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore
    from carnac.specs.tasks.spec import AnyTask

OVER = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED)
TRIM_PAGE = 500
"""Tasks that are forgotten in one transaction."""
TASKS_MAX = 1_000_000
"""Tasks in one answer: more than a store keeps."""

_log = logging.getLogger(__name__)


@checked
class TaskService(Waiting):
    """The tasks of a store. Safe for many threads and processes; an overlord need not run.

    Args:
        load: Reads a submitted task, or raises one error that names all problems.
        runners: Runners by name, which find the logs of attempts.
    """

    longest_pause_ms = 1_000

    def __init__(
        self,
        metadata: MetadataStore,
        clock: Clock,
        ids: IdSource,
        *,
        load: Callable[[Mapping[str, object]], AnyTask],
        runners: Mapping[str, TaskRunner] | None = None,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._ids = ids
        self._load = load
        self._runners = runners or {}

    def submit(self, payload: Mapping[str, object]) -> Task:
        """Keep a task; return it as it is kept. A second task with the same id and content is the first one.

        Raises:
            Invalid: The task is wrong; one sentence names every problem.
            NotFound: The task depends on one that does not exist.
            Conflict: There is another task of that id, or it depends on one that failed.
        """
        head = self._load(payload)
        how = parse_task_context(head.type, head.context, is_append=head.is_append)
        task_id = head.task_id or self._new_id(head.type, head.datasource)
        text = json.dumps({**payload, "id": task_id}, ensure_ascii=False, sort_keys=True)
        reply = self._metadata.change_tasks(
            SubmitTask(
                task_id=task_id,
                type=head.type,
                datasource=head.datasource,
                group_id=head.group_id or task_id,
                payload=text,
                digest=hashlib.sha256(text.encode()).hexdigest(),
                context=json.dumps(dict(head.context), ensure_ascii=False),
                priority=how.priority,
                slots=how.slots,
                dependencies=head.dependencies,
                retry=how.retry,
            )
        )
        return cast("Submitted", reply).task

    def get(self, task_id: str) -> Task:
        """Return a task.

        Raises:
            NotFound: There is none of that id, or not any more.
        """
        task = self._metadata.find_task(task_id)
        if task is None:
            raise NotFound(f"there is no task {task_id}, or not any more", task_id=task_id)
        return task

    def list(self, which: TaskFilter = EVERY_TASK, *, limit: int = 100) -> Sequence[Task]:
        """Return tasks, newest first, `limit` at most: those that meet all that `which` asks for (by default all)."""
        return self._metadata.tasks(which, limit=limit)

    def check_datasource(self, datasource: str) -> None:
        """Check that there is a datasource, or at least a task for it.

        Raises:
            NotFound: There is neither.
        """
        if not self._metadata.tasks(TaskFilter(datasource=datasource), limit=1):
            self._metadata.require_datasource(datasource)

    def attempts(self, task_id: str) -> Sequence[Attempt]:
        """Return the attempts of a task, the first one first.

        Raises:
            NotFound: There is no such task.
        """
        self.get(task_id)
        return self._metadata.attempts(task_id)

    def live_attempts(self) -> Sequence[Attempt]:
        """Return the attempts of all tasks that are not over."""
        return [one for one in self._metadata.live_attempts() if not one.state.is_over]

    def payload(self, task_id: str) -> Mapping[str, object]:
        """Return a task as it was submitted, with its id; secrets in it are hidden.

        Raises:
            NotFound: There is no such task.
        """
        self.get(task_id)
        text = self._metadata.task_payload(task_id) or "{}"
        return show_submitted(json.loads(text))

    def report(self, task_id: str, number: int | None = None) -> Mapping[str, object] | None:
        """Return what an attempt did (None: the last one that said); None if there is nothing.

        Raises:
            NotFound: There is no such task.
        """
        self.get(task_id)
        text = self._metadata.task_report(task_id, number)
        return None if text is None else cast("Mapping[str, object]", json.loads(text))

    def log(
        self, task_id: str, number: int | None = None, *, tail_bytes: int | None = None
    ) -> str | None:
        """Return what an attempt wrote (None: the last one); None if that cannot be read from here.

        Raises:
            NotFound: There is no such task or attempt.
        """
        attempts = self.attempts(task_id)
        if number is None and not attempts:
            return None
        chosen = [one for one in attempts if number in {None, one.number}]
        if not chosen:
            raise NotFound(
                f"task {task_id} has no attempt {number}; it has {len(attempts)}", task_id=task_id
            )
        runner = self._runners.get(chosen[-1].runner)
        return None if runner is None else runner.read_log(chosen[-1], tail_bytes=tail_bytes)

    def cancel(self, task_id: str, *, reason: str = "cancelled by request") -> Task:
        """End a task that is not over; it will publish no more. Idempotent.

        Raises:
            NotFound: There is no such task.
        """
        self._metadata.change_tasks(CancelTask(task_id=task_id, error=reason))
        return self.get(task_id)

    def retry(self, task_id: str) -> Task:
        """Try a task again that failed or was cancelled; or now, if it waits for its next attempt.

        Raises:
            NotFound: There is no such task.
            Conflict: The task runs, or has succeeded, or depends on a task that has not.
        """
        self._metadata.change_tasks(RetryTask(task_id=task_id))
        return self.get(task_id)

    def leader(self) -> Leadership | None:
        """Return the overlord that leads; None if none does now."""
        leader = self._metadata.leader(OVERLORD)
        now_ms = self._clock.now_ms()
        if leader is None or is_over(leader.heartbeat_at_ms, leader.lease_ms, now_ms):
            return None
        return leader

    def trim(self, *, retention_ms: int, dry_run: bool = False) -> builtins.list[Task]:
        """Forget tasks that were over for so long, with their logs and reports; return them.

        Args:
            dry_run: Forget nothing; return those that would be, `TASKS_MAX` at most.
        """
        which = TaskFilter(states=OVER, finished_until_ms=self._clock.now_ms() - retention_ms)
        if dry_run:
            return [*self._metadata.tasks(which, limit=TASKS_MAX)]
        trimmed: list[Task] = []
        while page := self._metadata.tasks(which, limit=TRIM_PAGE):
            for task in page:
                for attempt in self._metadata.attempts(task.task_id):
                    runner = self._runners.get(attempt.runner)
                    if runner is not None:
                        safely(
                            _log,
                            f"removing the log of {attempt.lock_owner!r}",
                            partial(runner.forget, attempt),
                        )
            ids = tuple(task.task_id for task in page)
            reply = cast("Changed", self._metadata.change_tasks(ForgetTasks(task_ids=ids)))
            trimmed += reply.tasks
            if not reply.tasks:
                break
        return trimmed

    def close(self) -> None:
        """Release connections. Idempotent."""
        self._metadata.close()

    def _new_id(self, task_type: str, datasource: str) -> str:
        """Return an id as Druid makes them: type, datasource (the beginning of a long one), eight letters, time."""
        digest = hashlib.sha256(self._ids.new_id().encode()).digest()
        letters = "".join(chr(ord("a") + byte % 26) for byte in digest[:8])
        rest = f"_{letters}_{format_ms(self._clock.now_ms())}"
        return f"{task_type}_{datasource}"[: NAME_MAX - len(rest)] + rest
