"""One tier through the hours, in which copies arrive, leave, are lost, are loaded again and are moved."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np

from carnac.simulation.arrivals import Ints, Segments, make_copies
from carnac.simulation.boards import make_board
from carnac.simulation.holdings import NOWHERE, Board, Holdings, make_holdings
from carnac.simulation.scenario import Scenario, Strategy, Tier

DRAWS_MAX = 8
"""How often candidates are drawn until enough of them are held by some server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to some servers of a tier, in the hour that begins at `at_hour`."""

    at_hour: int
    kind: Literal["add", "fail", "replace", "decommission"]
    servers: Ints


def plan_changes(scenario: Scenario, tier: Tier, draw: np.random.Generator) -> tuple[Change, ...]:
    """Return the changes of a tier in order of time; which servers are hit is drawn, new ones take the next numbers."""
    up = np.ones(tier.servers, np.bool_)
    changes = []
    for event in sorted(scenario.events, key=lambda e: e.at_hour):
        if event.tier != tier.name:
            continue
        if event.kind == "add":
            servers = np.arange(len(up), len(up) + event.servers)
            up = np.concatenate([up, np.ones(event.servers, np.bool_)])
        else:
            servers = np.sort(draw.choice(np.flatnonzero(up), event.servers, replace=False))
            up[servers] = event.kind == "replace"
        changes.append(Change(at_hour=event.at_hour, kind=event.kind, servers=servers))
    return tuple(changes)


class TierRun:
    """A tier that a strategy looks after, an hour at a time.

    Attributes:
        moves, moved_bytes, reloads: Sums since `take_over`.
    """

    def __init__(
        self, scenario: Scenario, tier: Tier, segments: Segments, draw: np.random.Generator
    ) -> None:
        self.name = tier.name
        self._scenario = scenario
        self._segments = segments
        self._copies = make_copies(scenario, segments, tier)
        self.held: Holdings = make_holdings(scenario, segments, self._copies, tier)
        self.changes: tuple[Change, ...] = plan_changes(scenario, tier, draw)
        hours = np.arange(scenario.total_hours + 2)
        self._arrivals = np.searchsorted(self._copies.arrive, hours)
        self._by_leave = np.argsort(self._copies.leave, kind="stable")
        self._leaves = np.searchsorted(self._copies.leave[self._by_leave], hours)
        stay = self._copies.leave - self._copies.arrive
        self._longest = int(stay.max()) if len(stay) else 0
        self._waiting = np.empty(0, np.int64)
        self._board: Board | None = None
        self.moves = self.moved_bytes = self.reloads = 0
        self._looks = self._every = 1

    def fork(self) -> TierRun:
        """Return a tier in the same state, that changes alone from now on; a strategy must take it over."""
        twin = copy.copy(self)
        twin.held = copy.deepcopy(self.held)
        return twin

    def take_over(
        self,
        strategy: Strategy,
        draw: np.random.Generator,
        *,
        looks_per_move: int = 1,
        every_hours: int = 1,
    ) -> None:
        """Let a strategy look after the tier from now on.

        Args:
            looks_per_move: How many segments it may look at for each move that it may make.
            every_hours: How often it moves.
        """
        self._draw = draw
        self._looks, self._every = looks_per_move, every_hours
        self._board = make_board(strategy, self.held, self._segments, self._scenario, draw)
        self.moves = self.moved_bytes = self.reloads = 0

    @property
    def board(self) -> Board:
        """The strategy at work."""
        assert self._board is not None, "no strategy has taken over"  # noqa: S101
        return self._board

    def alive(self, now: int) -> Ints:
        """Return the copies that should be held at a cell of time."""
        low, high = self._window(now)
        rows = np.arange(low, high)
        return rows[self._copies.leave[low:high] > now]

    def coming(self, now: int, last: int) -> Ints:
        """Return the copies that arrive after a cell of time, up to a later one."""
        return np.arange(self._arrivals[now + 1], self._arrivals[last + 1])

    def pass_hour(self, now: int, moves: int) -> None:
        """Let the hour that ends at a cell pass: drops, changes to servers, loads, then moves."""
        board = self.board
        board.begin(now)
        board.drop(self._by_leave[self._leaves[now] : self._leaves[now + 1]])
        for change in self.changes:
            if change.at_hour == now - 1 - self._scenario.history_hours:
                self._apply(change)
        self._load(now)
        if moves and (now - self._scenario.history_hours) % self._every == 0:
            self._move(now, moves * self._every)
        self._retire()

    def _window(self, now: int) -> tuple[int, int]:
        return int(self._arrivals[max(0, now - self._longest)]), int(self._arrivals[now + 1])

    def _apply(self, change: Change) -> None:
        held = self.held
        if change.kind == "decommission":
            held.is_open[change.servers] = False
            return
        if change.kind != "add":
            lost = np.flatnonzero(np.isin(held.server, change.servers))
            self.board.drop(lost)
            newest_first = np.lexsort((held.segment[lost], held.source[lost], -held.start[lost]))
            self._waiting = np.concatenate([self._waiting, lost[newest_first]])
            self.reloads += len(lost)
        is_back = change.kind != "fail"
        held.is_up[change.servers] = is_back
        held.is_open[change.servers] = is_back

    def _load(self, now: int) -> None:
        """Place what arrives, then what waits, as far as the throttle allows."""
        self.board.place(np.arange(self._arrivals[now], self._arrivals[now + 1]))
        self._waiting = self._waiting[self._copies.leave[self._waiting] > now]
        limit = self._scenario.reloads_per_hour or len(self._waiting)
        self.board.place(self._waiting[:limit])
        rows = np.arange(self._arrivals[now], self._arrivals[now + 1])
        rows = np.concatenate([self._waiting, rows])
        self._waiting = rows[self.held.server[rows] == NOWHERE]

    def _move(self, now: int, moves: int) -> None:
        rows = self._candidates(now, moves * self._looks)
        before = self.held.server[rows].copy()
        self.moves += self.board.move(rows, moves)
        moved = rows[self.held.server[rows] != before]
        self.moved_bytes += int(self.held.size_bytes[moved].sum())

    def _candidates(self, now: int, count: int) -> Ints:
        """Return copies to look at: those on decommissioning servers first, then any, at random, each once."""
        held = self.held
        leaving = np.flatnonzero(held.is_up & ~held.is_open)
        found = np.flatnonzero(np.isin(held.server, leaving))[:count] if len(leaving) else None
        rows = np.empty(0, np.int64) if found is None else found
        low, high = self._window(now)
        for _ in range(DRAWS_MAX):
            if len(rows) >= count or high == low:
                break
            drawn = self._draw.integers(low, high, count)
            drawn = drawn[held.server[drawn] >= 0]
            joined = np.concatenate([rows, drawn])
            _, first = np.unique(joined, return_index=True)
            rows = joined[np.sort(first)]
        return rows[:count]

    def _retire(self) -> None:
        """A decommissioned server that is empty leaves the cluster."""
        held = self.held
        leaving = np.flatnonzero(held.is_up & ~held.is_open)
        if len(leaving):
            held.is_up[leaving[held.counts()[leaving] == 0]] = False
