"""How uneven a tier is, in segments: what Druid's smart loading goes by when it decides how many to move."""

from __future__ import annotations

import numpy as np

from carnac.core.balancing.cluster import ClusterState
from carnac.core.balancing.limits import smart_moves


def tier_imbalance(cluster: ClusterState, tier: str) -> int:
    """Return how many segments would have to move until counts and disks of a tier's active servers are even.

    The larger of two: half of the largest difference between two servers in the number of segments of one datasource,
    and half of the largest difference in bytes, over the mean size of a segment. Even counts do not make an even
    layout in time, so this bounds moves from below, and never tells that there is nothing to do.
    """
    active = np.flatnonzero(cluster.in_tier(tier) & ~cluster.decommissioning())
    counted = cluster.replicas.where(cluster.counted())
    here = counted.where(np.isin(counted.server, active))
    if len(active) < 2 or not len(here):
        return 0
    place = np.searchsorted(active, here.server)
    datasources = len(cluster.segments.datasources)
    code = cluster.segments.datasource[here.segment].astype(np.int64)
    counts = np.bincount(place * datasources + code, minlength=len(active) * datasources)
    by_server = counts.reshape(len(active), datasources)
    gap = int((by_server.max(axis=0) - by_server.min(axis=0)).max())
    sizes = cluster.segments.size_bytes[here.segment]
    held = np.bincount(place, weights=sizes.astype(np.float64), minlength=len(active))
    mean = max(float(np.mean(sizes)), 1.0)
    return max(gap // 2, int((held.max() - held.min()) / 2 / mean))


def smart_moves_by_tier(
    cluster: ClusterState, *, threads: int = 1, period_ms: int = 60_000
) -> dict[str, int]:
    """Return how many moves smart loading plans for each tier, for `plan_moves`.

    Args:
        cluster: The cluster.
        threads: Of the balancer.
        period_ms: Time between two runs.
    """
    counted = cluster.replicas.where(cluster.counted())
    found: dict[str, int] = {}
    for tier in cluster.tiers:
        segments = int(cluster.in_tier(tier)[counted.server].sum())
        imbalance = tier_imbalance(cluster, tier)
        found[tier] = smart_moves(segments, imbalance, threads=threads, period_ms=period_ms)
    return found
