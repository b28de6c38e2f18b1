"""The segments of a scenario, all of them, and the copies that its tiers hold.

They are columns, sorted by arrival: a simulated hour takes a slice of them. Instants are whole hours (*cells*) since
the history's start. A segment arrives when its interval ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from carnac.errors import Invalid
from carnac.simulation.scenario import (
    HOURS_BY_GRANULARITY,
    SEGMENTS_MAX,
    Datasources,
    Scenario,
    Tier,
)

Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One datasource.

    Attributes:
        group: Index of the scenario's group that it belongs to.
        hours: Length of its segments' intervals.
        partitions: Segments per interval; the fraction comes as one more segment in that share of the intervals.
        popularity: How often it is asked, in proportion to the others.
    """

    name: str
    group: int
    hours: int
    partitions: float
    size_bytes: int
    popularity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """All segments, by arrival, then datasource, then partition.

    Attributes:
        source: Index into the scenario's sources.
        start, end: Cells; the end is also when it arrives.
    """

    sources: tuple[Source, ...]
    source: Codes
    start: Codes
    end: Codes

    def __len__(self) -> int:
        return len(self.source)

    def sizes_bytes(self) -> Ints:
        """Return the size of each."""
        return np.array([source.size_bytes for source in self.sources], np.int64)[self.source]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The copies that one tier ever holds, by arrival; copies of one segment are neighbours.

    Attributes:
        segment: Row of the segment.
        arrive, leave: Cells; a copy is held in `[arrive, leave)`.
    """

    segment: Codes
    arrive: Codes
    leave: Codes

    def __len__(self) -> int:
        return len(self.segment)


def make_sources(scenario: Scenario) -> tuple[Source, ...]:
    """Return the datasources of a scenario, those of a group in falling size."""
    found = []
    for group, kind in enumerate(scenario.datasources):
        share = _shares(kind) * kind.partitions * kind.count
        found += [
            Source(
                name=kind.name if kind.count == 1 else f"{kind.name}-{number}",
                group=group,
                hours=HOURS_BY_GRANULARITY[kind.granularity],
                partitions=float(share[number]),
                size_bytes=round(kind.size_mb * MB),
                popularity=kind.popularity,
            )
            for number in range(kind.count)
        ]
    return tuple(found)


def make_segments(scenario: Scenario) -> Segments:
    """Return every segment that arrives in the history and after it.

    Raises:
        Invalid: They are too many to simulate.
    """
    sources = make_sources(scenario)
    total = sum(scenario.total_hours // s.hours * s.partitions for s in sources)
    if total > SEGMENTS_MAX:
        raise Invalid(
            f"scenario '{scenario.name}' makes {total:,.0f} segments; at most {SEGMENTS_MAX:,} can be simulated, "
            "so take fewer days, datasources or partitions"
        )
    columns = []
    for number, source in enumerate(sources):
        buckets = scenario.total_hours // source.hours
        # Of 2.4 partitions an interval has 2 or 3, so that the sum is right at any time.
        edges = np.floor(np.arange(buckets + 1) * source.partitions + 1e-9).astype(np.int64)
        start = np.repeat(np.arange(buckets) * source.hours, np.diff(edges))
        columns.append(np.stack([np.full(len(start), number), start, start + source.hours]))
    table = np.concatenate(columns, axis=1).astype(np.int32)
    table = table[:, np.lexsort((table[0], table[2]))]
    if not table.shape[1]:
        raise Invalid(f"scenario '{scenario.name}' makes no segment; take more days or partitions")
    return Segments(sources=sources, source=table[0], start=table[1], end=table[2])


def make_copies(scenario: Scenario, segments: Segments, tier: Tier) -> Copies:
    """Return the copies that a tier ever holds."""
    replicas = np.zeros(len(segments.sources), np.int64)
    hours = np.zeros(len(segments.sources), np.int64)
    for number, source in enumerate(segments.sources):
        for rule in scenario.datasources[source.group].load:
            if rule.tier == tier.name:
                replicas[number], hours[number] = rule.replicas, rule.days * 24
    segment = np.repeat(np.arange(len(segments)), replicas[segments.source])
    arrive = segments.end[segment]
    leave = arrive + hours[segments.source[segment]]
    return Copies(segment=segment.astype(np.int32), arrive=arrive, leave=leave.astype(np.int32))


def _shares(kind: Datasources) -> Floats:
    weights = np.arange(1, kind.count + 1, dtype=np.float64) ** -kind.skew
    shares: Floats = weights / weights.sum()
    return shares
