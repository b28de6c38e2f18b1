"""What in locks and tasks contradicts itself, a sentence each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from carnac.core.locks import laws
from carnac.core.locks.model import Lock
from carnac.core.tasks.laws import check_tasks
from carnac.core.tasks.model import Attempt, Task
from carnac.errors import CarnacError


def find_lock_problems(locks: Iterable[Lock]) -> Iterator[str]:
    """Yield a sentence if the locks of a store contradict one another."""
    try:
        laws.check_locks(locks)
    except CarnacError as error:
        yield error.message


def find_task_problems(tasks: Iterable[Task], attempts: Iterable[Attempt]) -> Iterator[str]:
    """Yield a sentence if the tasks of a store contradict one another."""
    by_task: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_task[attempt.task_id].append(attempt)
    try:
        check_tasks(tasks, by_task)
    except CarnacError as error:
        yield error.message
