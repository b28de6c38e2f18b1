"""Duties that are done again and again, in threads of their own: no exception of a round ends one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TypeVar

from carnac.errors import CarnacError, InvariantError
from carnac.ports.ambient import Clock

Thing = TypeVar("Thing")
Wait = Callable[[float], bool]
"""Waits for so many seconds; True: the loop is to end."""
STALE_PERIODS = 10
"""A loop that has not turned for so many periods counts as one that does not turn."""
STALE_MIN_MS = 120_000
"""However short its period: a round may wait for a lease, or as long for a writer that keeps the others out."""
LEAVING_S = 5.0
"""How long a process that ends waits for a round that may be broken off anywhere."""
LEAVING = threading.Event()
"""Set once the process is told to end: nobody is waited for much longer then."""
SAID_AGAIN_ROUNDS = 600
"""A failure that comes again round after round is logged the first time, and then so seldom."""


def until_stopped(
    things: Iterable[Thing], is_stopping: Callable[[], bool] | None
) -> Iterator[Thing]:
    """Yield things one by one, until it is said before one of them that no more are wanted; None: all."""
    return takewhile(lambda _: is_stopping is None or not is_stopping(), things)


def safely(log: logging.Logger, what: str, do: Callable[[], object]) -> Exception | None:
    """Do something. An exception is logged in a line and returned; a bug has its traceback in the log."""
    try:
        do()
    except Exception as error:
        log_failure(log, what, error)
        return error
    return None


def log_failure(log: logging.Logger, what: str, error: Exception) -> None:
    """Say in a line that something failed, and why; a bug has its traceback with it."""
    if is_bug(error):
        said = error.message if isinstance(error, CarnacError) else f"{error!r}"
        log.error("%s failed, which is a bug in Carnac: %s", what, said, exc_info=error)
    else:
        log.warning("%s failed: %s", what, reason_of(error))


def is_bug(error: Exception) -> bool:
    """Whether an exception is one that nobody has thought of, rather than news of what does not work now."""
    return isinstance(error, InvariantError) or not isinstance(
        error, CarnacError | OSError | MemoryError
    )


def reason_of(error: Exception) -> str:
    """Return an exception as one sentence."""
    if isinstance(error, CarnacError):
        return error.message
    return f"{type(error).__name__}: {error}"


class Loop:
    """One duty. An exception of a round is logged, and the next round comes all the same.

    Args:
        name: Name of the duty, in logs and where people ask whether it turns.
        run_round: Has one round.
        log: Log of the owner of the duty.
        period_ms: Pause between two rounds.
        clock: By which it counts as turning; None: nobody asks.
        stale_ms: How long ago its last round may have ended; None: `STALE_PERIODS`, and at least `STALE_MIN_MS`.
        is_eager: Whether the first round comes before the first pause.
        wait: In place of waiting on the machine's clock, for tests; None: real time, or until `wake`.
        on_end: Called when it ends, from its thread.
    """

    def __init__(
        self,
        name: str,
        run_round: Callable[[], object],
        *,
        log: logging.Logger,
        period_ms: float,
        clock: Clock | None = None,
        stale_ms: int | None = None,
        is_eager: bool = False,
        wait: Wait | None = None,
        on_end: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self._run_round = run_round
        self._log = log
        self._period_s = period_ms / 1000
        self._clock = clock
        self._stale_ms = stale_ms or max(STALE_PERIODS * int(period_ms), STALE_MIN_MS)
        self._is_eager = is_eager
        self._wait = wait or self._wait_for_bell
        self._on_end = on_end
        self._mutex = threading.Lock()
        self._bell = threading.Event()
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._turned_at_ms: int | None = None
        self._failure = ""
        self._failures = 0
        self._halt = ""

    def start(self) -> None:
        """Go round in a daemon thread, until `stop`. Idempotent."""
        with self._mutex:
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(
                    target=self.run, name=f"carnac-{self.name}", daemon=True
                )
                self._note_turn()
                self._thread.start()

    def run(self) -> None:
        """Go round in this thread, until `stop`."""
        try:
            if self._is_eager:
                self.turn()
            while not self._wait(self._period_s):
                self.turn()
        finally:
            if self._on_end is not None:
                self._on_end()

    def turn(self) -> None:
        """Have one round now."""
        self._bell.clear()
        try:
            self._run_round()
        except Exception as error:
            self._note_failure(error)
            if is_bug(error):
                return
        else:
            self._failure, self._failures = "", 0
        self._note_turn()

    def wake(self) -> None:
        """End the pause that it is in; or if it is in a round, have another one at once."""
        self._bell.set()

    def stop(self, *, wait_s: float | None = None) -> None:
        """Let it end after the round that it is in, and wait for that. From any thread. Idempotent.

        Args:
            wait_s: How long to wait at most; a round that takes longer ends with the process. None: until it ends.
        """
        self._is_stopping = True
        self._bell.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(wait_s)
            if thread.is_alive():
                self._log.warning("a round of the loop '%s' is broken off", self.name)

    def halt(self, reason: str) -> None:
        """Count from now on as one that does not turn, for a reason that only another process can mend."""
        self._halt = reason

    def is_stopping(self) -> bool:
        """Say whether it is to end: a round that takes long asks, and leaves the rest to the next process."""
        return self._is_stopping

    @property
    def trouble(self) -> str | None:
        """Why it counts as one that does not turn, in a sentence; None if it turns, was not started, or was stopped."""
        thread, turned_at_ms = self._thread, self._turned_at_ms
        if thread is None or self._is_stopping:
            return None
        if self._halt:
            return self._halt
        said = f"; its last round failed: {self._failure}" if self._failure else ""
        if not thread.is_alive():
            return f"the {self.name} loop has ended{said}"
        if self._clock is None or turned_at_ms is None:
            return None
        ago_ms = abs(self._clock.now_ms() - turned_at_ms)  # also where the clock was set back
        if ago_ms <= self._stale_ms:
            return None
        return f"the {self.name} loop has not turned for {ago_ms // 1000} s{said}"

    @property
    def failure(self) -> str:
        """Why its last round failed, in a sentence; empty if it did not."""
        return self._failure

    def _note_turn(self) -> None:
        if self._clock is not None:
            self._turned_at_ms = self._clock.now_ms()

    def _note_failure(self, error: Exception) -> None:
        said = reason_of(error)
        self._failures = self._failures + 1 if said == self._failure else 1
        self._failure = said
        if self._failures % SAID_AGAIN_ROUNDS == 1:
            log_failure(self._log, f"a round of the loop '{self.name}'", error)

    def _wait_for_bell(self, seconds: float) -> bool:
        if not self._is_stopping:
            self._bell.wait(seconds)
        return self._is_stopping
