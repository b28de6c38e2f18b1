"""Runs of the planner: the times when one is due, its orders, and the memory from one run to the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from carnac.core.rollout.model import Surplus
from carnac.core.time.leases import is_over

if TYPE_CHECKING:
    from carnac.coordinator.fleet import Fleet
    from carnac.coordinator.following import LogView
    from carnac.coordinator.rules import Rules
    from carnac.core.balancing.live.picture import Departed, MoveUnderWay, ServerView
    from carnac.core.balancing.live.planning import ClusterFacts, ClusterPlan
    from carnac.core.balancing.plan.limits import Throttles
    from carnac.core.balancing.plan.rules import RuleSet
    from carnac.core.segments.segment import Segment
    from carnac.ports import Clock

RUN_PERIOD_MS = 30_000
"""A run comes at least so often: rules that count periods match other segments as time goes on."""
RUN_PAUSE_MS = 1_000
"""Between two runs while segments are on their way, which each of them may change."""
PAUSE_SHARE = 4
"""A run that took long is followed by a pause of so many times that."""
DEPARTED_MAX = 100_000
"""Moves that are remembered so that nothing moves back too soon."""
RETRY_MS = 30_000
"""After so long, and twice as long each time, a load that failed is tried again."""
RETRY_MAX_MS = 3_600_000
RETRIED = "retry"
NOT_READY = "planner_not_ready"
"""Why a segment has no place yet: its rule or its room was not looked at, as the planner is being compiled."""


@dataclass(slots=True)
class Failed:
    """A load that failed.

    Attributes:
        times: Number of its failures.
        at_ms: When it failed last, epoch milliseconds, UTC.
        pause_ms: How long it is left alone then.
        is_let_go: Whether the server was ordered to forget it, so that it may be tried again.
    """

    times: int
    at_ms: int
    pause_ms: int
    is_let_go: bool = False


@dataclass(slots=True)
class Memory:
    """The planner's memory between runs; a coordinator that begins to lead knows none of it.

    Attributes:
        moves: Under way.
        departed: Moves that have ended.
        failed: Loads that failed, by server and segment.
        surplus: Copies that the last run found to be too many.
        unwanted: See `ClusterPlan`.
        unplaced: See `ClusterPlan`.
    """

    moves: list[MoveUnderWay] = field(default_factory=list)
    departed: deque[Departed] = field(default_factory=lambda: deque(maxlen=DEPARTED_MAX))
    failed: dict[tuple[str, str], Failed] = field(default_factory=dict)
    surplus: list[Surplus] = field(default_factory=list)
    unwanted: Set[str] = frozenset()
    unplaced: Mapping[str, str] = field(default_factory=dict)


class Planner:
    """Plans and orders loads and moves. The rollout (`rolling`) decides what may be unloaded.

    Args:
        throttles: Throttles of runs.

    Attributes:
        is_ready: Whether the machine code of runs is ready. Until then new segments are placed by room alone.
        last: The last run's plan; None before the first one.
        retries: Failed loads that may be let go now.
    """

    def __init__(
        self,
        log: LogView,
        fleet: Fleet,
        rules: Rules,
        clock: Clock,
        *,
        throttles: Throttles,
    ) -> None:
        self._log, self._fleet, self._rules, self._clock = log, fleet, rules, clock
        self._throttles = throttles
        self.memory = Memory()
        self.is_ready: Callable[[], bool] = lambda: True
        self.last: ClusterPlan | None = None
        self.retries: list[Surplus] = []
        self._forget_when()

    def restart(self) -> None:
        """Know nothing of what was ordered before."""
        self.memory = Memory()
        self.last = None
        self.retries = []
        self._forget_when()

    def _forget_when(self) -> None:
        self._ran_at_ms: int | None = None
        self._pause_ms = 0
        self._seen: tuple[int, int] = (-1, -1)

    # ------------------------------------------------------------------------------------------- one round

    def run_round(self, fence: int) -> None:
        """Place what is new, and have a run if one is due."""
        views = self._fleet.views()
        self._look_at_moves(views)
        self._look_at_failures(views)
        rules = self._rules.current()
        is_ready = self.is_ready()
        is_first = self.last is None and (is_ready or bool(self._log.fresh))
        has_news = self._fleet.joined or self._fleet.left or self._rules.number != self._seen[1]
        is_wanted = is_first or bool(has_news) or self._is_due()
        if is_wanted and not self._fleet.has_silent:
            run = self._run if is_ready else self._place_by_room
            run(self._begin_run(views, rules), fence)
        elif self._log.fresh and self.last is not None:
            self._place_news(self.last, fence)

    def _is_due(self) -> bool:
        now_ms, ran_at_ms = self._clock.now_ms(), self._ran_at_ms
        if ran_at_ms is None or is_over(ran_at_ms, RUN_PERIOD_MS, now_ms):
            return True
        is_other = self._fleet.number != self._seen[0]
        return is_other and is_over(ran_at_ms, self._pause_ms, now_ms)

    def _place_news(self, last: ClusterPlan, fence: int) -> None:
        fresh = self._log.take_fresh()
        views = self._fleet.views()
        news = [
            one
            for one in fresh
            if not any(
                one.segment_id in view.loaded or one.segment_id in view.loading for view in views
            )
        ]
        if not news:
            return
        placed = last.newcomers.place(news, now_ms=self._clock.now_ms())
        self._load(((server_id, one, why) for one, server_id, why in placed), fence)
        if len({one for one, _, _ in placed}) < len(news):
            self._ran_at_ms = None  # a run says why the others have no place

    def _begin_run(self, views: Sequence[ServerView], rules: RuleSet) -> ClusterFacts:
        """Return what a run starts from now."""
        from carnac.core.balancing.live.planning import ClusterFacts

        self._seen = (self._fleet.number, self._rules.number)
        return ClusterFacts(
            live=self._log.live.values(),
            servers=views,
            away=[one.view for one in self._fleet.away.values()],
            rules=rules,
            now_ms=self._clock.now_ms(),
            moves=self.memory.moves,
            departed=self.memory.departed,
            throttles=self._throttles,
        )

    def _place_by_room(self, facts: ClusterFacts, fence: int) -> None:
        """Have segments loaded that nobody holds; those without room are cold, so that no revision waits for them."""
        from carnac.core.balancing.live.readiness import plan_by_room

        placed = plan_by_room(facts)
        self._load(((server_id, one, why) for one, server_id, why in placed), fence)
        there = {one for one, _, _ in placed}.union(
            *(held for view in facts.servers for held in (view.loaded, view.loading))
        )
        self.memory.unplaced = {
            one.segment_id: NOT_READY for one in facts.live if one.segment_id not in there
        }
        self._log.take_fresh()
        self._fleet.joined.clear()
        self._fleet.left.clear()
        self._ran_at_ms, self._pause_ms = self._clock.now_ms(), RUN_PAUSE_MS

    def _run(self, facts: ClusterFacts, fence: int) -> None:
        from carnac.core.balancing.live.planning import plan_cluster

        memory, began_ms = self.memory, facts.now_ms
        if self._fleet.left:
            memory.surplus = []
        plan = self.last = plan_cluster(facts)
        self._fleet.joined.clear()
        self._fleet.left.clear()
        self._log.take_fresh()
        memory.unwanted, memory.unplaced = plan.unwanted, plan.unplaced
        memory.surplus = [
            Surplus(server_id=server_id, segment_id=segment_id, why=why)
            for server_id, segment_id, why in plan.surplus
        ]
        self._order(plan, fence)
        ended_ms = self._clock.now_ms()
        self._ran_at_ms = ended_ms
        self._pause_ms = max(RUN_PAUSE_MS, PAUSE_SHARE * (ended_ms - began_ms))

    # ------------------------------------------------------------------------------------------- orders

    def _order(self, plan: ClusterPlan, fence: int) -> None:
        from carnac.core.balancing.live.picture import MoveUnderWay

        for server_id, segment_ids in plan.cancelled.items():
            self._fleet.unload(server_id, segment_ids, fence=fence)
        loads = [(one.server_id, one.segment_id, one.why) for one in plan.loads]
        loads += [(move.target_id, move.segment_id, str(move.reason)) for move in plan.moves]
        self._load(loads, fence)
        self.memory.moves += [
            MoveUnderWay(
                segment_id=move.segment_id,
                source_id=move.source_id,
                target_id=move.target_id,
                why=str(move.reason),
            )
            for move in plan.moves
        ]

    def _load(self, loads: Iterable[tuple[str, str, str]], fence: int) -> None:
        """Have servers load segments; `loads` are server, segment and why, in the order of the queues."""
        by_server: dict[str, list[tuple[Segment, str]]] = {}
        for server_id, segment_id, why in loads:
            segment = self._log.find_segment(segment_id)
            if segment is not None:
                by_server.setdefault(server_id, []).append((segment, why))
        for server_id, segments in by_server.items():
            self._fleet.load(server_id, segments, fence=fence)

    # ------------------------------------------------------------------------------------------- what became of it

    def _look_at_moves(self, views: Sequence[ServerView]) -> None:
        if not self.memory.moves:
            return
        from carnac.core.balancing.live.picture import Departed, is_under_way

        by_id = {view.server_id: view for view in views}
        left: list[MoveUnderWay] = []
        for move in self.memory.moves:
            if is_under_way(move, by_id):
                left.append(move)
                continue
            source, target = by_id.get(move.source_id), by_id.get(move.target_id)
            is_done = (
                source is not None
                and target is not None
                and move.segment_id not in source.loaded
                and move.segment_id in target.loaded
            )
            if is_done:
                self.memory.departed.append(
                    Departed(
                        segment_id=move.segment_id,
                        server_id=move.source_id,
                        at_ms=self._clock.now_ms(),
                    )
                )
        self.memory.moves = left

    def _look_at_failures(self, views: Sequence[ServerView]) -> None:
        """Find the loads that failed and may be tried again."""
        now_ms, failed = self._clock.now_ms(), self.memory.failed
        self.retries = []
        by_id = {view.server_id: view for view in views}
        for key in list(failed):
            view = by_id.get(key[0])
            if view is None or key[1] in view.loaded or key[1] not in self._log.live:
                del failed[key]
        for view in views:
            for segment_id in view.failed:
                key = (view.server_id, segment_id)
                known = failed.get(key)
                if known is None or known.is_let_go:
                    times = 1 if known is None else known.times + 1
                    pause_ms = min(RETRY_MS << min(times - 1, 20), RETRY_MAX_MS)
                    failed[key] = Failed(times, now_ms, pause_ms)
                elif is_over(known.at_ms, known.pause_ms, now_ms):
                    self.retries.append(
                        Surplus(server_id=view.server_id, segment_id=segment_id, why=RETRIED)
                    )

    def note_let_go(self, server_id: str, segment_id: str) -> None:
        """Note that a failed load was let go, so that the next failure is another one."""
        known = self.memory.failed.get((server_id, segment_id))
        if known is not None:
            known.is_let_go = True

    def surplus(self, views: Sequence[ServerView]) -> list[Surplus]:
        """Return the copies that are too many: sources of moves whose target has loaded, then what the run found."""
        by_id = {view.server_id: view for view in views}
        done = [
            Surplus(server_id=move.source_id, segment_id=move.segment_id, why=move.why)
            for move in self.memory.moves
            if move.target_id in by_id and move.segment_id in by_id[move.target_id].loaded
        ]
        return [*done, *self.retries, *self.memory.surplus]
