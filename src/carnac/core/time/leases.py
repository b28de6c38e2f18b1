"""When a lease is over, by clocks of which one may be wrong.

A sign of life has the time of the clock that it was given by, and is judged by another one, or by the same one after
somebody has set it. Only the distance of the two is known. So a sign of life counts for one lease in both directions.
One from further ahead than that is not believed: else a process whose clock was once in the future would be thought
alive until that time comes.
"""

from __future__ import annotations

CLOCKS_AGREE_MS = 5_000
"""Clocks that are further apart than this are told of."""


def is_over(heartbeat_at_ms: int, lease_ms: int, at_ms: int) -> bool:
    """Return whether a whole lease lies between a sign of life and now, whichever is later.

    Periodic work is due again by the same rule: at once after a clock was set.
    """
    return abs(at_ms - heartbeat_at_ms) >= lease_ms
