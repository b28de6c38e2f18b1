"""The laws of balancing: one name and one definition each.

| id | law |
|---|---|
| BL-1 | a cluster that nothing changes settles: after a run without moves no run has any |
| BL-2 | nothing but a load, or leaving a decommissioning server, takes a segment back to where it moved away of late |
| BL-3 | no plan puts a segment on a server that has no room for it, holds it, is in another tier or decommissioning |
| BL-4 | a decommissioning server is emptied, or what keeps each of its segments is named |
| BL-5 | the last copy of a wanted segment is never dropped: segments served before the drops are served after them |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from carnac.core.balancing.cost.columns import Flags, Ints
from carnac.core.balancing.plan.board import Reason
from carnac.core.balancing.plan.cluster import ClusterState, Hold
from carnac.core.balancing.plan.plans import MovePlan, QueuePlan
from carnac.core.balancing.plan.rules import NO_RULE, Action, RuleMatches
from carnac.core.invariants import check


def check_settled(plans: Sequence[MovePlan]) -> None:
    """Check BL-1 for the plans of successive runs on a cluster that only these plans change."""
    counts = [len(plan.moves) for plan in plans]
    settled = counts.index(0) if 0 in counts else len(counts)
    later = [number for number, count in enumerate(counts) if number > settled and count]
    check("BL-1", not later, f"run {settled} had no moves, but run {later[:1]} has")


def check_no_return(history: Iterable[tuple[int, int, int, int, Reason]], window_ms: int) -> None:
    """Check BL-2.

    Args:
        history: (when in epoch ms, segment, source, target, why) of each move, in order of time.
        window_ms: See `limits.MoveLimits.return_window_ms`.
    """
    left: dict[tuple[int, int], int] = {}
    for at_ms, segment, source, target, why in history:
        gone_ms = left.get((segment, target))
        check(
            "BL-2",
            gone_ms is None or why is Reason.EVACUATE or at_ms - gone_ms >= window_ms,
            f"segment {segment} left server {target} at {gone_ms} and is back at {at_ms}",
        )
        left[segment, source] = at_ms


def check_placements(
    cluster: ClusterState, segment: Ints, target: Ints, tier: Sequence[str]
) -> None:
    """Check BL-3 for loads (moves are loads on their target) that are planned together.

    Args:
        cluster: State of the cluster before the plan.
        segment: Segment of each load.
        target: Server of each load.
        tier: The tier that each load is for.
    """
    replicas = cluster.replicas
    count = len(cluster.servers)
    places = np.concatenate([replicas.segment * count + replicas.server, segment * count + target])
    check("BL-3", len(np.unique(places)) == len(places), "a server would hold a segment twice")
    for server, wanted in zip(target.tolist(), tier, strict=True):
        host = cluster.servers[server]
        check("BL-3", host.tier == wanted, f"{host.server_id} is not in tier {wanted}")
        check("BL-3", not host.decommissioning, f"{host.server_id} is decommissioning")
    loads = np.zeros(count, np.int64)
    np.add.at(loads, target, cluster.segments.size_bytes[segment])
    used = cluster.used_bytes() + loads
    over = np.flatnonzero((loads > 0) & (used > cluster.capacity_bytes()))
    names = [cluster.servers[server].server_id for server in over]
    check("BL-3", not names, f"{names} would hold more than they can")


def check_move_plan(cluster: ClusterState, plan: MovePlan) -> None:
    """Check BL-3 and BL-4 for a plan of moves."""
    segment, source, target = plan.columns()
    tiers = [cluster.servers[server].tier for server in source]
    check_placements(cluster, segment, target.astype(np.int64), tiers)
    check_evacuation(cluster, plan)


def check_evacuation(cluster: ClusterState, plan: MovePlan) -> None:
    """Check BL-4 for a plan of moves: each segment moves, is named with its blocker, or waits for the next run."""
    replicas = cluster.replicas.where(cluster.counted())
    emptied = cluster.decommissioning()[replicas.server]
    kept = Counter(cluster.servers[server].server_id for server in replicas.server[emptied])
    for move in plan.moves:
        if move.reason is Reason.EVACUATE:
            kept[move.source_id] -= 1
    for blocker in plan.blockers:
        kept[blocker.server_id] -= blocker.segments
    unsaid = sum(kept.values())
    check("BL-4", min(kept.values(), default=0) >= 0, f"more was said than is there: {kept}")
    check("BL-4", unsaid == plan.skipped.get(Reason.THROTTLED, 0), f"nothing is said of {+kept}")


def check_last_copies(
    cluster: ClusterState, drops: QueuePlan, matches: RuleMatches, used: Flags | None = None
) -> None:
    """Check BL-5 for all drops of a run together, whatever its loads become.

    Args:
        cluster: State of the cluster before the run.
        drops: Drops of the run.
        matches: The rule of each segment; a segment is wanted if its rule loads or broadcasts it, or if it has none.
        used: Segments that are a part of the data. None: all are.
    """
    gone = set(zip(drops.segment.tolist(), drops.server.tolist(), strict=True))
    rows = zip(
        *(getattr(cluster.replicas, name).tolist() for name in ("segment", "server", "hold")),
        strict=True,
    )
    served = [
        (segment, server) for segment, server, hold in rows if hold in (Hold.LOADED, Hold.LEAVING)
    ]
    left = {segment for segment, server in served if (segment, server) not in gone}
    for segment in {segment for segment, _ in served} - left:
        at = int(matches.rule[segment])
        rule = matches.rules[at] if at != NO_RULE else None
        is_unwanted = rule is not None and (
            rule.action is Action.DROP
            or (rule.action is Action.LOAD and not any(rule.replicas.values()))
        )
        check(
            "BL-5",
            is_unwanted or (used is not None and not used[segment]),
            f"the last copy of {cluster.segments.ids[segment]} is dropped",
        )


def check_distinct(cluster: ClusterState) -> None:
    """Check that no server holds a segment twice, in any way (a part of BL-3)."""
    replicas = cluster.replicas
    places = replicas.segment * len(cluster.servers) + replicas.server
    check("BL-3", len(np.unique(places)) == len(places), "a server holds a segment twice")
    known = np.isin(replicas.hold, [int(hold) for hold in Hold])
    check("BL-3", bool(known.all()), "a replica is held in an unknown way")
