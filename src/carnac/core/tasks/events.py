"""Events of tasks, and the answers to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from carnac.core.tasks.model import DEFAULT_RETRY, Attempt, RetryPolicy, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTask:
    """Somebody wants something done. Idempotent: the same task under the same id is the first one.

    Attributes:
        payload: The task as it was submitted, as JSON text.
        digest: Of `payload`.
        dependencies: Tasks that must succeed first; they are there already, so that no circle can be.
    """

    task_id: str
    type: str
    datasource: str
    group_id: str
    payload: str
    digest: str
    context: str
    priority: int
    slots: int = 1
    dependencies: tuple[str, ...] = ()
    retry: RetryPolicy = DEFAULT_RETRY


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchTasks:
    """The leading overlord has capacity: choose what starts now.

    Attributes:
        fence: Of its leadership.
        capacity: Slots in all, those in use included.
        lease_ms: How long an attempt that starts may take until its process says that it is there.
        runner: Name of the runner that starts them.
    """

    fence: int
    capacity: int
    lease_ms: int
    runner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfAttempt:
    """The task of an attempt that an event is about, and the attempt's number in it."""

    task_id: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHandle(OfAttempt):
    """The runner has started an attempt's process."""

    handle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VouchAttempt(OfAttempt):
    """The runner sees the process of an attempt, which has not said anything yet: it is starting, not dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAttempt(OfAttempt):
    """The attempt's process is there and begins. Only the first one that claims an attempt has it.

    Attributes:
        lease_ms: How long it outlives its last sign of life from now on; None: as long as it was given to start.
    """

    holder: str
    lease_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatAttempt(OfAttempt):
    """A sign of life of an attempt.

    Attributes:
        progress: How far it is, as JSON text; None: nothing new.
    """

    progress: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishAttempt(OfAttempt):
    """An attempt's process is done.

    Attributes:
        error: None: it succeeded.
        is_retryable: Whether another attempt may succeed where this one failed.
        report: Report of its work, as JSON text.
    """

    error: str | None = None
    is_retryable: bool = False
    report: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseAttempt(OfAttempt):
    """The attempt's process is known to be gone, before its lease is over."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireAttempts:
    """Time has passed: attempts that were not heard of for a whole lease are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleAttempt(OfAttempt):
    """The process of an attempt that was cancelled or lost is stopped, or there is none to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTask:
    """Somebody does not want it any more. No error if it is over."""

    task_id: str
    error: str = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTask:
    """Somebody wants a task that failed, or was cancelled, to be tried again; or one that waits for that, at once."""

    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTasks:
    """Remove what is known of these tasks, as far as they are over."""

    task_ids: tuple[str, ...]


AttemptEvent: TypeAlias = (
    RecordHandle
    | VouchAttempt
    | ClaimAttempt
    | BeatAttempt
    | FinishAttempt
    | LoseAttempt
    | SettleAttempt
)
TaskEvent: TypeAlias = (
    SubmitTask
    | CancelTask
    | RetryTask
    | ForgetTasks
    | DispatchTasks
    | ExpireAttempts
    | AttemptEvent
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The task as it is kept.

    Attributes:
        is_new: False: it was there before; nothing was changed.
    """

    task: Task
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """The attempts to start now, in order; recorded already."""

    started: tuple[tuple[Task, Attempt], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deposed:
    """The sender no longer leads; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The attempt has the right to what it did; how it and its task stand now."""

    task: Task
    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """The attempt has no right to the task any more: its process should stop.

    Attributes:
        task: None: it is not known, or not any more.
        attempt: As it ended.
    """

    task: Task | None
    attempt: Attempt | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The tasks that the event was about or that changed with it, in order of arrival."""

    tasks: tuple[Task, ...]


TaskReply: TypeAlias = Submitted | Dispatched | Deposed | Current | Stale | Changed


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDecision:
    """The outcome of an event.

    Attributes:
        tasks: As they are after it: new ones and changed ones.
        attempts: As they are after it: new ones and changed ones.
        payloads: By task id: texts of new tasks.
        reports: By (task id, attempt number): reports that came in.
        removes: Ids of tasks that are no more, with all that belongs to them.
        freed: Owners whose locks are released in the same transaction.
        last_number: The highest arrival number given so far; None: none was given here.
    """

    reply: TaskReply
    tasks: tuple[Task, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    payloads: tuple[tuple[str, str], ...] = ()
    reports: tuple[tuple[str, int, str], ...] = ()
    removes: tuple[str, ...] = ()
    freed: tuple[str, ...] = ()
    last_number: int | None = None

    @property
    def is_change(self) -> bool:
        """Whether there is anything to write down."""
        return bool(self.tasks or self.attempts or self.reports or self.removes or self.freed)
