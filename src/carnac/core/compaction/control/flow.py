"""Does compaction keep up? Arrival rate against dispatch rate, and a verdict.

Source: "Compaction Notes", "Controller": the queue grows while arrivals are above the dispatch rate, shrinks while they
are below. The source writes the stability condition the wrong way round: it settles if the average of arrivals stays
*below* the dispatch rate. Both are in cost per millisecond. The dispatch rate is what the slots could do if all were
busy, so that an idle system does not look like a slow one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

WINDOW_MS = 3_600_000
"""How far back arrivals and runs are remembered."""


class Outlook(StrEnum):
    """The forecast for the backlog."""

    CLEAR = "clear"
    """There is none."""
    CLEARS = "clears"
    NEVER = "never"
    UNKNOWN = "unknown"
    """No task has ended yet, so the dispatch rate is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the backlog clears, and when.

    Attributes:
        backlog: Cost of what waits and of what is deferred.
        arrivals: Cost per millisecond.
        dispatches: Cost per millisecond; None: not known yet.
        clears_at_ms: If it clears.
        shed: Tasks of lowest priority that found no place in the queue lately.
    """

    outlook: Outlook
    backlog: int
    arrivals: float
    dispatches: float | None
    clears_at_ms: int | None = None
    shed: int = 0


class Flow:
    """Remembers arrivals and runs of the last while."""

    def __init__(self) -> None:
        self._arrivals: deque[tuple[int, int]] = deque()
        self._runs: deque[tuple[int, int, int]] = deque()
        self._since_ms: int | None = None

    def note_look(self, at_ms: int) -> None:
        """Note a look for arrivals. Work that was there before the first look is a backlog, and no arrival."""
        if self._since_ms is None:
            self._since_ms = at_ms

    def note_arrival(self, at_ms: int, cost: int) -> None:
        """Note that so much work was found that was not there before."""
        self.note_look(at_ms)
        self._arrivals.append((at_ms, cost))

    def note_run(self, at_ms: int, cost: int, duration_ms: int) -> None:
        """Note that a task ended."""
        if self._since_ms is None:
            self._since_ms = at_ms - duration_ms
        self._runs.append((at_ms, cost, max(duration_ms, 1)))

    def arrival_rate(self, now_ms: int) -> float:
        """Return the mean cost per millisecond that arrived in the window."""
        self._trim(now_ms)
        if self._since_ms is None:
            return 0.0
        length_ms = min(now_ms - self._since_ms, WINDOW_MS)
        return sum(cost for _, cost in self._arrivals) / max(length_ms, 1)

    def dispatch_rate(self, now_ms: int, slots: int) -> float | None:
        """Return the cost per millisecond that so many slots can do; None if no task has ended in the window."""
        self._trim(now_ms)
        if not self._runs:
            return None
        cost = sum(cost for _, cost, _ in self._runs)
        return slots * cost / sum(duration_ms for _, _, duration_ms in self._runs)

    def _trim(self, now_ms: int) -> None:
        if self._since_ms is not None and self._since_ms > now_ms:  # the clock was set back
            self._since_ms = now_ms
            self._arrivals.clear()
            self._runs.clear()
        while self._arrivals and self._arrivals[0][0] < now_ms - WINDOW_MS:
            self._arrivals.popleft()
        while self._runs and self._runs[0][0] < now_ms - WINDOW_MS:
            self._runs.popleft()


def judge_flow(
    *, backlog: int, arrivals: float, dispatches: float | None, now_ms: int, shed: int = 0
) -> Verdict:
    """Return whether the backlog clears, and when."""
    clears_at_ms = None
    if not backlog:
        outlook = Outlook.CLEAR
    elif dispatches is None:
        outlook = Outlook.UNKNOWN
    elif arrivals >= dispatches:
        outlook = Outlook.NEVER
    else:
        outlook = Outlook.CLEARS
        clears_at_ms = now_ms + round(backlog / (dispatches - arrivals))
    return Verdict(
        outlook=outlook,
        backlog=backlog,
        arrivals=arrivals,
        dispatches=dispatches,
        clears_at_ms=clears_at_ms,
        shed=shed,
    )
