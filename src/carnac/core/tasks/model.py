"""Tasks and attempts as data, and the rules that everything else follows from.

A *task* is a durable decision that something should be done. An *attempt* is one try at it, by one process. The number
of an attempt is its fence: it is claimed once, and once a later attempt exists, or the task is over, an earlier one has
no right left to say anything about the task; its locks are released in the transaction that ends it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from carnac.core.arguments import checked
from carnac.core.json_form import to_json
from carnac.core.redaction import show_settings
from carnac.core.time.leases import is_over
from carnac.errors import Revoked

NUMBER_DIGITS_MAX = 9
"""Maximum number of digits of an attempt's number."""


SELECTED = "__query_select"
"""The datasource of a task that runs a SELECT, as Druid calls it."""


class TaskState(StrEnum):
    """Where a task is in its life."""

    WAITING = "waiting"
    """For other tasks that must succeed first, or for the time of its next attempt."""
    PENDING = "pending"
    """Ready, waits for a slot."""
    RUNNING = "running"
    """Has an attempt that is starting or at work."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """Whether nothing will happen to it any more, unless somebody asks for a retry."""
        return self in _OVER


_OVER = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED})


class AttemptState(StrEnum):
    """Where an attempt is in its life."""

    STARTING = "starting"
    """Given to a runner; its process has not said anything yet."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    """Its process was not heard of for a whole lease, or is known to be gone."""
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self not in {AttemptState.STARTING, AttemptState.RUNNING}


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and how soon, a task is tried again by itself.

    Attributes:
        limit: Most failures that are followed by another attempt; 0: none.
        delay_ms: Pause before the second attempt; it doubles with each failure.
        longest_delay_ms: Longest pause that it doubles up to.
    """

    limit: int = 3
    delay_ms: int = 1_000
    longest_delay_ms: int = 300_000

    def pause_ms(self, failures: int) -> int:
        """Return the pause after so many failures (at least 1)."""
        doublings = min(failures - 1, 62)
        return min(self.delay_ms << doublings, self.longest_delay_ms)


DEFAULT_RETRY = RetryPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A durable decision that something should be done.

    Attributes:
        task_id: As its submitter says, else made.
        number: Arrival number: unique in the store, growing.
        type: Kind of its work: `index_parallel`, `compact`, `delete`, `kill`, …
        datasource: Datasource that it is about.
        group_id: Tasks of one group share their locks.
        digest: Of the task as it was submitted, to know it again. The text itself is kept apart: it may be long.
        context: Its context (`priority`, `forceTimeChunkLock`, ...), as JSON text.
        priority: A higher one is dispatched first, and its locks preempt lower ones.
        slots: How much of the overlord's capacity an attempt takes; at least 1.
        dependencies: Tasks that must succeed before it starts.
        waits_for: Those of them that have not yet.
        retry: How often it is tried again by itself.
        failures: Attempts that failed or were lost since it was submitted, or since a retry was last asked for.
        attempts: Attempts made so far: the number of the last one.
        state: How it stands.
        wakes_at_ms: While it waits for its next attempt: when that may be.
        created_at_ms: When it was submitted.
        changed_at_ms: Since when it is in its state.
        started_at_ms: When its first attempt was dispatched.
        finished_at_ms: When it was over.
        error: Why it failed, was cancelled, or is tried again; one sentence.
    """

    task_id: str
    number: int
    type: str
    datasource: str
    group_id: str
    digest: str
    context: str = field(default="{}", repr=False)
    priority: int
    slots: int = 1
    dependencies: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    retry: RetryPolicy = DEFAULT_RETRY
    failures: int = 0
    attempts: int = 0
    state: TaskState
    wakes_at_ms: int | None = None
    created_at_ms: int
    changed_at_ms: int
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    error: str | None = None

    @property
    def rank(self) -> tuple[int, int]:
        """Place in the queue, the first one lowest: by priority, then arrival."""
        return (-self.priority, self.number)


def parse_lock_owner(owner: str) -> tuple[str, int] | None:
    """Return the task and the number of the attempt that holds locks under this name; None: it is no attempt's."""
    task_id, slash, number = owner.rpartition("/")
    is_number = number.isascii() and number.isdecimal() and len(number) <= NUMBER_DIGITS_MAX
    return (task_id, int(number)) if slash and task_id and is_number else None


def check_may_own(owner: str, state: AttemptState | None) -> None:
    """TK-7: only an attempt that is not over gets locks and places.

    Args:
        state: None: there is no such attempt, or not any more.

    Raises:
        Revoked: It may not.
    """
    if state is None or state.is_over:
        raise Revoked(
            f"attempt {owner} is {state or 'not known'} and gets no locks and no places: stop",
            owner=owner,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at a task.

    Attributes:
        task_id: Of the task.
        number: 1 for the first. It is the attempt's fence.
        state: How it stands.
        slots: Slots of the capacity that it takes while it is not over.
        runner: Name of the runner that started it.
        handle: Handle by which that runner knows it; None until the runner has given it.
        holder: The process that claimed it, for people: command, process id, host.
        created_at_ms: When it was dispatched.
        claimed_at_ms: When its process first said that it is there.
        heartbeat_at_ms: Last sign of life; before the claim, the dispatch.
        lease_ms: How long after it the attempt counts as alive.
        ended_at_ms: When it ended, or was given up; None while it is alive.
        is_settled: Whether nothing is left to do about its process: it ended by itself, or was stopped.
        progress: Its last word on how far it is, as JSON text.
        error: Why it did not succeed; one sentence.
    """

    task_id: str
    number: int
    state: AttemptState
    slots: int = 1
    runner: str
    handle: str | None = None
    holder: str = ""
    created_at_ms: int
    claimed_at_ms: int | None = None
    heartbeat_at_ms: int
    lease_ms: int
    ended_at_ms: int | None = None
    is_settled: bool = False
    progress: str | None = None
    error: str | None = None

    @property
    def lock_owner(self) -> str:
        """Under which name it holds locks: its own, so that those of a dead attempt are nobody else's."""
        return f"{self.task_id}/{self.number}"


def is_lost(attempt: Attempt, at_ms: int) -> bool:
    """TK-3: whether nobody waits for the attempt any more: it was not heard of for a whole lease."""
    return not attempt.state.is_over and is_over(attempt.heartbeat_at_ms, attempt.lease_ms, at_ms)


def task_to_json(task: Task) -> dict[str, object]:
    """Return a task; its context is an object without secrets, and its digest, which is ours alone, is left out."""
    value = cast("dict[str, object]", to_json(task))
    del value["digest"]
    return {**value, "context": show_settings(json.loads(task.context))}


def attempt_to_json(attempt: Attempt) -> dict[str, object]:
    """Return an attempt; its progress is an object."""
    value = cast("dict[str, object]", to_json(attempt))
    return {**value, "progress": None if attempt.progress is None else json.loads(attempt.progress)}
