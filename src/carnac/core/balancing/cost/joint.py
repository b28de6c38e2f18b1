"""The joint cost of two segments: how likely their instants are wanted by one query, integrated over both.

    cost(X, Y) = ∫∫ exp(−λ|x − y|) dx dy   over X × Y,   λ = ln 2 / half-life

in hours². It is symmetric, translation invariant, additive under any split of either interval, and positive. Segments
of one datasource count twice; the callers that know datasources apply that factor (`SAME_DATASOURCE`).

Source: "Distributing Data in Druid at Petabyte Scale". Departure: its last displayed formula has the sign of the mixed
exponents wrong; `docs/concepts/balancing.md` derives the form used here.
"""

from __future__ import annotations

import math

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SAME_DATASOURCE = 2
"""How many times the joint cost of two segments of one datasource counts; of two datasources it counts once."""


def square_hours(half_life_ms: int) -> float:
    """Return how many hours² one unit of `scaled_cost` is: 1/λ²."""
    return (half_life_ms / HOUR_MS / math.log(2)) ** 2


def scaled_cost(x0: int, x1: int, y0: int, y1: int, rate: float) -> float:
    """Return the joint cost of `[x0, x1)` and `[y0, y1)` in units of 1/rate²; `rate` is λ per unit of the ends.

    The overlap of the two, the part before it and the part after it are taken apart, so that only positive terms are
    added, and nothing cancels. `field.py` compiles this same function.
    """
    if x0 > y0:  # from here on X starts first
        x0, x1, y0, y1 = y0, y1, x0, x1
    if x1 <= y0:
        gap, before, after = rate * (y0 - x1), rate * (x1 - x0), rate * (y1 - y0)
        return math.exp(-gap) * math.expm1(-before) * math.expm1(-after)
    before = rate * (y0 - x0)
    shared = rate * (min(x1, y1) - y0)
    after = rate * abs(x1 - y1)
    later = rate * (y1 - y0)  # all of Y meets the part of X before the overlap
    if shared < 0.25:  # t + exp(−t) − 1 cancels: its series, to t¹²
        t = shared
        series = 1 - t / 12 * (1 - t / 13 * (1 - t / 14))
        for k in range(11, 2, -1):
            series = 1 - t / k * series
        inner = t * t * series
    else:
        inner = 2 * (shared + math.expm1(-shared))
    return (
        math.expm1(-before) * math.expm1(-later) + inner + math.expm1(-shared) * math.expm1(-after)
    )
