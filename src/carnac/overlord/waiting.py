"""Waiting for a task: it is looked at again and again, after pauses that double, beside the store or over HTTP."""

from __future__ import annotations

from collections.abc import Callable

from carnac.core.tasks.model import Task
from carnac.ports import Clock

FIRST_PAUSE_MS = 50


def wait_until_over(
    look: Callable[[], Task],
    clock: Clock,
    *,
    timeout_ms: int | None,
    longest_pause_ms: int,
    on_look: Callable[[Task], None] | None,
) -> Task:
    """Return the task once it is over, or when the time is.

    Args:
        look: Says how the task stands.
        timeout_ms: None: as long as it takes; 0: one look.
        longest_pause_ms: What the pauses double up to, from `FIRST_PAUSE_MS`.
        on_look: Told how it stands, each time that is looked at.
    """
    began_at_ms = clock.now_ms()
    pause_ms = FIRST_PAUSE_MS
    while True:
        task = look()
        if on_look is not None:
            on_look(task)
        waited_ms = abs(clock.now_ms() - began_at_ms)  # a clock that is set ends the wait, too
        left_ms = pause_ms if timeout_ms is None else timeout_ms - waited_ms
        if task.state.is_over or left_ms <= 0:
            return task
        clock.sleep_ms(min(pause_ms, left_ms))
        pause_ms = min(2 * pause_ms, longest_pause_ms)
