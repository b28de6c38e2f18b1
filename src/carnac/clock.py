"""Real time and real ids: the one module that reads the clock and the machine's randomness."""

from __future__ import annotations

import secrets
import threading
import time

from carnac.core.ids import COUNT_DIGITS, MARK_DIGITS, TIME_DIGITS, digits


class SystemClock:
    """The machine's clock (port `Clock`)."""

    def now_ms(self) -> int:
        """Return epoch milliseconds, UTC."""
        return time.time_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait for that long; not at all if it is negative."""
        time.sleep(max(0, duration_ms) / 1000)


class RandomIds:
    """Ids of 26 lower-case letters and digits (port `IdSource`).

    Ten digits of the time in milliseconds, then 80 random bits (the layout of a ULID): ids made later sort later, so
    that what is made together lies together in indexes and folders. The randomness is read from the operating system
    for each id, so processes that fork never make the same one.
    """

    def new_id(self) -> str:
        """Return a new id."""
        now_ms = time.time_ns() // 1_000_000
        return digits(now_ms, TIME_DIGITS) + digits(
            secrets.randbits(80), MARK_DIGITS + COUNT_DIGITS
        )


class MarkedIds:
    """Ids of one attempt at a task (port `IdSource`), as long as random ones and in the same order. Safe for threads.

    They are made by one process, the one that claimed the attempt: it counts, so that no two are the same.

    Args:
        mark: See `carnac.core.ids.mark_of`.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._count = secrets.randbits(5 * COUNT_DIGITS)
        self._mutex = threading.Lock()

    def new_id(self) -> str:
        """Return a new id."""
        with self._mutex:
            self._count += 1
            count = self._count
        now_ms = time.time_ns() // 1_000_000
        return digits(now_ms, TIME_DIGITS) + self._mark + digits(count, COUNT_DIGITS)
