"""Common parts of tests of tasks: short events, and a naive oracle straight from the rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from carnac.core.tasks.events import DispatchTasks, SubmitTask
from carnac.core.tasks.leadership import Candidacy
from carnac.core.tasks.machine import OVERLORD
from carnac.core.tasks.model import RetryPolicy

LEASE_MS = 60_000


def wants(
    task_id: str,
    *,
    priority: int = 50,
    slots: int = 1,
    after: tuple[str, ...] = (),
    retries: int = 0,
    payload: str = "{}",
    datasource: str = "events",
    type: str = "index_parallel",  # noqa: A002 - the word of the port
) -> SubmitTask:
    """Return the submission of a task."""
    return SubmitTask(
        task_id=task_id,
        type=type,
        datasource=datasource,
        group_id=task_id,
        payload=payload,
        digest=payload,
        context="{}",
        priority=priority,
        slots=slots,
        dependencies=after,
        retry=RetryPolicy(limit=retries, delay_ms=1_000, longest_delay_ms=4_000),
    )


def candidacy(leader_id: str = "one", *, lease_ms: int = LEASE_MS, url: str = "") -> Candidacy:
    """Return a candidacy for the overlord's leadership."""
    return Candidacy(
        role=OVERLORD,
        leader_id=leader_id,
        holder=f"overlord {leader_id}",
        url=url,
        lease_ms=lease_ms,
    )


def dispatch(fence: int = 1, *, capacity: int = 2) -> DispatchTasks:
    """Return a leader's call for work."""
    return DispatchTasks(fence=fence, capacity=capacity, lease_ms=LEASE_MS, runner="fake")


@dataclass
class Try:
    """An attempt as the oracle knows it."""

    slots: int
    heard_ms: int
    state: str = "starting"

    @property
    def is_open(self) -> bool:
        return self.state in {"starting", "running"}


@dataclass
class Known:
    """A task as the oracle knows it."""

    number: int
    event: SubmitTask
    end: str | None = None
    failures: int = 0
    wakes_ms: int | None = None
    tries: list[Try] = field(default_factory=list)


class Oracle:
    """The rules of tasks as a person would say them: states are looked up from scratch, over all tasks, every time."""

    def __init__(self) -> None:
        self.at_ms = 0
        self.tasks: dict[str, Known] = {}

    def state(self, name: str) -> str:
        """Where the task is in its life."""
        task = self.tasks[name]
        if task.end is not None:
            return task.end
        if task.tries and task.tries[-1].is_open:
            return "running"
        waits = [one for one in task.event.dependencies if self.state(one) != "succeeded"]
        if waits or (task.wakes_ms is not None and task.wakes_ms > self.at_ms):
            return "waiting"
        return "pending"

    def submit(self, event: SubmitTask) -> str:
        """`new`, `known`, or `refused`."""
        if event.task_id in self.tasks:
            return "known"
        for one in event.dependencies:
            if one not in self.tasks or self.state(one) in {"failed", "cancelled"}:
                return "refused"
        self.tasks[event.task_id] = Known(len(self.tasks) + 1, event)
        return "new"

    def dispatch(self, capacity: int) -> list[str]:
        """Start what is first, as long as it fits; nobody overtakes."""
        started: list[str] = []
        while True:
            used = sum(
                one.slots for task in self.tasks.values() for one in task.tries if one.is_open
            )
            queue = [name for name in self.tasks if self.state(name) == "pending"]
            if not queue:
                return started
            first = min(
                queue, key=lambda name: (-self.tasks[name].event.priority, self.tasks[name].number)
            )
            slots = min(self.tasks[first].event.slots, capacity)
            if used + slots > capacity:
                return started
            self.tasks[first].wakes_ms = None
            self.tasks[first].tries.append(Try(slots, self.at_ms))
            started.append(first)

    def find_try(self, name: str, number: int) -> Try | None:
        """The attempt, if there is one."""
        tries = self.tasks[name].tries if name in self.tasks else []
        return tries[number - 1] if 1 <= number <= len(tries) else None

    def claim(self, name: str, number: int) -> bool:
        """Whether the attempt is this process's now."""
        found = self.find_try(name, number)
        if found is None or found.state != "starting":
            return False
        found.state, found.heard_ms = "running", self.at_ms
        return True

    def beat(self, name: str, number: int) -> bool:
        """Whether the attempt has its right still."""
        found = self.find_try(name, number)
        if found is None or found.state != "running":
            return False
        found.heard_ms = self.at_ms
        return True

    def succeed(self, name: str, number: int) -> bool:
        """Whether the success counts."""
        found = self.find_try(name, number)
        is_last = found is not None and number == len(self.tasks[name].tries)
        is_late = found is not None and found.state == "lost" and is_last
        if found is None or not (
            found.state == "running" or (is_late and self.state(name) in {"waiting", "pending"})
        ):
            return False
        found.state = "succeeded"
        self.tasks[name].end, self.tasks[name].wakes_ms = "succeeded", None
        return True

    def fail(self, name: str, number: int, state: str, *, is_retryable: bool) -> bool:
        """Whether the failure counts; tasks that depend on one that fails for good fail too."""
        found = self.find_try(name, number)
        if found is None or not found.is_open:
            return False
        found.state = state
        task = self.tasks[name]
        task.failures += 1
        policy = task.event.retry
        if is_retryable and task.failures <= policy.limit:
            pause_ms = policy.delay_ms
            for _ in range(task.failures - 1):
                pause_ms = min(2 * pause_ms, policy.longest_delay_ms)
            task.wakes_ms = self.at_ms + pause_ms
        else:
            self._end(name, "failed")
        return True

    def expire(self) -> None:
        """Give up whoever was not heard of for a lease."""
        for name in sorted(self.tasks):
            for number, one in enumerate(self.tasks[name].tries, start=1):
                if one.is_open and one.heard_ms + LEASE_MS <= self.at_ms:
                    self.fail(name, number, "lost", is_retryable=True)

    def cancel(self, name: str) -> None:
        """Nobody wants it any more."""
        task = self.tasks[name]
        if task.end is None:
            if task.tries and task.tries[-1].is_open:
                task.tries[-1].state = "cancelled"
            self._end(name, "cancelled")

    def retry(self, name: str) -> bool:
        """Whether it is tried again."""
        task = self.tasks[name]
        if task.end in {"failed", "cancelled"}:
            if any(self.state(one) in {"failed", "cancelled"} for one in task.event.dependencies):
                return False
        elif task.wakes_ms is None:
            return False
        task.end, task.failures, task.wakes_ms = None, 0, None
        return True

    def _end(self, name: str, state: str) -> None:
        self.tasks[name].end, self.tasks[name].wakes_ms = state, None
        for other, task in self.tasks.items():
            if task.end is None and name in task.event.dependencies:
                self._end(other, "failed")
