"""One run of the planner on a running cluster, told in ids."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from carnac.core.balancing.cost.columns import Flags, Ints
from carnac.core.balancing.live.news import Newcomers
from carnac.core.balancing.live.picture import (
    Departed,
    LiveSegment,
    MoveUnderWay,
    Picture,
    ServerView,
    cluster_of,
    codes_of,
    table_of,
    waited_for,
)
from carnac.core.balancing.plan.board import Reason
from carnac.core.balancing.plan.cluster import Hold
from carnac.core.balancing.plan.coordination import CoordinatorPlan, plan_run
from carnac.core.balancing.plan.limits import Throttles, throttled
from carnac.core.balancing.plan.plans import REASONS, Blocker, Move
from carnac.core.balancing.plan.rules import NO_RULE, Action, RuleMatches, RuleSet, decide_rules
from carnac.core.balancing.plan.scoring import index_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A segment that a server is to load.

    Attributes:
        why: The word of the reason.
    """

    segment_id: str
    server_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterPlan:
    """The plan of one run, for people and programs.

    Attributes:
        loads: In the order of the queues: first replicas, then further ones, the newest first.
        moves: Moves whose target is to load; the source keeps its copy until then.
        surplus: Loaded copies that no rule wants where they are: server, segment, why.
        cancelled: Loads that wait and are not wanted there any more, by server.
        unwanted: Live segments that no rule wants on any server.
        unplaced: Live segments that no server can take, and why.
        skipped: How often something was not done, by reason.
        blockers: Reasons why decommissioning servers cannot be emptied.
        cost_before: Cost of the cluster, hours².
        cost_after: The same when all is done.
        newcomers: Places segments that come before the next run.
    """

    loads: Sequence[Load]
    moves: Sequence[Move]
    surplus: Sequence[tuple[str, str, str]]
    cancelled: Mapping[str, Sequence[str]]
    unwanted: Set[str]
    unplaced: Mapping[str, str]
    skipped: Mapping[Reason, int]
    blockers: Sequence[Blocker]
    cost_before: float
    cost_after: float
    newcomers: Newcomers


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The state that a run starts from.

    Attributes:
        away: Servers that have gone and may be back soon. Their segments that another server has too are not loaded in
            their place.
        moves: Moves that were ordered and have not ended.
        departed: Moves that have ended.
    """

    live: Collection[LiveSegment]
    servers: Sequence[ServerView]
    rules: RuleSet
    now_ms: int
    away: Collection[ServerView] = ()
    moves: Collection[MoveUnderWay] = ()
    departed: Collection[Departed] = ()
    throttles: Throttles = field(default_factory=Throttles)


def plan_cluster(facts: ClusterFacts) -> ClusterPlan:
    """Return what one run does on a running cluster."""
    limits = throttled(facts.throttles, len(facts.live))
    away = waited_for(facts.servers, facts.away)
    servers = [*facts.servers, *away]
    picture = cluster_of(
        facts.live,
        servers,
        now_ms=facts.now_ms,
        moves=facts.moves,
        departed=facts.departed,
    )
    cluster = picture.cluster
    index = index_of(cluster)
    plan = plan_run(cluster, facts.rules, limits, used=picture.used, index=index)
    matches = decide_rules(facts.rules, cluster.segments, facts.now_ms)
    surplus, cancelled = _drops_of(plan, servers)
    elsewhere = {segment_id for one in away for segment_id in one.loaded}
    gone = {one.server_id for one in away}
    free = _free_bytes(plan, limits.max_fill)
    unwanted, unplaced = _left_cold(picture, plan, matches, free)
    skipped = dict(plan.skipped)
    for reason, count in plan.moves.skipped.items():
        skipped[reason] = skipped.get(reason, 0) + count
    return ClusterPlan(
        loads=_loads_of(plan),
        moves=[one for one in plan.moves.moves if one.source_id not in gone],
        surplus=[one for one in surplus if one[1] not in elsewhere],
        cancelled=cancelled,
        unwanted=unwanted,
        unplaced=unplaced,
        skipped=skipped,
        blockers=plan.moves.blockers,
        cost_before=plan.moves.cost_before,
        cost_after=plan.moves.cost_after,
        newcomers=Newcomers(plan.after, free, index, facts.rules, limits.loads),
    )


def _loads_of(plan: CoordinatorPlan) -> list[Load]:
    ids, servers = plan.before.segments.ids, plan.before.servers
    rows = zip(
        plan.loads.segment.tolist(),
        plan.loads.server.tolist(),
        plan.loads.reason.tolist(),
        strict=True,
    )
    return [
        Load(segment_id=ids[row], server_id=servers[host].server_id, why=str(REASONS[reason]))
        for row, host, reason in rows
    ]


def _drops_of(
    plan: CoordinatorPlan, servers: Sequence[ServerView]
) -> tuple[list[tuple[str, str, str]], dict[str, list[str]]]:
    """Return the loaded copies that are too many, and loads to cancel by server.

    Segments that drop rules match go when they are deleted from the data; the rollout drops segments that the log does
    not need.
    """
    loaded = {server.server_id: server.loaded for server in servers}
    ids, hosts, drops = plan.before.segments.ids, plan.before.servers, plan.drops
    surplus: list[tuple[str, str, str]] = []
    cancelled: dict[str, list[str]] = {}
    for row, host, code in zip(
        drops.segment.tolist(), drops.server.tolist(), drops.reason.tolist(), strict=True
    ):
        server_id, segment_id = hosts[host].server_id, ids[row]
        if REASONS[code] not in {Reason.SURPLUS, Reason.CANCELLED}:
            continue
        if segment_id in loaded[server_id]:
            surplus.append((server_id, segment_id, str(REASONS[code])))
        else:
            cancelled.setdefault(server_id, []).append(segment_id)
    return surplus, cancelled


def _free_bytes(plan: CoordinatorPlan, max_fill: float) -> Ints:
    capacity = (plan.after.capacity_bytes() * max_fill).astype(np.int64)
    free: Ints = capacity - plan.after.used_bytes()
    return free


def _left_cold(
    picture: Picture, plan: CoordinatorPlan, matches: RuleMatches, free: Ints
) -> tuple[set[str], dict[str, str]]:
    """Return the segments that no rule wants on a server, and those that no server can take."""
    cluster, ids = plan.before, plan.before.segments.ids
    asked, fits = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
    everywhere = matches.by_action(Action.BROADCAST)
    takes = ~cluster.decommissioning()
    any_server = np.zeros(len(ids), np.bool_)
    for tier in {*cluster.tiers, *(name for rule in matches.rules for name in rule.replicas)}:
        wanted = (matches.replicas_in(tier) > 0) | everywhere
        asked |= wanted
        inside = cluster.in_tier(tier) & takes
        any_server |= wanted & bool(inside.any())
        most_free = int(free[inside].max(initial=-1))
        fits |= wanted & (cluster.segments.size_bytes <= most_free)
    used: Flags = picture.used
    homeless = used & asked & ~_has_copy(plan) & ~fits
    unwanted = {ids[row] for row in np.flatnonzero(used & ~asked).tolist()}
    unplaced = {
        ids[row]: str(Reason.NO_ROOM if any_server[row] else Reason.NO_SERVER)
        for row in np.flatnonzero(homeless).tolist()
    }
    return unwanted, unplaced


def _has_copy(plan: CoordinatorPlan) -> Flags:
    replicas = plan.after.replicas
    rows: Ints = replicas.segment[replicas.hold < Hold.LEAVING]
    held = np.zeros(len(plan.after.segments), np.bool_)
    held[rows] = True
    return held


PERIOD_MS = 60_000
"""Assumed time between two runs."""


def plan_ahead(facts: ClusterFacts, runs: int) -> Iterator[ClusterPlan]:
    """Yield the plans of so many runs, fewer if the cluster comes to rest; the first one always.

    The loads and drops that a run orders are taken to be done when the next run starts.
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


def wanted_copies(
    segments: Sequence[LiveSegment],
    rules: RuleSet,
    *,
    now_ms: int,
    servers: Mapping[str, int],
    is_limited: bool,
) -> dict[str, dict[str, int]]:
    """Return the copies that are wanted of each segment, by its id and by tier; tiers that want none are left out.

    Args:
        segments: Each once.
        rules: Of all datasources.
        now_ms: The present, epoch milliseconds, UTC.
        servers: How many servers each tier has.
        is_limited: Whether no more copies are wanted than there are servers.
    """
    matches = decide_rules(rules, table_of(segments, codes_of(segments)), now_ms)
    by_rule = []
    for rule in matches.rules:
        asked = dict(servers) if rule.action is Action.BROADCAST else dict(rule.replicas)
        if is_limited:
            asked = {tier: min(count, servers.get(tier, 0)) for tier, count in asked.items()}
        by_rule.append({tier: count for tier, count in asked.items() if count})
    found: dict[str, dict[str, int]] = {}
    for one, rule_number in zip(segments, matches.rule.tolist(), strict=True):
        found[one.segment_id] = {} if rule_number == NO_RULE else by_rule[rule_number]
    return found
