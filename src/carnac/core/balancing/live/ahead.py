"""Forecast of the next runs if nothing else happens: each run's plan carried out, then the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from carnac.core.balancing.live.picture import Departed, ServerView
from carnac.core.balancing.live.planning import ClusterFacts, ClusterPlan, plan_cluster
from carnac.core.balancing.plan.limits import MoveLimits

PERIOD_MS = MoveLimits().period_ms
"""That is taken to lie between two runs."""


def plan_ahead(facts: ClusterFacts, runs: int) -> Iterator[ClusterPlan]:
    """Yield the plans of so many runs, fewer if the cluster comes to rest; the first one always.

    What a run orders is taken to be loaded and dropped when the next one comes.
    """
    for number in range(runs):
        plan = plan_cluster(facts)
        if number and not (plan.loads or plan.moves or plan.surplus):
            return
        yield plan
        facts = _carried_out(facts, plan)


def _carried_out(facts: ClusterFacts, plan: ClusterPlan) -> ClusterFacts:
    gains: dict[str, set[str]] = {}
    losses: dict[str, set[str]] = {}
    for load in plan.loads:
        gains.setdefault(load.server_id, set()).add(load.segment_id)
    for move in plan.moves:
        gains.setdefault(move.target_id, set()).add(move.segment_id)
        losses.setdefault(move.source_id, set()).add(move.segment_id)
    for server_id, segment_id, _ in plan.surplus:
        losses.setdefault(server_id, set()).add(segment_id)
    now_ms = facts.now_ms + PERIOD_MS
    left = [
        Departed(segment_id=move.segment_id, server_id=move.source_id, at_ms=facts.now_ms)
        for move in plan.moves
    ]
    servers: Sequence[ServerView] = [
        replace(
            server,
            loaded=(
                set(server.loaded)
                | (set(server.loading) - set(plan.cancelled.get(server.server_id, ())))
                | gains.get(server.server_id, set())
            )
            - losses.get(server.server_id, set()),
            loading=(),
            unloading=frozenset(),
        )
        for server in facts.servers
    ]
    return replace(
        facts, servers=servers, now_ms=now_ms, moves=(), departed=[*facts.departed, *left]
    )
