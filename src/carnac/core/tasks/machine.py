"""Tasks as a state machine: `decide(view, event, at_ms=…)` returns the decision about an event.

A task waits for its dependencies, then for a slot, then it has an attempt. Slots are given by priority, then arrival,
and no task overtakes another: the first one in the queue starts first, or none does. An attempt that failed in a way
that another may not, and one that is lost, is followed by another, after a pause that doubles, as long as the task's
policy allows. A task that cannot succeed fails at once.

The reports of an attempt are judged by its number. The answer to an attempt that was cancelled or given up is that it
is stale. There is one exception: an attempt that was given up and reports success is believed if its task has no later
one yet. It was slow, not dead, and its publication stands.
"""

from __future__ import annotations

from dataclasses import replace

from carnac.core.tasks.draft import TaskDraft, TaskView
from carnac.core.tasks.events import (
    AttemptEvent,
    BeatAttempt,
    CancelTask,
    Changed,
    ClaimAttempt,
    Current,
    Deposed,
    Dispatched,
    DispatchTasks,
    ExpireAttempts,
    FinishAttempt,
    ForgetTasks,
    LoseAttempt,
    RecordHandle,
    RetryTask,
    SettleAttempt,
    Stale,
    SubmitTask,
    Submitted,
    TaskDecision,
    TaskEvent,
    TaskReply,
    VouchAttempt,
)
from carnac.core.tasks.model import Attempt, AttemptState, Task, TaskState, is_lost
from carnac.core.time.leases import is_over
from carnac.errors import Conflict, Invalid, NotFound

OVERLORD = "overlord"
"""The role whose leader dispatches."""
START_MAX_MS = 600_000
"""How long a process that is there may take until it says something: it loads libraries, or waits for a cluster."""
DISPATCHED_MAX = 100
"""Most attempts that one event starts; the next event starts more."""


def decide(view: TaskView, event: TaskEvent, *, at_ms: int) -> TaskDecision:
    """Return the decision about an event at a time. Nothing has happened until the decision is written down.

    Raises:
        Invalid: The event contradicts itself.
        NotFound: It is about a task that there is not.
        Conflict: The task is not in a state for it.
    """
    draft = TaskDraft(view, at_ms)
    return draft.decision(_answer(draft, event))


def _answer(draft: TaskDraft, event: TaskEvent) -> TaskReply:
    match event:
        case SubmitTask():
            return _submit(draft, event)
        case CancelTask():
            return _cancel(draft, event)
        case RetryTask():
            return _retry(draft, event)
        case ForgetTasks():
            return _forget(draft, event)
        case DispatchTasks():
            return _dispatch(draft, event)
        case ExpireAttempts():
            return _expire(draft)
        case _:
            return _answer_attempt(draft, event)


def _answer_attempt(draft: TaskDraft, event: AttemptEvent) -> TaskReply:
    task, attempt = draft.find(event.task_id), draft.find_attempt(event.task_id, event.number)
    if task is None or attempt is None:
        return Stale(task=task, attempt=attempt)
    match event:
        case RecordHandle():
            known = draft.put_attempt(replace(attempt, handle=event.handle))
            return Current(task=task, attempt=known)
        case VouchAttempt():
            return _vouch(draft, task, attempt)
        case ClaimAttempt():
            return _claim(draft, event, task, attempt)
        case BeatAttempt():
            return _beat(draft, event, task, attempt)
        case FinishAttempt():
            return _finish(draft, event, task, attempt)
        case LoseAttempt():
            return _lose(draft, event, task, attempt)
        case SettleAttempt():
            return _settle(draft, task, attempt)


# ---------------------------------------------------------------------------------------------- for submitters


def _submit(draft: TaskDraft, event: SubmitTask) -> TaskReply:
    known = draft.find(event.task_id)
    if known is not None:
        if (known.type, known.digest) != (event.type, event.digest):
            raise Conflict(
                f"there is a task {event.task_id} already, and it is another one; leave its id out to get a new one",
                task_id=event.task_id,
            )
        return Submitted(task=known, is_new=False)
    if event.slots < 1:
        raise Invalid(
            f"task {event.task_id} takes {event.slots} slots; it must be one at least",
            task_id=event.task_id,
        )
    waits_for = _open_dependencies(draft, event.task_id, event.dependencies)
    task = Task(
        task_id=event.task_id,
        number=draft.next_number(),
        type=event.type,
        datasource=event.datasource,
        group_id=event.group_id,
        digest=event.digest,
        context=event.context,
        priority=event.priority,
        slots=event.slots,
        dependencies=event.dependencies,
        waits_for=waits_for,
        retry=event.retry,
        state=TaskState.WAITING if waits_for else TaskState.PENDING,
        created_at_ms=draft.at_ms,
        changed_at_ms=draft.at_ms,
    )
    draft.payloads.append((event.task_id, event.payload))
    return Submitted(task=draft.put(task), is_new=True)


def _open_dependencies(
    draft: TaskDraft, task_id: str, dependencies: tuple[str, ...]
) -> tuple[str, ...]:
    """Return those that have not succeeded yet.

    Raises:
        NotFound: There is no such task.
        Conflict: One of them is over and did not succeed.
    """
    waits_for: dict[str, None] = {}
    for name in dependencies:
        found = draft.find(name)
        if found is None:
            raise NotFound(
                f"task {task_id} depends on task {name}, which is not known, or not any more",
                task_id=task_id,
                dependency=name,
            )
        if found.state is TaskState.SUCCEEDED:
            continue
        if found.state.is_over:
            raise Conflict(
                f"task {task_id} depends on task {name}, which is {found.state}; retry that one first",
                task_id=task_id,
                dependency=name,
            )
        waits_for[name] = None
    return tuple(waits_for)


def _cancel(draft: TaskDraft, event: CancelTask) -> TaskReply:
    task = _require(draft, event.task_id)
    if task.state.is_over:
        return Changed(tasks=(task,))
    attempt = _open_attempt(draft, task)
    if attempt is not None:
        draft.put_attempt(replace(attempt, state=AttemptState.CANCELLED, error=event.error))
    draft.end(task, TaskState.CANCELLED, event.error)
    return Changed(tasks=draft.changed())


def _retry(draft: TaskDraft, event: RetryTask) -> TaskReply:
    task = _require(draft, event.task_id)
    is_pausing = task.state is TaskState.WAITING and not task.waits_for
    if task.state not in {TaskState.FAILED, TaskState.CANCELLED} and not is_pausing:
        raise Conflict(
            f"task {task.task_id} is {task.state}; only one that failed or was cancelled can be retried",
            task_id=task.task_id,
        )
    waits_for = () if is_pausing else _open_dependencies(draft, task.task_id, task.dependencies)
    again = replace(
        task,
        state=TaskState.WAITING if waits_for else TaskState.PENDING,
        waits_for=waits_for,
        failures=0,
        wakes_at_ms=None,
        finished_at_ms=None,
        error=None,
    )
    return Changed(tasks=(draft.put(again),))


def _forget(draft: TaskDraft, event: ForgetTasks) -> TaskReply:
    over = [task for task in draft.view.find(event.task_ids) if task.state.is_over]
    draft.removes.extend(task.task_id for task in over)
    return Changed(tasks=tuple(sorted(over, key=lambda task: task.number)))


def _require(draft: TaskDraft, task_id: str) -> Task:
    task = draft.find(task_id)
    if task is None:
        raise NotFound(f"there is no task {task_id}, or not any more", task_id=task_id)
    return task


# --------------------------------------------------------------------------------------------- for the overlord


def _dispatch(draft: TaskDraft, event: DispatchTasks) -> TaskReply:
    leader = draft.view.leader(OVERLORD)
    if leader is None or leader.fence != event.fence:
        return Deposed()
    used = sum(attempt.slots for attempt in draft.view.open_attempts())
    free = event.capacity - used
    for sleeper in draft.view.sleeping(draft.at_ms):
        draft.put(replace(draft.known(sleeper), state=TaskState.PENDING, wakes_at_ms=None))
    started: list[tuple[Task, Attempt]] = []
    for task in _queue(draft):
        slots = min(task.slots, event.capacity)
        if slots > free or len(started) == DISPATCHED_MAX:
            break
        free -= slots
        started.append(_start(draft, event, task, slots))
    return Dispatched(started=tuple(started))


def _queue(draft: TaskDraft) -> list[Task]:
    """Return the first tasks of the queue: those that are stored as pending, and those that have just become so."""
    woken = [task for task in draft.changed() if task.state is TaskState.PENDING]
    stored = [draft.known(task) for task in draft.view.ready(DISPATCHED_MAX)]
    return sorted({task.task_id: task for task in woken + stored}.values(), key=lambda t: t.rank)


def _start(draft: TaskDraft, event: DispatchTasks, task: Task, slots: int) -> tuple[Task, Attempt]:
    number = task.attempts + 1
    attempt = Attempt(
        task_id=task.task_id,
        number=number,
        state=AttemptState.STARTING,
        slots=slots,
        runner=event.runner,
        created_at_ms=draft.at_ms,
        heartbeat_at_ms=draft.at_ms,
        lease_ms=event.lease_ms,
    )
    running = replace(
        task,
        state=TaskState.RUNNING,
        attempts=number,
        started_at_ms=draft.at_ms if task.started_at_ms is None else task.started_at_ms,
    )
    return draft.put(running), draft.put_attempt(attempt)


def _lose(draft: TaskDraft, event: LoseAttempt, task: Task, attempt: Attempt) -> TaskReply:
    if attempt.state.is_over:
        return Stale(task=task, attempt=attempt)
    _fail(draft, task, attempt, AttemptState.LOST, event.error, is_retryable=True)
    return Changed(tasks=draft.changed())


def _expire(draft: TaskDraft) -> TaskReply:
    for attempt in sorted(draft.view.open_attempts(), key=lambda one: (one.task_id, one.number)):
        task = draft.find(attempt.task_id)
        if task is None or not is_lost(attempt, draft.at_ms):
            continue
        known = draft.find_attempt(attempt.task_id, attempt.number) or attempt
        why = f"attempt {attempt.number} was not heard of for {attempt.lease_ms} ms"
        _fail(draft, task, known, AttemptState.LOST, why, is_retryable=True)
    return Changed(tasks=draft.changed())


def _vouch(draft: TaskDraft, task: Task, attempt: Attempt) -> TaskReply:
    if attempt.state is not AttemptState.STARTING:
        return Stale(task=task, attempt=attempt)
    if is_over(attempt.created_at_ms, START_MAX_MS, draft.at_ms):
        return Current(task=task, attempt=attempt)  # its lease ends it
    return Current(
        task=task, attempt=draft.put_attempt(replace(attempt, heartbeat_at_ms=draft.at_ms))
    )


def _settle(draft: TaskDraft, task: Task, attempt: Attempt) -> TaskReply:
    if not attempt.state.is_over:
        return Stale(task=task, attempt=attempt)
    return Current(task=task, attempt=draft.put_attempt(replace(attempt, is_settled=True)))


# ------------------------------------------------------------------------------------------------ for attempts


def _claim(draft: TaskDraft, event: ClaimAttempt, task: Task, attempt: Attempt) -> TaskReply:
    if attempt.state is not AttemptState.STARTING:
        return Stale(task=task, attempt=attempt)
    claimed = replace(
        attempt,
        state=AttemptState.RUNNING,
        holder=event.holder,
        claimed_at_ms=draft.at_ms,
        heartbeat_at_ms=draft.at_ms,
        lease_ms=attempt.lease_ms if event.lease_ms is None else event.lease_ms,
    )
    return Current(task=task, attempt=draft.put_attempt(claimed))


def _beat(draft: TaskDraft, event: BeatAttempt, task: Task, attempt: Attempt) -> TaskReply:
    if attempt.state is not AttemptState.RUNNING:
        return Stale(task=task, attempt=attempt)
    progress = attempt.progress if event.progress is None else event.progress
    beaten = replace(attempt, heartbeat_at_ms=draft.at_ms, progress=progress)
    return Current(task=task, attempt=draft.put_attempt(beaten))


def _finish(draft: TaskDraft, event: FinishAttempt, task: Task, attempt: Attempt) -> TaskReply:
    if event.report is not None:
        draft.reports.append((event.task_id, event.number, event.report))
    is_late_success = (
        event.error is None
        and attempt.state is AttemptState.LOST
        and attempt.number == task.attempts
        and task.state in {TaskState.WAITING, TaskState.PENDING}
    )
    if attempt.state.is_over and not is_late_success:
        return Stale(task=task, attempt=draft.put_attempt(replace(attempt, is_settled=True)))
    if attempt.state is AttemptState.STARTING and event.error is None:
        return Stale(
            task=task, attempt=attempt
        )  # nobody has claimed it, so nobody can have done it
    if event.error is None:
        attempt = draft.put_attempt(
            replace(attempt, state=AttemptState.SUCCEEDED, error=None, is_settled=True)
        )
        draft.end(task, TaskState.SUCCEEDED, None)
    else:
        attempt = _fail(
            draft,
            task,
            replace(attempt, is_settled=True),
            AttemptState.FAILED,
            event.error,
            is_retryable=event.is_retryable,
        )
    return Current(task=_require(draft, event.task_id), attempt=attempt)


def _fail(
    draft: TaskDraft,
    task: Task,
    attempt: Attempt,
    state: AttemptState,
    error: str,
    *,
    is_retryable: bool,
) -> Attempt:
    """End an attempt that did not succeed; its task is tried again later, or fails with it."""
    ended = draft.put_attempt(replace(attempt, state=state, error=error))
    failures = task.failures + 1
    if is_retryable and failures <= task.retry.limit:
        pausing = replace(
            task,
            state=TaskState.WAITING,
            failures=failures,
            wakes_at_ms=draft.at_ms + task.retry.pause_ms(failures),
            error=error,
        )
        draft.put(pausing)
    else:
        draft.end(replace(task, failures=failures), TaskState.FAILED, error)
    return ended


def _open_attempt(draft: TaskDraft, task: Task) -> Attempt | None:
    if task.state is not TaskState.RUNNING:
        return None
    return draft.find_attempt(task.task_id, task.attempts)
