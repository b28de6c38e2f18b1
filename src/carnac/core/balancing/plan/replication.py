"""From rules to replicas: those that each tier lacks, and its surplus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.cost.columns import Flags, Floats, Ints
from carnac.core.balancing.cost.field import Takers
from carnac.core.balancing.cost.grouping import group_segments, held_of
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.plan.board import Reason
from carnac.core.balancing.plan.cluster import ClusterState, Hold
from carnac.core.balancing.plan.leaving import (
    TierCounts,
    count_replicas,
    may_leave,
    tier_names,
)
from carnac.core.balancing.plan.limits import LoadLimits
from carnac.core.balancing.plan.loads import LoadRequests, order_queue
from carnac.core.balancing.plan.plans import CODES, NOTHING, QueuePlan
from carnac.core.balancing.plan.rules import Action, RuleMatches


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replication:
    """The replicas that the rules ask for.

    Attributes:
        requests: Replicas to load, within the throttle.
        drops: Replicas to let go of.
        broadcast: Segments that belong on every server.
        skipped: How many replicas were left as they are, by reason.
    """

    requests: LoadRequests
    drops: QueuePlan
    broadcast: Flags
    skipped: Mapping[Reason, int]


def decide_replication(
    cluster: ClusterState,
    matches: RuleMatches,
    limits: LoadLimits,
    *,
    used: Flags,
    index: CostIndex,
) -> Replication:
    """Return what to load and what to drop, so that each segment has the replicas that its rule asks for.

    A replica in a queue counts. A surplus is dropped only when all that the rule asks for, in all tiers, is served:
    first queued replicas, then those on decommissioning servers, then those that cost most. A leaving replica is among
    the drops as soon as it may go, and until it is gone. A segment that no rule matches is left alone.

    Args:
        cluster: The cluster, after `recall_leaving`; its `broadcast` is not read.
        matches: Rule of each segment.
        limits: Of the run.
        used: Segments that are a part of the data; others are dropped.
        index: The holdings of the cluster's servers.
    """
    by_load = matches.by_action(Action.LOAD) & used
    dropped = matches.by_action(Action.DROP) & used
    broadcast = matches.by_action(Action.BROADCAST) & used
    names = tier_names(cluster, matches)
    tiers = [count_replicas(cluster, matches, name, by_load) for name in names]
    skipped: Counter[Reason] = Counter()
    skipped[Reason.NO_RULE] = int((used & ~(by_load | dropped | broadcast)).sum())
    skipped[Reason.NO_SERVER] = sum(int((tier.asked - tier.wanted).sum()) for tier in tiers)
    requests = [_requests(cluster, tier, limits, code, skipped) for code, tier in enumerate(tiers)]
    allowed = may_leave(cluster, tiers, matches, used)
    rows = [_surplus(cluster, tier, (by_load, allowed), index, skipped) for tier in tiers]
    rows += [(_held(cluster, dropped), Reason.DROP_RULE), (_held(cluster, ~used), Reason.UNUSED)]
    replicas = cluster.replicas
    leaves = replicas.hold == Hold.LEAVING
    retired = cluster.decommissioning()[replicas.server] & broadcast[replicas.segment]
    stays = replicas.hold < Hold.LEAVING
    due = (leaves & (used & ~dropped)[replicas.segment]) | (retired & stays)
    rows.append((np.flatnonzero(due & allowed[replicas.segment]), Reason.SURPLUS))
    return Replication(
        requests=_concatenate(requests, names),
        drops=_drops(cluster, rows),
        broadcast=broadcast,
        skipped=dict(+skipped),
    )


def _requests(
    cluster: ClusterState, tier: TierCounts, limits: LoadLimits, code: int, skipped: Counter[Reason]
) -> LoadRequests:
    """Return the replicas that a tier lacks; further ones up to the throttle, the newest first."""
    lacking = np.maximum(tier.wanted - tier.served - tier.queued, 0)
    fresh = (tier.served + tier.queued + tier.leaving == 0) & (lacking > 0)
    first = np.flatnonzero(fresh)
    further = np.repeat(np.arange(len(lacking)), lacking - fresh)
    reason = np.full(len(further), CODES[Reason.FURTHER_REPLICA], np.int32)
    further = further[order_queue(further, reason, cluster.segments)]
    copying = np.maximum(tier.queued - tier.leaving, 0)[tier.served > 0].sum()
    room = max(0, limits.max_replicas - int(copying))
    skipped[Reason.THROTTLED] += max(0, len(further) - room)
    further = further[:room]
    segment = np.concatenate([first, further]).astype(np.int64)
    reasons = np.full(len(segment), CODES[Reason.FURTHER_REPLICA], np.int32)
    reasons[: len(first)] = CODES[Reason.FIRST_REPLICA]
    return LoadRequests(
        segment=segment,
        tier=np.full(len(segment), code, np.int32),
        reason=reasons,
        tiers=(),
    )


def _concatenate(requests: list[LoadRequests], names: tuple[str, ...]) -> LoadRequests:
    return LoadRequests(
        segment=np.concatenate([np.empty(0, np.int64), *(part.segment for part in requests)]),
        tier=np.concatenate([np.empty(0, np.int32), *(part.tier for part in requests)]),
        reason=np.concatenate([np.empty(0, np.int32), *(part.reason for part in requests)]),
        tiers=names,
    )


def _surplus(
    cluster: ClusterState,
    tier: TierCounts,
    flags: tuple[Flags, Flags],
    index: CostIndex,
    skipped: Counter[Reason],
) -> tuple[Ints, Reason]:
    """Return the rows of the replicas that a tier has too much; `flags`: loaded by a rule, may leave."""
    by_load, allowed = flags
    surplus = np.where(by_load, np.maximum(tier.served + tier.queued - tier.wanted, 0), 0)
    skipped[Reason.LAST_COPY] += int(surplus[~allowed].sum())
    surplus[~allowed] = 0
    replicas = cluster.replicas
    here = cluster.in_tier(tier.tier)[replicas.server] & (replicas.hold < Hold.LEAVING)
    rows = np.flatnonzero(here & (surplus[replicas.segment] > 0))
    if not len(rows):
        return rows, Reason.SURPLUS
    segment, server = replicas.segment[rows], replicas.server[rows]
    leaves = cluster.decommissioning()[server]
    has_choice = np.bincount(segment, minlength=len(surplus))[segment] > surplus[segment]
    cost = np.zeros(len(rows)) if not has_choice.any() else time_costs(cluster, rows, index)
    order = np.lexsort((server, -cost, ~leaves, replicas.hold[rows] != Hold.LOADING, segment))
    ordered = segment[order]
    rank = np.arange(len(rows)) - np.searchsorted(ordered, ordered, side="left")
    return np.sort(rows[order[rank < surplus[ordered]]]), Reason.SURPLUS


def time_costs(cluster: ClusterState, rows: Ints, index: CostIndex) -> Floats:
    """Return the costs of replicas where they are, in hours².

    Args:
        cluster: The cluster.
        rows: Rows of its replicas, of such as count towards the cost.
        index: The holdings of the cluster's servers.
    """
    table, servers = cluster.segments, len(cluster.servers)
    segment, server = cluster.replicas.segment[rows], cluster.replicas.server[rows]
    groups = group_segments(
        table.datasource[segment].astype(np.int64), table.start_ms[segment], table.end_ms[segment]
    )
    held = held_of(groups.of_segment, server, len(groups), servers)
    nobody = Takers(np.zeros(len(groups), np.int64), np.full(servers, -1))
    own, _ = index.scan(groups, held, nobody)
    keys = held.server + servers * np.repeat(np.arange(len(groups)), np.diff(held.offsets))
    costs: Floats = own[np.searchsorted(keys, server + servers * groups.of_segment)]
    return costs


def _held(cluster: ClusterState, segments: Flags) -> Ints:
    """Return the rows of the replicas of some segments."""
    return np.flatnonzero(segments[cluster.replicas.segment])


def _drops(cluster: ClusterState, parts: list[tuple[Ints, Reason]]) -> QueuePlan:
    replicas, plan = cluster.replicas, NOTHING
    for rows, reason in parts:
        plan = plan.plus(replicas.segment[rows], replicas.server[rows], reason)
    return plan.take(order_queue(plan.segment, plan.reason, cluster.segments))
