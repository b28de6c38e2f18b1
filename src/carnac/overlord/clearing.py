"""Clearing up after attempts that died or were cancelled, beside the rounds of an overlord."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from carnac.core.tasks.events import FinishAttempt, SettleAttempt
from carnac.core.tasks.model import Attempt
from carnac.ports import Clock
from carnac.ports.loops import LEAVING_S, Loop, safely

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

STALE_MS = 3_600_000
"""How long clearing up may take at a time: deep storage may be slow, or away."""

_log = logging.getLogger(__name__)


def note_waste(metadata: MetadataStore, attempt: Attempt, size_bytes: int) -> None:
    """Add the bytes that an ended attempt had written for nothing to its report; a killed attempt has no report yet.

    The attempt ends here for the store, since a killed process reports no end.
    """
    task = metadata.find_task(attempt.task_id)
    if task is None:
        return
    text = metadata.task_report(attempt.task_id, attempt.number)
    report: dict[str, Any] = {"type": task.type, "dataSource": task.datasource}
    if text is not None:
        report = json.loads(text)
    report["bytesWasted"] = report.get("bytesWasted", 0) + size_bytes
    metadata.change_tasks(
        FinishAttempt(
            task_id=attempt.task_id,
            number=attempt.number,
            error="its process is gone",
            report=json.dumps(report),
        )
    )


class Clearing:
    """Removes leftovers of attempts, one after the other, beside the rounds.

    An attempt is settled once that is done, so an overlord that dies before leaves the rest to the next one.

    Args:
        clear_up: Removes the files of an attempt that no commit names. The attempt has no right to publish any more.
            None: attempts leave nothing behind.

    Attributes:
        loop: Thread of the clearing, there from the first attempt on.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        clear_up: Callable[[Attempt], None] | None,
        clock: Clock,
        *,
        period_ms: int,
    ) -> None:
        self._metadata = metadata
        self._clear_up = clear_up
        self._mutex = threading.Lock()
        self._todo: dict[str, Attempt] = {}
        self.loop = Loop(
            "clearing",
            self._work_off,
            log=_log,
            period_ms=period_ms,
            clock=clock,
            stale_ms=STALE_MS,
            on_end=self._work_off,
            is_eager=True,
        )

    def settle(self, attempt: Attempt) -> None:
        """See to it that an attempt is cleared up and settled; returns at once. Idempotent."""
        if self._clear_up is None:
            self._settle(attempt)
            return
        with self._mutex:
            self._todo.setdefault(attempt.lock_owner, attempt)
        self.loop.start()
        self.loop.wake()

    def close(self) -> None:
        """Do what there is to do, and end the thread; what takes too long is left to the next leader."""
        self.loop.stop(wait_s=LEAVING_S)

    def _work_off(self) -> None:
        """Clear up after waiting attempts and settle them; a round of the overlord asks again for those that fail."""
        while self._todo:
            with self._mutex:
                owner, attempt = next(iter(self._todo.items()))
            safely(_log, f"clearing up after {owner!r}", partial(self._clear, attempt))
            safely(_log, f"settling {owner!r}", partial(self._settle, attempt))
            with self._mutex:
                self._todo.pop(owner)

    def _clear(self, attempt: Attempt) -> None:
        """Remove the files of an attempt; files that stay are left to garbage collection."""
        if self._clear_up is not None:
            self._clear_up(attempt)

    def _settle(self, attempt: Attempt) -> None:
        self._metadata.change_tasks(SettleAttempt(task_id=attempt.task_id, number=attempt.number))
