"""Time and ids: the only two things of the outside world that the core is handed."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Return epoch milliseconds, UTC. May repeat, and may step back a little."""
        ...

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait for that long."""
        ...


class IdSource(Protocol):
    """Where ids come from."""

    def new_id(self) -> str:
        """Return an id never returned before: lower-case letters and digits, safe in file names."""
        ...
