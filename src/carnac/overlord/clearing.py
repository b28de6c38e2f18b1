"""Clearing up after attempts that died or were cancelled, beside the rounds of an overlord."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

from carnac.core.tasks.events import FinishAttempt, SettleAttempt
from carnac.core.tasks.model import Attempt
from carnac.errors import CarnacError
from carnac.ports import MetadataStore

_log = logging.getLogger(__name__)


def note_waste(metadata: MetadataStore, attempt: Attempt, size_bytes: int) -> None:
    """Add the bytes that an attempt which is over had written for nothing to its report; one that was killed has none.

    It ends here in the eyes of the store: whoever was killed says nothing more.
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
    """Removes what attempts have left behind, one after the other, in a thread that is there while there is work.

    An attempt is settled once that is done: an overlord that dies before leaves the rest to the next one.

    Args:
        clear_up: Removes the files of an attempt that no commit names. The attempt has no right to publish any more.
            None: attempts leave nothing behind.
    """

    def __init__(self, metadata: MetadataStore, clear_up: Callable[[Attempt], None] | None) -> None:
        self._metadata = metadata
        self._clear_up = clear_up
        self._mutex = threading.Lock()
        self._todo: dict[str, Attempt] = {}
        self._thread: threading.Thread | None = None

    def settle(self, attempt: Attempt) -> None:
        """See to it that an attempt is cleared up and settled; returns at once. Idempotent."""
        if self._clear_up is None:
            self._settle(attempt)
            return
        with self._mutex:
            self._todo.setdefault(attempt.lock_owner, attempt)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="carnac-clearing", daemon=True
                )
                self._thread.start()

    def join(self) -> None:
        """Wait until there is no work."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._mutex:
                if not self._todo:
                    self._thread = None
                    return
                owner, attempt = next(iter(self._todo.items()))
            try:
                self._clear(attempt)
                self._settle(attempt)
            except CarnacError as error:  # the next round asks again, or finds it settled
                _log.warning("%s is not settled: %s", owner, error.message)
            finally:
                with self._mutex:
                    self._todo.pop(owner)

    def _clear(self, attempt: Attempt) -> None:
        try:
            if self._clear_up is not None:
                self._clear_up(attempt)
        except CarnacError as error:
            _log.warning(
                "what %s has left behind is left to garbage collection: %s",
                attempt.lock_owner,
                error.message,
            )

    def _settle(self, attempt: Attempt) -> None:
        self._metadata.change_tasks(SettleAttempt(task_id=attempt.task_id, number=attempt.number))
