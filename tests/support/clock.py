"""Time and ids that a test decides."""

from __future__ import annotations

import threading

from carnac.clock import SystemClock

DEFAULT_START_MS = 1_388_534_400_000
"""2014-01-01T00:00:00.000Z."""


class FakeClock:
    """A clock that moves only when it is told to, or when somebody sleeps (port `Clock`). Safe for threads."""

    def __init__(self, now_ms: int = DEFAULT_START_MS) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self.slept_ms: list[int] = []

    def now_ms(self) -> int:
        """Return the time it was last set to."""
        with self._lock:
            return self._now_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Move on by `duration_ms` at once, and remember it in `slept_ms`."""
        with self._lock:
            self._now_ms += max(0, duration_ms)
            self.slept_ms.append(duration_ms)

    def advance_ms(self, duration_ms: int) -> int:
        """Move by `duration_ms` (negative: the clock steps back); return the new time."""
        with self._lock:
            self._now_ms += duration_ms
            return self._now_ms


class ClockSetBack(SystemClock):
    """The machine's clock, which a test sets back while it runs."""

    back_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() - self.back_ms


class SequentialIds:
    """Ids `<prefix>000001`, `<prefix>000002`, … (port `IdSource`). Safe for threads."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._count = 0
        self._lock = threading.Lock()

    def new_id(self) -> str:
        """Return the next id."""
        with self._lock:
            self._count += 1
            return f"{self._prefix}{self._count:06d}"
