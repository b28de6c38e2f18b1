"""New segments between two runs: each is placed at once, as a run would, without looking at all that is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from carnac.core.balancing.cost.columns import Ints
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.live.picture import LiveSegment, table_of
from carnac.core.balancing.plan.cluster import ClusterState, Hold, Replicas
from carnac.core.balancing.plan.limits import LoadLimits
from carnac.core.balancing.plan.loads import plan_loads
from carnac.core.balancing.plan.plans import REASONS
from carnac.core.balancing.plan.replication import decide_replication
from carnac.core.balancing.plan.rules import RuleSet, decide_rules


class Newcomers:
    """The servers as a run has left them, for those segments that come before the next run.

    Args:
        cluster: With the run's plan in its queues.
        free: Bytes that each server can still take.
        index: The holdings of its servers then; each placement changes it.
        rules: Of the run.
        limits: Of the run.
    """

    def __init__(
        self,
        cluster: ClusterState,
        free: Ints,
        index: CostIndex,
        rules: RuleSet,
        limits: LoadLimits,
    ) -> None:
        self._index, self._rules = index, rules
        self._servers = cluster.servers
        self._free = free
        loading = cluster.replicas.server[cluster.replicas.hold == Hold.LOADING]
        queued = np.bincount(loading, minlength=len(cluster.servers))
        self._slots = limits.max_queue - int(queued.max(initial=0)) if limits.max_queue else None
        self._limits = limits
        self._codes = {name: code for code, name in enumerate(cluster.segments.datasources)}

    def place(self, segments: Sequence[LiveSegment], *, now_ms: int) -> list[tuple[str, str, str]]:
        """Return where they are loaded: segment, server, why; those that have to wait for the next run are left out.

        Args:
            segments: That nobody holds.
            now_ms: The present, by which periods of rules count.
        """
        if self._slots is not None and self._slots <= 0:
            return []
        for one in segments:
            self._codes.setdefault(one.datasource, len(self._codes))
        nothing = np.empty(0, np.int64)
        cluster = ClusterState(
            servers=tuple(
                replace(server, capacity_bytes=max(int(free), 0))
                for server, free in zip(self._servers, self._free, strict=True)
            ),
            segments=table_of(segments, self._codes),
            replicas=Replicas(
                segment=nothing, server=nothing.astype(np.int32), hold=nothing.astype(np.int32)
            ),
            now_ms=now_ms,
        )
        matches = decide_rules(self._rules, cluster.segments, now_ms)
        every = np.ones(len(segments), np.bool_)
        wanted = decide_replication(cluster, matches, self._limits, used=every, index=self._index)
        limits = replace(self._limits, max_queue=self._slots or 0)
        loads = plan_loads(cluster, wanted.requests, limits, index=self._index)
        np.subtract.at(self._free, loads.server, cluster.segments.size_bytes[loads.segment])
        if self._slots is not None:
            placed = np.bincount(loads.server, minlength=len(self._servers))
            self._slots -= int(placed.max(initial=0))
        ids = cluster.segments.ids
        return [
            (ids[row], self._servers[host].server_id, str(REASONS[reason]))
            for row, host, reason in zip(
                loads.segment.tolist(), loads.server.tolist(), loads.reason.tolist(), strict=True
            )
        ]
