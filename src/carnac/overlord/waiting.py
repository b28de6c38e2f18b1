"""Waiting for a task: it is looked at again and again, after pauses that double, beside the store or over HTTP."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

from carnac.core.arguments import checked
from carnac.core.tasks.model import Task
from carnac.ports import Clock
from carnac.ports.closing import Closing

FIRST_PAUSE_MS = 50


@checked
class Waiting(Closing):
    """The tasks of a store, with a wait for one of them.

    Attributes:
        longest_pause_ms: Limit up to which the pauses between two looks double, from `FIRST_PAUSE_MS`.
    """

    longest_pause_ms: ClassVar[int]
    _clock: Clock

    @abstractmethod
    def get(self, task_id: str) -> Task:
        """Return a task."""

    def wait(
        self,
        task_id: str,
        *,
        timeout_ms: int | None = None,
        on_look: Callable[[Task], None] | None = None,
    ) -> Task:
        """Return the task once it is over, or when the time is.

        Args:
            timeout_ms: Longest wait; None: as long as it takes; 0: one look. A task that is not over then is returned
                as it stands.
            on_look: Called with the task at each look.

        Raises:
            NotFound: There is no such task.
        """
        clock = self._clock
        began_at_ms = clock.now_ms()
        pause_ms = FIRST_PAUSE_MS
        while True:
            task = self.get(task_id)
            if on_look is not None:
                on_look(task)
            waited_ms = abs(clock.now_ms() - began_at_ms)  # a clock that is set ends the wait, too
            left_ms = pause_ms if timeout_ms is None else timeout_ms - waited_ms
            if task.state.is_over or left_ms <= 0:
                return task
            clock.sleep_ms(min(pause_ms, left_ms))
            pause_ms = min(2 * pause_ms, self.longest_pause_ms)
