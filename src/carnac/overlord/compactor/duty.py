"""The controller as a duty of whoever leads: a thread that has rounds while it leads, and nothing else waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from carnac.errors import CarnacError

_log = logging.getLogger(__name__)


class CompactionThread:
    """Has rounds of the controller in a thread of its own.

    Args:
        run_round: Has one round; what it raises is logged, and the next round comes all the same.
        is_leader: Whether this process has the duty now.
        period_ms: Pause between two rounds.
    """

    def __init__(
        self, run_round: Callable[[], object], is_leader: Callable[[], bool], *, period_ms: int
    ) -> None:
        self._run_round = run_round
        self._is_leader = is_leader
        self._period_s = period_ms / 1000
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="carnac-compaction", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it after the round that it is in. Idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._period_s):
            if not self._is_leader():
                continue
            try:
                self._run_round()
            except CarnacError as error:
                _log.warning("a round of compaction came to nothing: %s", error.message)
            except Exception:
                _log.exception("a round of compaction failed; this is a bug in Carnac")
