"""Run a scenario: hour by hour, first its history, then what follows under one strategy or under several.

All randomness comes from one seed: each use (trace, servers that are hit, history, future) has a stream of its own, so
that two strategies see the same arrivals, failures and queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from carnac.simulation.arrivals import Codes, Ints, Segments, make_segments
from carnac.simulation.measures import Measure, measure_answers, measure_tier
from carnac.simulation.scenario import HOUR_MS, Scenario, Strategy
from carnac.simulation.tier import Change, TierRun
from carnac.simulation.trace import Answers, Asker, Trace, draw_trace

Listener: TypeAlias = Callable[[str, int, int], None]
"""Is told what goes on, how many hours are done, and of how many."""

FILM_COPIES = 60_000
"""About how many copies an animation follows."""
FILM_SERVERS = 60
"""How many servers it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The holdings of servers at one time, one element per copy that was held; servers are numbered over all tiers."""

    source: Codes
    start_ms: Ints
    server: Codes


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """Some copies of the first tier, followed from hour to hour.

    Attributes:
        share: Followed share of all copies on the servers shown.
        servers: The servers shown.
        source, start_ms: Columns of the followed copies.
        frames: Frames from hour 0 on, one an hour: the server of each copy, -1 where it is not held.
    """

    share: float
    servers: Ints
    source: Codes
    start_ms: Ints
    frames: tuple[npt.NDArray[np.int16], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Future:
    """The future of the cluster under one strategy.

    Attributes:
        measures: Measures from hour 0 to the end.
        disks: Used share of every server's disk that is up at the end.
    """

    strategy: Strategy
    measures: tuple[Measure, ...]
    after: Layout
    answers: Answers
    disks: npt.NDArray[np.float64]
    film: Film


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A whole simulation; `before` is hour 0, when the strategies take over.

    Attributes:
        changes: Changes of the servers of the first tier.
    """

    scenario: Scenario
    seed: int
    segments: Segments
    server_count: int
    before: Layout
    answers_before: Answers
    changes: tuple[Change, ...]
    disks_before: npt.NDArray[np.float64]
    futures: tuple[Future, ...]


class Simulation:
    """A scenario on its way.

    Args:
        seed: The same scenario and seed give the same outcome, to the last bit.
        on_progress: Is told of every hour.
    """

    def __init__(
        self, scenario: Scenario, *, seed: int = 0, on_progress: Listener | None = None
    ) -> None:
        self._scenario = scenario
        self._seed = seed
        self._tell = on_progress or (lambda _what, _done, _total: None)
        self._segments = make_segments(scenario)
        self._trace: Trace = draw_trace(
            scenario.queries, self._segments.sources, self._stream("trace")
        )
        draw = self._stream("servers")
        self.tiers = [TierRun(scenario, tier, self._segments, draw) for tier in scenario.tiers]

    def run(self, strategies: Sequence[Strategy]) -> Outcome:
        """Let the history pass, then a future for each strategy."""
        scenario = self._scenario
        for tier in self.tiers:
            tier.take_over(scenario.history.strategy, self._stream("history", tier.name))
        for now in range(1, scenario.history_hours + 1):
            for tier in self.tiers:
                tier.pass_hour(now, scenario.history.moves_per_hour)
            self._tell(f"history, {scenario.history.strategy}", now, scenario.history_hours)
        asker = Asker(self._segments, [tier.held for tier in self.tiers])
        return Outcome(
            scenario=scenario,
            seed=self._seed,
            segments=self._segments,
            server_count=asker.server_count,
            before=self._layout(self.tiers),
            answers_before=asker.ask(self._trace, scenario.history_hours),
            changes=self.tiers[0].changes,
            disks_before=_disks(self.tiers),
            futures=tuple(self._future(strategy) for strategy in strategies),
        )

    def _future(self, strategy: Strategy) -> Future:
        scenario, first = self._scenario, self._scenario.history_hours
        tiers = [tier.fork() for tier in self.tiers]
        for tier in tiers:
            tier.take_over(
                strategy,
                self._stream("future", tier.name),
                looks_per_move=scenario.looks_per_move,
                every_hours=scenario.plan_every_hours,
            )
        asker = Asker(self._segments, [tier.held for tier in tiers])
        camera = _Camera(tiers[0], self._stream("film"), now=first, last=scenario.total_hours)
        measures = [self._measure(tiers, asker, first)]
        for now in range(first + 1, scenario.total_hours + 1):
            for tier in tiers:
                tier.pass_hour(now, scenario.moves_per_hour)
            camera.take()
            hour = now - first
            if hour % scenario.measure_every_hours == 0 or now == scenario.total_hours:
                measures.append(self._measure(tiers, asker, now))
            self._tell(strategy, hour, scenario.days * 24)
        return Future(
            strategy=strategy,
            measures=tuple(measures),
            after=self._layout(tiers),
            answers=asker.ask(self._trace, scenario.total_hours),
            disks=_disks(tiers),
            film=camera.film(scenario),
        )

    def _measure(self, tiers: Sequence[TierRun], asker: Asker, now: int) -> Measure:
        scenario = self._scenario
        return Measure(
            hour=now - scenario.history_hours,
            tiers=tuple(measure_tier(tier.name, tier.held, tier.alive(now)) for tier in tiers),
            queries=measure_answers(asker.ask(self._trace, now)),
            total_cost=asker.total_cost(scenario.total_hours, scenario.half_life_hours),
            moves=sum(tier.moves for tier in tiers),
            moved_bytes=sum(tier.moved_bytes for tier in tiers),
            reloads=sum(tier.reloads for tier in tiers),
        )

    def _layout(self, tiers: Sequence[TierRun]) -> Layout:
        parts, offset = [], 0
        for tier in tiers:
            held = tier.held
            rows = np.flatnonzero(held.server >= 0)
            server = held.server[rows] + offset
            parts.append((held.source[rows], held.start[rows], server))
            offset += held.server_count
        source, start, server = (np.concatenate(column) for column in zip(*parts, strict=True))
        start_ms = self._scenario.origin_ms + start.astype(np.int64) * HOUR_MS
        return Layout(source=source, start_ms=start_ms, server=server.astype(np.int32))

    def _stream(self, use: str, name: str = "") -> np.random.Generator:
        """Return the stream of random numbers of one use."""
        return np.random.default_rng([self._seed, *f"{use}/{name}".encode()])


class _Camera:
    """Follows some copies of a tier."""

    def __init__(self, tier: TierRun, draw: np.random.Generator, *, now: int, last: int) -> None:
        held = tier.held
        self._held = held
        self._servers = _servers_shown(tier, draw)
        rows = np.unique(np.concatenate([tier.alive(now), tier.coming(now, last)]))
        shown = len(self._servers) / held.server_count
        self._share = min(1.0, FILM_COPIES / max(1.0, len(rows) * shown))
        self._rows = rows[draw.random(len(rows)) < self._share]
        self._frames: list[npt.NDArray[np.int16]] = []
        self.take()

    def take(self) -> None:
        """Take a frame."""
        self._frames.append(self._held.server[self._rows].astype(np.int16))

    def film(self, scenario: Scenario) -> Film:
        """Return what was taken: the copies that were on one of the servers shown at some time."""
        ever = np.zeros(len(self._rows), np.bool_)
        for frame in self._frames:
            ever |= np.isin(frame, self._servers)
        rows = self._rows[ever]
        start_ms = scenario.origin_ms + self._held.start[rows].astype(np.int64) * HOUR_MS
        return Film(
            share=self._share,
            servers=self._servers,
            source=self._held.source[rows],
            start_ms=start_ms,
            frames=tuple(frame[ever] for frame in self._frames),
        )


def _servers_shown(tier: TierRun, draw: np.random.Generator) -> Ints:
    """Return some servers of a tier, in order; those to which something happens are among them."""
    count = tier.held.server_count
    hit = [c.servers for c in tier.changes if c.at_hour >= 0]
    first = np.unique(np.concatenate(hit)) if hit else np.empty(0, np.int64)
    others = np.setdiff1d(np.arange(count), first)
    room = max(0, min(count, FILM_SERVERS) - len(first))
    return np.sort(np.concatenate([first[:FILM_SERVERS], draw.permutation(others)[:room]]))


def _disks(tiers: Sequence[TierRun]) -> npt.NDArray[np.float64]:
    parts = [1 - t.held.free_bytes[t.held.is_up] / t.held.disk_bytes for t in tiers]
    joined: npt.NDArray[np.float64] = np.concatenate(parts)
    return joined
