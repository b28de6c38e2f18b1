"""The laws of tasks. Those that `carnac verify` asks of a store are checked here, TK-4 and TK-5 by tests alone.

| id | law |
|---|---|
| TK-1 | a task runs if and only if its last attempt is not over; no earlier attempt is open |
| TK-2 | a task is tried only after all that it depends on succeeded; till then it waits for those that have not |
| TK-3 | nobody waits for an attempt that was not heard of for a whole lease (`model.is_lost`) |
| TK-4 | attempts that are not over take no more slots than there are |
| TK-5 | nobody starts while somebody before it in the queue could |
| TK-6 | a task is over if and only if it says when it was; it succeeded if and only if an attempt did |
| TK-7 | only an attempt that is not over gets locks and places (`model.check_may_own`) |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from carnac.core.invariants import check
from carnac.core.tasks.model import Attempt, AttemptState, Task, TaskState


def check_tasks(tasks: Iterable[Task], attempts: Mapping[str, Sequence[Attempt]]) -> None:
    """Check TK-1, TK-2 and TK-6 for all tasks of a store.

    Args:
        attempts: By task id.

    Raises:
        InvariantError: One does not hold.
    """
    known = {task.task_id: task for task in tasks}
    for task in known.values():
        own = sorted(attempts.get(task.task_id, ()), key=lambda one: one.number)
        _check_attempts(task, own)
        _check_waiting(task, known)
        _check_end(task, own)


def _check_attempts(task: Task, own: Sequence[Attempt]) -> None:
    numbers = [one.number for one in own]
    check(
        "TK-1",
        numbers == list(range(1, task.attempts + 1)),
        f"task {task.task_id} made {task.attempts} attempts, and has {numbers}",
    )
    is_open = [not one.state.is_over for one in own]
    expected = [False] * len(own)
    if task.state is TaskState.RUNNING and own:
        expected[-1] = True
    check(
        "TK-1",
        is_open == expected and (task.state is not TaskState.RUNNING or bool(own)),
        f"task {task.task_id} is {task.state}, its attempts are {[str(one.state) for one in own]}",
    )


def _check_waiting(task: Task, known: Mapping[str, Task]) -> None:
    is_waiting = task.state is TaskState.WAITING
    says_why = bool(task.waits_for) != (task.wakes_at_ms is not None)
    check(
        "TK-2",
        says_why if is_waiting else not task.waits_for and task.wakes_at_ms is None,
        f"task {task.task_id} is {task.state}, and waits for {task.waits_for} until {task.wakes_at_ms}",
    )
    for name in task.waits_for:
        check(
            "TK-2",
            name in known and not known[name].state.is_over,
            f"task {task.task_id} waits for {name}, which is over",
        )
    if task.state in {TaskState.PENDING, TaskState.RUNNING, TaskState.SUCCEEDED}:
        left = [one for one in task.dependencies if one in known]
        check(
            "TK-2",
            all(known[one].state is TaskState.SUCCEEDED for one in left),
            f"task {task.task_id} is {task.state} before its dependencies {left} succeeded",
        )


def _check_end(task: Task, own: Sequence[Attempt]) -> None:
    check(
        "TK-6",
        task.state.is_over == (task.finished_at_ms is not None),
        f"task {task.task_id} is {task.state} and finished at {task.finished_at_ms}",
    )
    succeeded = [one for one in own if one.state is AttemptState.SUCCEEDED]
    check(
        "TK-6",
        (task.state is TaskState.SUCCEEDED) == bool(succeeded),
        f"task {task.task_id} is {task.state}, {len(succeeded)} of its attempts succeeded",
    )
