"""Clearing up after attempts that died or were cancelled, beside the rounds of an overlord."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from carnac.core.tasks.events import SettleAttempt
from carnac.core.tasks.model import Attempt
from carnac.errors import CarnacError
from carnac.ports import MetadataStore

_log = logging.getLogger(__name__)


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
