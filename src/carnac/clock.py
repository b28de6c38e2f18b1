"""Real time and real ids: the one module that reads the clock and the machine's randomness."""

from __future__ import annotations

import logging
import platform
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from carnac.core.ids import COUNT_DIGITS, MARK_DIGITS, TIME_DIGITS, digits
from carnac.core.time.leases import CLOCKS_AGREE_MS, is_over
from carnac.errors import CarnacError
from carnac.ports.ambient import Clock
from carnac.ports.threads import Beside

ASK_PERIOD_MS = 10_000
"""How often a store's clock is compared with its database server's."""
CLOSE_MS = 100
"""A difference below this is taken for the journey to the server; leases are far longer."""
WAIT_S = 1.0
"""How long a server's clock is waited for."""

_log = logging.getLogger(__name__)


class SystemClock:
    """The machine's clock (port `Clock`)."""

    def now_ms(self) -> int:
        """Return epoch milliseconds, UTC."""
        return time.time_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait for that long; not at all if it is negative."""
        time.sleep(max(0, duration_ms) / 1000)


class StoreClock:
    """The clock that the leases of a store go by (port `Clock`): the one of its database's server, where it has one.

    The machine's clock is compared with that of the server now and then, and at once after it was set. What it is found
    to be ahead is taken off, so that no answer costs a journey. Where there is no server, it is used as it is.

    Args:
        machine: Clock in place of the machine's, for tests.
        wait_s: How long the server is waited for, but for the first time; one that hangs is waited for once. None: as
            long as it takes, in the thread that wants to know the time.
    """

    def __init__(self, machine: Clock | None = None, *, wait_s: float | None = WAIT_S) -> None:
        self._machine = machine or SystemClock()
        self._ask: Callable[[], int | None] | None = None
        self._asked_at_ms: int | None = None
        self._wait_s = wait_s
        self._comparing = Beside()
        self.ahead_ms = 0  # of the server's; negative: behind

    def follow(self, ask: Callable[[], int | None]) -> None:
        """Go by another clock from now on; it says None if it has no time of its own."""
        self._ask, self._asked_at_ms = ask, None

    def now_ms(self) -> int:
        """Return epoch milliseconds, UTC."""
        now_ms = self._machine.now_ms()
        asked_at_ms = self._asked_at_ms
        if self._ask is not None and (
            asked_at_ms is None or is_over(asked_at_ms, ASK_PERIOD_MS, now_ms)
        ):
            compare = partial(self._compare, self._ask)
            if asked_at_ms is None or self._wait_s is None:
                compare()
            elif not self._comparing.is_late:
                compared = self._comparing.run(compare, wait_s=self._wait_s)
                if compared.done():
                    compared.result()  # raises what it raised
            now_ms = self._machine.now_ms()
        return now_ms - self.ahead_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait for that long; not at all if it is negative."""
        self._machine.sleep_ms(duration_ms)

    def _compare(self, ask: Callable[[], int | None]) -> None:
        before_ms = self._machine.now_ms()
        # without an answer, what is known is believed until there is one
        with suppress(CarnacError):
            server_ms = ask()
            after_ms = self._machine.now_ms()
            if server_ms is None:
                self._ask = None
                return
            # nor is one believed that took long, or during which the machine's clock was set
            if 0 <= after_ms - before_ms <= 2 * CLOCKS_AGREE_MS:
                self._take((before_ms + after_ms) // 2 - server_ms, (after_ms - before_ms) // 2)
        self._asked_at_ms = self._machine.now_ms()

    def _take(self, ahead_ms: int, unsure_ms: int) -> None:
        was_ms = self.ahead_ms
        if abs(ahead_ms - was_ms) <= max(unsure_ms, CLOSE_MS):
            return  # what is known may as well be right
        self.ahead_ms = ahead_ms
        if abs(_to_tell(ahead_ms) - _to_tell(was_ms)) > CLOCKS_AGREE_MS:
            _log.warning("%s", describe_ahead(ahead_ms))


def _to_tell(ahead_ms: int) -> int:
    return 0 if abs(ahead_ms) <= CLOCKS_AGREE_MS else ahead_ms


def describe_ahead(ahead_ms: int) -> str:
    """Return how far this machine's clock is from the database server's, as a sentence."""
    host = platform.node()
    if not _to_tell(ahead_ms):
        return f"the clock of {host} agrees with the database server's"
    side = "ahead of" if ahead_ms > 0 else "behind"
    return (
        f"the clock of {host} is {abs(ahead_ms) / 1000:,.0f} s {side} the database server's: set it right; "
        "meanwhile leases go by the server's"
    )


class _IdTime:
    """The time for the ids of this process: it stands still where the machine's clock is set back."""

    def __init__(self) -> None:
        self._last_ms = 0

    def now_ms(self) -> int:
        """Return epoch milliseconds, never less than before; of threads at one moment, by less than they differ."""
        self._last_ms = max(self._last_ms, time.time_ns() // 1_000_000)
        return self._last_ms


_id_time = _IdTime()


def new_secret(size_bytes: int) -> bytes:
    """Return bytes that nobody can guess."""
    return secrets.token_bytes(size_bytes)


class RandomIds:
    """Ids of 26 lower-case letters and digits (port `IdSource`).

    Ten digits of the time in milliseconds, then 80 random bits (the layout of a ULID). Ids made later sort later, so
    ids made together lie together in indexes and folders. Within a process the order holds even if the clock is set
    back: garbage collection knows by it the files that were begun after a writer's lease. The randomness is read from
    the operating system for each id, so processes that fork never make the same one.
    """

    def new_id(self) -> str:
        """Return a new id."""
        return digits(_id_time.now_ms(), TIME_DIGITS) + digits(
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
        return digits(_id_time.now_ms(), TIME_DIGITS) + self._mark + digits(count, COUNT_DIGITS)
