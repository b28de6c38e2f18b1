"""How much a run of the balancer may do, and how eager it is.

The names in Druid's dynamic configuration, and its numbers, are in the docstrings (Source: Druid's coordinator
documentation and code, read in 2026; the formulas of "smart" loading are its own, in integers).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from carnac.errors import Invalid

DAY_MS = 86_400_000
MAX_REPLICATION_SHARE = 20
"""Smart loading replicates at most one in so many used segments at a time: 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLimits:
    """How many moves a run plans, and when a move is worth it.

    Attributes:
        max_moves: Per tier and run, moves under way included. Druid: `maxSegmentsToMove`.
        max_queue: Loads that one server may have queued; 0 is no limit. Druid: `maxSegmentsInNodeLoadingQueue`.
        min_saving: A move must save at least this share of what the segment and a copy of it on one server would
            cost each other. More than 0: with that, a cluster that does not change comes to rest (BL-1).
        return_window_ms: No move takes a segment back to a server that one took it from less than this ago (BL-2).
    """

    max_moves: int = 100
    max_queue: int = 500
    min_saving: float = 0.05
    return_window_ms: int = DAY_MS

    def __post_init__(self) -> None:
        if self.max_moves < 0 or self.max_queue < 0 or self.return_window_ms < 0:
            raise Invalid("max_moves, max_queue and return_window_ms must be 0 or more")
        if not self.min_saving > 0:
            raise Invalid("min_saving must be more than 0, or moves would never end")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """How many loads a run plans.

    Attributes:
        max_replicas: Loads of further replicas per tier, those under way included; a segment's first replica is never
            held back. Druid: `replicationThrottleLimit`, 500 without smart loading.
        max_queue: As in `MoveLimits`.
        begun: The first loads of a queue, so many, may have begun and stay when others are sent elsewhere.
    """

    max_replicas: int = 500
    max_queue: int = 500
    begun: int = 4

    def __post_init__(self) -> None:
        if min(self.max_replicas, self.max_queue, self.begun) < 0:
            raise Invalid("max_replicas, max_queue and begun must be 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLimits:
    """All limits of a run. `smart_limits` makes them from the size of the cluster."""

    loads: LoadLimits = field(default_factory=LoadLimits)
    moves: MoveLimits = field(default_factory=MoveLimits)
    max_fill: float = 0.95
    """The share of a server's disk that is filled; one that is nearly full gets nothing more. > 0, at most 1."""

    def __post_init__(self) -> None:
        if not 0 < self.max_fill <= 1:
            raise Invalid("max_fill must be more than 0 and at most 1")


def smart_limits(used_segments: int) -> LoadLimits:
    """Return the limits on loads that Druid takes when it is told to be smart (`smartSegmentLoading`)."""
    return LoadLimits(
        max_replicas=max(100, used_segments // MAX_REPLICATION_SHARE),
        max_queue=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttles:
    """The operator's limits on the work of a run.

    Attributes:
        max_moves: See `MoveLimits`.
        max_queue: See `MoveLimits`.
        max_replicas: See `LoadLimits`; None: the limit of `smart_limits` for the number of segments.
    """

    max_moves: int = 100
    max_queue: int = 500
    max_replicas: int | None = None


def throttled(throttles: Throttles, used_segments: int) -> CoordinatorLimits:
    """Return the limits of a run over so many segments.

    Raises:
        Invalid: A throttle is negative.
    """
    replicas = throttles.max_replicas
    return CoordinatorLimits(
        loads=LoadLimits(
            max_replicas=smart_limits(used_segments).max_replicas if replicas is None else replicas,
            max_queue=throttles.max_queue,
        ),
        moves=MoveLimits(max_moves=throttles.max_moves, max_queue=throttles.max_queue),
    )
