"""The cost that Druid used before 0.9.1, kept so that its clusters of points can be made and seen.

    cost(X, Y) = min(size) × same × recency × gap

with same = 2 for one datasource, else 1; recency = (2 − a/7d)(2 − b/7d) if both ended less than 7 days before the
reference time (a and b ago), else 1; gap = 2 if they overlap or touch, 2 − gap/30d if less than 30 days lie between,
else 1. That is what was meant (`is_step=False`). What ran divided two whole numbers, so that the gap factor was 2 up to
30 days: a step, and the reason for the clusters (`docs/concepts/balancing.md`).

Source: "Distributing Data in Druid at Petabyte Scale", and the function of Druid 0.9.0.
"""

from __future__ import annotations

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Floats, Ints
from carnac.core.balancing.cost.compiled import compiled

WEEK_MS = 7 * 86_400_000
MONTH_MS = 30 * 86_400_000


@compiled
def _pair_cost(
    x: tuple[int, int, int, int], y: tuple[int, int, int, int], reference_ms: int, is_step: bool
) -> float:
    """Return the cost of two segments, each (datasource, start, end, size)."""
    cost = float(min(x[3], y[3]))
    if x[0] == y[0]:
        cost *= 2
    x_age, y_age = reference_ms - x[2], reference_ms - y[2]
    if x_age < WEEK_MS and y_age < WEEK_MS:
        cost *= (2 - x_age / WEEK_MS) * (2 - y_age / WEEK_MS)
    gap = max(x[1], y[1]) - min(x[2], y[2])
    if gap <= 0:
        return cost * 2
    if gap < MONTH_MS:
        return cost * (2.0 if is_step else 2 - gap / MONTH_MS)
    return cost


def legacy_pair_cost(
    x: tuple[int, int, int, int],
    y: tuple[int, int, int, int],
    *,
    reference_ms: int,
    is_step: bool = True,
) -> float:
    """Return the legacy cost of two segments, each as (datasource, start ms, end ms, size in bytes)."""
    return _pair_cost(x, y, reference_ms, is_step)


def legacy_costs(
    x: tuple[int, int, int, int],
    columns: tuple[Codes, Ints, Ints, Ints],
    replicas: tuple[Ints, Codes],
    *,
    server_count: int,
    reference_ms: int,
    is_step: bool = True,
) -> Floats:
    """Return what a segment costs against all that each server holds, one element a server.

    Args:
        x: The segment: (datasource, start, end, size).
        columns: Datasource, start, end and size of all segments.
        replicas: The segment and the server of each replica; one with a negative server is left out.
        server_count: How many servers there are.
        reference_ms: The time from which recency counts back.
        is_step: Whether the gap factor is the step that ran, or the slope that was meant.
    """
    costs = np.zeros(server_count)
    _add_costs(x, columns, replicas, costs, (reference_ms, is_step))
    return costs


@compiled
def _add_costs(
    x: tuple[int, int, int, int],
    columns: tuple[Codes, Ints, Ints, Ints],
    replicas: tuple[Ints, Codes],
    costs: Floats,
    how: tuple[int, bool],
) -> None:
    datasource, start_ms, end_ms, size = columns
    segment, server = replicas
    reference_ms, is_step = how
    for row in range(len(segment)):
        if server[row] >= 0:
            y = segment[row]
            other = (int(datasource[y]), start_ms[y], end_ms[y], size[y])
            costs[server[row]] += _pair_cost(x, other, reference_ms, is_step)
