"""How long a server is waited for that has always answered sooner: the beginning of what is told of one that hangs."""

from __future__ import annotations

from dataclasses import dataclass, replace

TIMES_USUAL = 5
"""A server that takes so many times as long as it did of late hangs."""
LEAST_MS = 1_000
"""One that is usually fast may be slow for a moment: it is waited for so long in any case."""
USUAL_SHARE = 0.9
"""How much of what was usual is left after an answer that came sooner."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one server's answers take, as far as was seen. Each change is a new value.

    Attributes:
        most_ms: The limit is never higher.
        usual_ms: How long its answers take that need no computing: of late, at the most.
    """

    most_ms: int
    usual_ms: float = 0.0

    @property
    def limit_ms(self) -> int:
        """How long an answer is waited for."""
        return min(self.most_ms, max(LEAST_MS, int(TIMES_USUAL * self.usual_ms)))

    def heard(self, took_ms: float) -> Patience:
        """Take note of an answer."""
        return replace(self, usual_ms=max(0.0, took_ms, USUAL_SHARE * self.usual_ms))

    def missed(self) -> Patience:
        """Take note of an answer that did not come in time: the next one is waited for twice as long."""
        return replace(self, usual_ms=2 * self.limit_ms / TIMES_USUAL)
