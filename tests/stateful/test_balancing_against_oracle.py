"""A cluster that lives: data arrives and retires, servers join, die and retire, queues are slow or fail, runs go on.

The oracle knows pairs of segment and server, and adds up costs pair by pair. The coordinator keeps one cost index over
all its runs, as a real one does.
"""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from carnac.core.balancing.plan.board import Reason
from carnac.core.balancing.plan.cluster import (
    ClusterState,
    Departures,
    Hold,
    Replicas,
    SegmentTable,
    Server,
)
from carnac.core.balancing.plan.coordination import CoordinatorPlan, plan_run
from carnac.core.balancing.plan.limits import CoordinatorLimits, LoadLimits, MoveLimits
from carnac.core.balancing.plan.rules import Action, RuleSet, decide_rules, parse_rules
from carnac.core.balancing.plan.scoring import index_of
from tests.clusters import START_MS, hour, naive_total_cost, segment
from tests.support.laws.balancing import (
    check_distinct,
    check_evacuation,
    check_last_copies,
    check_no_return,
)
from tests.support.planned_clusters import segment_table

HOUR_MS = 3_600_000
WINDOW_MS = 6 * HOUR_MS
RULES = RuleSet(
    by_datasource={"b": parse_rules([{"type": "loadByPeriod", "period": "PT12H", "tieredReplicants": {"hot": 1}}])},
    default=parse_rules(
        [
            {"type": "loadByPeriod", "period": "PT24H", "tieredReplicants": {"hot": 2, "cold": 1}},
            {"type": "loadByPeriod", "period": "P3D", "tieredReplicants": {"cold": 1}},
            {"type": "dropForever"},
        ]
    ),
)  # fmt: skip
LIMITS = CoordinatorLimits(
    loads=LoadLimits(max_replicas=4, max_queue=6),
    moves=MoveLimits(max_moves=3, max_queue=6, return_window_ms=WINDOW_MS),
)


class LivingCluster(RuleBasedStateMachine):
    """Commands are what happens to a cluster; `run` is the coordinator."""

    @initialize()
    def start(self) -> None:
        servers = tuple(
            Server(server_id=f"h{n}", capacity_bytes=1500, tier="hot" if n < 3 else "cold")
            for n in range(5)
        )
        empty = np.empty(0, np.int32)
        self.state = ClusterState(
            servers=servers,
            segments=segment_table([]),
            replicas=Replicas(segment=np.empty(0, np.int64), server=empty, hold=empty),
            now_ms=START_MS,
        )
        self.used = np.ones(0, np.bool_)
        self.index = index_of(self.state)
        self.names = 5
        self.history: list[tuple[int, str, str, str, Reason]] = []
        self.plan: CoordinatorPlan | None = None

    @rule(datasource=st.sampled_from("ab"), partitions=st.integers(1, 4), back=st.integers(0, 30))
    def ingest(self, datasource: str, partitions: int, back: int) -> None:
        at = (self.state.now_ms - START_MS) // HOUR_MS - back
        table, first = self.state.segments, len(self.state.segments)
        new = [
            segment(f"s{first + n}", at, datasource=datasource, partition=n, size_bytes=60 + 10 * n)
            for n in range(partitions)
        ]
        more = segment_table(new)
        code = np.full(partitions, "ab".index(datasource), np.int32)
        self.state = replace(
            self.state,
            segments=SegmentTable(
                ids=(*table.ids, *more.ids),
                datasources=("a", "b"),
                datasource=np.concatenate([table.datasource, code]),
                start_ms=np.concatenate([table.start_ms, more.start_ms]),
                end_ms=np.concatenate([table.end_ms, more.end_ms]),
                size_bytes=np.concatenate([table.size_bytes, more.size_bytes]),
                partition=np.concatenate([table.partition, more.partition]),
            ),
        )
        self.used = np.append(self.used, np.ones(partitions, np.bool_))
        assert hour(at).start_ms == self.state.segments.start_ms[-1]

    @precondition(lambda self: len(self.used))
    @rule(data=st.data())
    def overshadow(self, data: st.DataObject) -> None:
        self.used[data.draw(st.integers(0, len(self.used) - 1))] = False

    @rule(hours=st.integers(1, 8))
    def wait(self, hours: int) -> None:
        self.state = replace(self.state, now_ms=self.state.now_ms + hours * HOUR_MS)

    @rule(tier=st.sampled_from(["hot", "cold"]))
    def join(self, tier: str) -> None:
        joined = Server(server_id=f"h{self.names}", capacity_bytes=1500, tier=tier)
        self.state = replace(self.state, servers=(*self.state.servers, joined))
        self.names += 1
        self.index = index_of(self.state)

    @rule(data=st.data())
    def decommission(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.state.servers) - 1))
        servers = list(self.state.servers)
        servers[at] = replace(servers[at], decommissioning=not servers[at].decommissioning)
        self.state = replace(self.state, servers=tuple(servers))

    @precondition(lambda self: len(self.state.servers) > 2)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        dead = data.draw(st.integers(0, len(self.state.servers) - 1))
        replicas, left = self.state.replicas, self.state.departures
        kept = replicas.where(replicas.server != dead)
        still = left.server != dead
        self.state = replace(
            self.state,
            servers=(*self.state.servers[:dead], *self.state.servers[dead + 1 :]),
            replicas=replace(kept, server=kept.server - (kept.server > dead).astype(np.int32)),
            departures=Departures(
                segment=left.segment[still],
                server=left.server[still] - (left.server[still] > dead).astype(np.int32),
                at_ms=left.at_ms[still],
            ),
        )
        self.index = index_of(self.state)

    @rule(share=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 99))
    def run(self, share: float = 1.0, seed: int = 0) -> None:
        """Plan, and have some of the drops carried out at once; no others ever are."""
        before = self.state
        matches = decide_rules(RULES, before.segments, before.now_ms)
        plan = plan_run(before, RULES, LIMITS, used=self.used, index=self.index)
        self.plan = plan
        check_last_copies(before, plan.drops, matches, self.used)
        for move in plan.moves.moves:
            self.history.append(
                (before.now_ms, move.segment_id, move.source_id, move.target_id, move.reason)
            )
            assert move.saving > 0 or move.reason is Reason.EVACUATE
        self.state = plan.after
        self.used &= ~matches.by_action(Action.DROP)
        check_evacuation_of(before, plan)
        assert plan.moves.cost_after == pytest.approx(
            naive_total_cost(self.state), rel=1e-8, abs=1e-8
        )
        done = np.random.default_rng(seed).random(len(plan.drops)) < share
        replicas = self.state.replicas
        drops, servers = plan.drops, len(self.state.servers)
        gone = replicas.among(drops.segment[done], drops.server[done], servers)
        gone &= replicas.hold == Hold.LEAVING
        self.state = replace(self.state, replicas=replicas.where(~gone))

    @precondition(lambda self: len(self.state.replicas))
    @rule(
        share=st.sampled_from([0.3, 1.0]),
        failures=st.sampled_from([0.0, 0.0, 0.5]),
        seed=st.integers(0, 99),
    )
    def work_on_queues(self, share: float, failures: float, seed: int) -> None:
        """Some loads end, some of them by failing."""
        replicas, luck = self.state.replicas, np.random.default_rng(seed)
        lucky = (luck.random(len(replicas)) < share) & (replicas.hold == Hold.LOADING)
        failed = lucky & (luck.random(len(replicas)) < failures)
        hold = np.where(lucky, np.int32(Hold.LOADED), replicas.hold)
        self.state = replace(self.state, replicas=replace(replicas, hold=hold).where(~failed))
        if failed.any():
            self.index = index_of(self.state)

    @rule()
    def rest(self) -> None:
        """Nothing happens but runs and their work: a run that finds no work under way and plans none ends it for good.

        A run that plans nothing while loads are queued has not ended it: what is served then may make others too many.
        """
        for _ in range(60):
            self._drain()
            self.run()
            if self.is_idle():
                break
        assert self.is_idle(), "the cluster does not come to rest"
        for _ in range(3):
            self._drain()
            self.run()
            assert self.is_idle(), "the cluster rose again from its rest"

    def _drain(self) -> None:
        replicas = self.state.replicas
        hold = np.where(replicas.hold == Hold.LOADING, np.int32(Hold.LOADED), replicas.hold)
        self.state = replace(self.state, replicas=replace(replicas, hold=hold))

    def is_idle(self) -> bool:
        plan = self.plan
        return plan is not None and not (len(plan.loads) or len(plan.drops) or plan.moves.moves)

    @invariant()
    def laws_hold(self) -> None:
        check_distinct(self.state)
        assert (self.state.used_bytes() <= self.state.capacity_bytes()).all()
        assert self.index.totals().sum() == pytest.approx(
            naive_total_cost(self.state), rel=1e-8, abs=1e-8
        )
        ids = {name: n for n, name in enumerate(self.state.segments.ids)}
        hosts = {f"h{n}": n for n in range(self.names)}
        moves = [
            (at, ids[one], hosts[source], hosts[target], why)
            for at, one, source, target, why in self.history
        ]
        check_no_return(moves, WINDOW_MS)


def check_evacuation_of(before: ClusterState, plan: CoordinatorPlan) -> None:
    """Check BL-4 against the cluster that the moves were planned on: loads queued, drops leaving."""
    segment, source, target = plan.moves.columns()
    after = plan.after.replicas
    moved = np.isin(
        after.segment * len(before.servers) + after.server, segment * len(before.servers) + target
    )
    back = np.isin(
        after.segment * len(before.servers) + after.server, segment * len(before.servers) + source
    )
    hold = np.where(back, np.int32(Hold.LOADED), after.hold)
    cancelled = ~np.isin(
        segment * len(before.servers) + source, after.segment * len(before.servers) + after.server
    )
    replicas = Replicas(segment=after.segment, server=after.server, hold=hold).where(~moved)
    replicas = replicas.plus(segment[cancelled], source[cancelled], Hold.LOADING)
    check_evacuation(replace(plan.after, replicas=replicas), plan.moves)


TestLivingCluster = LivingCluster.TestCase
TestLivingCluster.settings = settings(max_examples=max(3, settings().max_examples // 3))
