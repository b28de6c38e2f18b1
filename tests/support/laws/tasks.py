"""Laws of tasks about slots and order: TK-4 and TK-5 of `core/tasks/laws.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from carnac.core.invariants import check
from carnac.core.tasks.model import Attempt, Task


def check_capacity(attempts: Iterable[Attempt], capacity: int) -> None:
    """Check TK-4."""
    used = sum(one.slots for one in attempts if not one.state.is_over)
    check("TK-4", used <= capacity, f"{used} slots of {capacity} are in use")


def check_order(started: Sequence[Task], pending: Iterable[Task]) -> None:
    """Check TK-5 for what one event started.

    Args:
        pending: Tasks that it left in the queue.
    """
    last = max((task.rank for task in started), default=None)
    for task in pending:
        check(
            "TK-5",
            last is None or last < task.rank,
            f"{task.task_id} was overtaken by {started[-1].task_id if started else 'nobody'}",
        )
