"""The queue of tasks, by priority, and the capacity of tasks and of cost that can run. A pure state machine.

Source: "Compaction Notes", "Task Manager" and "Controller". Whenever a task ends, the next ones start: nothing waits
for a wave to end. A queue that is longer than its maximum sheds the tasks of lowest priority; their chunks are
deferred.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from carnac.core.compaction.plan.tasks import CompactionTask

_by_order = attrgetter("order")
PASSES_MAX = 8
"""A task that does not fit lets so many others go first; then nothing starts before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The limits of running tasks, and of the length of the queue.

    Attributes:
        tasks: Tasks at a time.
        cost: Cost of all running tasks together; a task that costs more runs alone.
        queue_max: Tasks that may wait.
    """

    tasks: int = 4
    cost: int = 1 << 62
    queue_max: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTask:
    """A task that runs.

    Attributes:
        run_id: Of this run: the id that its runner gives it.
    """

    run_id: str
    task: CompactionTask
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueue:
    """The waiting and the running tasks.

    Attributes:
        waiting: In the order in which they should start.
        passed: How often others went before a task that did not fit, by its id.
    """

    waiting: tuple[CompactionTask, ...] = ()
    running: tuple[RunningTask, ...] = ()
    passed: Mapping[str, int] = field(default_factory=dict)

    @property
    def cost_waiting(self) -> int:
        """Cost of the waiting tasks."""
        return sum(task.cost for task in self.waiting)

    @property
    def cost_running(self) -> int:
        """Cost of the running tasks."""
        return sum(one.task.cost for one in self.running)


class Taken(NamedTuple):
    """The queue without some tasks, and these tasks, most urgent first."""

    queue: TaskQueue
    tasks: tuple[CompactionTask, ...]


def change_queue(
    queue: TaskQueue,
    *,
    removed: Collection[CompactionTask] = (),
    added: Iterable[CompactionTask] = (),
) -> TaskQueue:
    """Return the queue without some tasks and with others, in the order in which they should start.

    A queue is much longer than its changes. So the place of each change is found, and the tasks between are left as
    they are.

    Args:
        removed: Tasks to take out; those that have started, and so do not wait, are ignored.
    """
    kept = _without(queue.waiting, removed)
    waiting: list[CompactionTask] = []
    at = 0
    for task in sorted(added, key=_by_order):
        index = bisect_right(kept, task.order, key=_by_order)  # the same steps first: they are warm
        waiting += kept[at:index]
        waiting.append(task)
        at = index
    waiting += kept[at:]
    gone = {task.task_id for task in removed}
    passed = {name: count for name, count in queue.passed.items() if name not in gone}
    return replace(queue, waiting=tuple(waiting), passed=passed)


def _without(
    waiting: Sequence[CompactionTask], removed: Iterable[CompactionTask]
) -> Sequence[CompactionTask]:
    places = {
        place
        for task in removed
        if (place := bisect_left(waiting, task.order, key=_by_order)) < len(waiting)
        and waiting[place].order == task.order
    }
    if not places:
        return waiting
    kept: list[CompactionTask] = []
    at = 0
    for place in sorted(places):
        kept += waiting[at:place]
        at = place + 1
    kept += waiting[at:]
    return kept


def shed_surplus(queue: TaskQueue, capacity: Capacity) -> Taken:
    """Return the queue without the tasks of lowest priority that are too many; when all that can start has started."""
    kept, shed = queue.waiting[: capacity.queue_max], queue.waiting[capacity.queue_max :]
    return Taken(replace(queue, waiting=kept), shed)


def decide_dispatch(queue: TaskQueue, capacity: Capacity) -> Taken:
    """Return the tasks that start now: the most urgent that fit, wait for no other, and share no segment with one."""
    slots = capacity.tasks - len(queue.running)
    room = capacity.cost - queue.cost_running
    is_idle = not queue.running
    taken = {(one.task.datasource, name) for one in queue.running for name in one.task.segment_ids}
    names: set[str] | None = None
    starts: list[CompactionTask] = []
    too_large: list[str] = []
    seen = 0
    for task in queue.waiting:
        if slots <= 0:
            break
        seen += 1
        if task.after:
            names = _names(queue) if names is None else names
            if not names.isdisjoint(task.after):
                continue
        mine = {(task.datasource, name) for name in task.segment_ids}
        if not taken.isdisjoint(mine):
            continue
        if task.cost > room and not (is_idle and not starts):
            too_large.append(task.task_id)
            if queue.passed.get(task.task_id, 0) >= PASSES_MAX:
                break
            continue
        starts.append(task)
        taken |= mine
        slots -= 1
        room -= task.cost
    passed = dict(queue.passed)
    for name in too_large:
        passed[name] = passed.get(name, 0) + len(starts)
    started = {task.task_id for task in starts}
    waiting = queue.waiting
    if started:
        kept = [task for task in waiting[:seen] if task.task_id not in started]
        waiting = (*kept, *waiting[seen:])
    passed = {name: count for name, count in passed.items() if name not in started}
    return Taken(replace(queue, waiting=waiting, passed=passed), tuple(starts))


def _names(queue: TaskQueue) -> set[str]:
    return {task.task_id for task in queue.waiting} | {one.task.task_id for one in queue.running}


def start_task(queue: TaskQueue, task: CompactionTask, run_id: str, at_ms: int) -> TaskQueue:
    """Return the queue with a task running that was taken out of it."""
    one = RunningTask(run_id=run_id, task=task, started_ms=at_ms)
    return replace(queue, running=(*queue.running, one))


def end_task(queue: TaskQueue, run_id: str) -> tuple[TaskQueue, RunningTask | None]:
    """Return the queue without a run, and the run; None if there is no such run."""
    found = next((one for one in queue.running if one.run_id == run_id), None)
    running = tuple(one for one in queue.running if one.run_id != run_id)
    return replace(queue, running=running), found
