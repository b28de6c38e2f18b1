"""Measurements of a cluster at one time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carnac.simulation.arrivals import Floats, Ints
from carnac.simulation.holdings import NOWHERE, Holdings
from carnac.simulation.trace import Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Least, mean and most of a number that each server has."""

    least: float
    mean: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TierMeasure:
    """One tier at one time.

    Attributes:
        servers: Servers that are up.
        segments: Copies on each server that is up.
        used_bytes: Bytes on each of them.
        disk: Used share of each server's disk.
        unplaced: Copies that should be held and are not: no server had room.
    """

    name: str
    servers: int
    segments: Spread
    used_bytes: Spread
    disk: Spread
    unplaced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMeasure:
    """The effect on users, over the queries of the trace that find something.

    Attributes:
        queries: Number of these queries.
        mean_makespan: Mean of the most segments that any server must scan.
        mean_ideal: Mean of that number in the best layout.
        mean_ratio, median_ratio, p95_ratio: Ratio of makespan to ideal.
        mean_unused: Mean share of the servers that could help and do nothing.
    """

    queries: int
    mean_makespan: float
    mean_ideal: float
    mean_ratio: float
    median_ratio: float
    p95_ratio: float
    mean_unused: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The cluster at one time.

    Attributes:
        hour: Hours since the strategy took over.
        total_cost: Exact cost, in hours²: all pairs of segments on one server.
        moves: Moves since hour 0.
        moved_bytes: Bytes of these moves.
        reloads: Copies that had to be placed anew because their server was lost, since hour 0.
    """

    hour: int
    tiers: tuple[TierMeasure, ...]
    queries: QueryMeasure
    total_cost: float
    moves: int
    moved_bytes: int
    reloads: int


def measure_tier(name: str, held: Holdings, alive: Ints) -> TierMeasure:
    """Return the measure of a tier; `alive` are the copies that should be held now."""
    counts = held.counts()[held.is_up]
    used = held.disk_bytes - held.free_bytes[held.is_up].astype(np.float64)
    return TierMeasure(
        name=name,
        servers=int(held.is_up.sum()),
        segments=_spread(counts.astype(np.float64)),
        used_bytes=_spread(used),
        disk=_spread(used / held.disk_bytes),
        unplaced=int((held.server[alive] == NOWHERE).sum()),
    )


def measure_answers(answers: Answers) -> QueryMeasure:
    """Return what the answers come to; zeros where no query finds anything."""
    if not len(answers):
        return QueryMeasure(
            queries=0, mean_makespan=0, mean_ideal=0, mean_ratio=0, median_ratio=0, p95_ratio=0,
            mean_unused=0,
        )  # fmt: skip
    ratio = answers.ratio()
    return QueryMeasure(
        queries=len(answers),
        mean_makespan=float(answers.makespan.mean()),
        mean_ideal=float(answers.ideal.mean()),
        mean_ratio=float(ratio.mean()),
        median_ratio=float(np.median(ratio)),
        p95_ratio=float(np.quantile(ratio, 0.95)),
        mean_unused=float(answers.unused().mean()),
    )


def _spread(values: Floats) -> Spread:
    return Spread(least=float(values.min()), mean=float(values.mean()), most=float(values.max()))
