"""Late rows, counted one by one: the oracle of what Spark counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from carnac.core.segments.lateness import BOUNDS_MS, LATENESSES, LateCounts


def count_late(times_ms: Iterable[int], newest_before_ms: int | None) -> LateCounts:
    """Count the late ones among rows of these times.

    Args:
        newest_before_ms: Time of the newest row that was there before; None: nothing was there, so nothing is late.
    """
    counts = [0] * len(LATENESSES)
    if newest_before_ms is not None:
        for at_ms in times_ms:
            if at_ms < newest_before_ms:
                counts[bisect_left(BOUNDS_MS, newest_before_ms - at_ms)] += 1
    return tuple(counts)
