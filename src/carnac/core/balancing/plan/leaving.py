"""The fate of replicas that are leaving: served again, kept until others are loaded, or due.

A replica leaves for a reason that was true when it was planned: another was being loaded, or there were too many. The
server that should have taken its place may have died since, the load failed, the rule changed. So each run decides
again from what is true now, and nothing of an earlier plan is kept but the word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from carnac.core.balancing.cost.columns import Flags, Ints
from carnac.core.balancing.plan.cluster import ClusterState, Hold, Replicas
from carnac.core.balancing.plan.rules import Action, RuleMatches, used_tiers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TierCounts:
    """Replicas of each segment in one tier.

    Attributes:
        tier: Name of the tier.
        asked: Replicas that the rules ask for.
        wanted: The same, but no more than there are servers that take segments.
        served: Loaded and staying.
        queued: Queued to load.
        leaving: Serving until dropped.
    """

    tier: str
    asked: Ints
    wanted: Ints
    served: Ints
    queued: Ints
    leaving: Ints


def tier_names(cluster: ClusterState, matches: RuleMatches) -> tuple[str, ...]:
    """Return the tiers that there are or that a rule names, sorted."""
    return tuple(sorted({*cluster.tiers, *used_tiers(matches)}))


def count_replicas(
    cluster: ClusterState, matches: RuleMatches, name: str, by_load: Flags
) -> TierCounts:
    """Return the replicas that a tier should have and those that it has.

    Args:
        cluster: The cluster.
        matches: Rule of each segment.
        name: The tier.
        by_load: Segments that go by a load rule.
    """
    tier = cluster.in_tier(name)
    active = int((tier & ~cluster.decommissioning()).sum())
    asked = np.where(by_load, matches.replicas_in(name), 0).astype(np.int64)
    here = cluster.replicas.where(tier[cluster.replicas.server])
    return TierCounts(
        tier=name,
        asked=asked,
        wanted=np.minimum(asked, active),
        served=_count(here, Hold.LOADED, len(cluster.segments)),
        queued=_count(here, Hold.LOADING, len(cluster.segments)),
        leaving=_count(here, Hold.LEAVING, len(cluster.segments)),
    )


def recall_leaving(cluster: ClusterState, matches: RuleMatches, used: Flags) -> ClusterState:
    """Return the cluster in which leaving replicas that are needed where they are are served again.

    A tier keeps as many of them as it would lack otherwise: the wanted ones less those loaded and queued elsewhere.
    Servers that stay are preferred. One replica is kept of each segment that no rule matches.

    Args:
        cluster: The cluster.
        matches: Rule of each segment.
        used: Segments that are a part of the data.
    """
    replicas = cluster.replicas
    if not (replicas.hold == Hold.LEAVING).any():
        return cluster
    by_load = matches.by_action(Action.LOAD) & used
    everywhere = matches.by_action(Action.BROADCAST) & used
    active = ~cluster.decommissioning()
    back = everywhere[replicas.segment] & active[replicas.server]
    for name in tier_names(cluster, matches):
        tier = count_replicas(cluster, matches, name, by_load)
        keeps = np.maximum(tier.wanted, np.minimum(tier.asked, 1))
        back |= _first(
            cluster, keeps - tier.served - tier.queued, cluster.in_tier(name)[replicas.server]
        )
    one = np.where(used & ~by_load & ~matches.by_action(Action.DROP), 1, 0)
    loaded, queued = (_count(replicas, hold, len(used)) for hold in (Hold.LOADED, Hold.LOADING))
    back |= _first(cluster, one - loaded - queued, np.ones(len(replicas), np.bool_))
    hold = np.where(back & (replicas.hold == Hold.LEAVING), np.int32(Hold.LOADED), replicas.hold)
    return replace(
        cluster, replicas=Replicas(segment=replicas.segment, server=replicas.server, hold=hold)
    )


def may_leave(
    cluster: ClusterState, tiers: Iterable[TierCounts], matches: RuleMatches, used: Flags
) -> Flags:
    """Return the segments of which a replica that is not needed where it is may go now.

    Those that a load rule wants must be served as it asks, in all tiers, and at least once; of others that are a part
    of the data one replica must be loaded on a server that stays.
    """
    by_load = matches.by_action(Action.LOAD) & used
    dropped = matches.by_action(Action.DROP) & used
    replicas = cluster.replicas
    stays = ~cluster.decommissioning()[replicas.server]
    ready = _count(replicas.where(stays), Hold.LOADED, len(used)) > 0
    as_asked = np.ones(len(used), np.bool_)
    asked, wanted = np.zeros(len(used), np.int64), np.zeros(len(used), np.int64)
    for tier in tiers:
        as_asked &= tier.served >= tier.wanted
        asked += tier.asked
        wanted += tier.wanted
    as_asked &= (wanted > 0) | (asked == 0)
    allowed: Flags = np.where(by_load, as_asked, ready) | dropped | ~used
    return allowed


def _count(replicas: Replicas, hold: Hold, segments: int) -> Ints:
    held = np.bincount(replicas.segment[replicas.hold == hold], minlength=segments)
    return held.astype(np.int64)


def _first(cluster: ClusterState, short: Ints, among: Flags) -> Flags:
    """Return the first leaving replicas of each segment, as many as are short: those on servers that stay first."""
    replicas = cluster.replicas
    found = np.zeros(len(replicas), np.bool_)
    rows = np.flatnonzero(among & (replicas.hold == Hold.LEAVING) & (short[replicas.segment] > 0))
    segment, server = replicas.segment[rows], replicas.server[rows]
    order = np.lexsort((server, cluster.decommissioning()[server], segment))
    ordered = segment[order]
    rank = np.arange(len(rows)) - np.searchsorted(ordered, ordered, side="left")
    found[rows[order[rank < short[ordered]]]] = True
    return found
