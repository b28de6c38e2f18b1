"""Small clusters for tests of balancing, and what a naive reader of the issue would compute about them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import hypothesis.strategies as st
import numpy as np

from carnac.core.balancing.plan.cluster import ClusterState, Hold, Server
from carnac.core.time.intervals import Interval
from tests.support.planned_clusters import ServedSegment, cluster_state

HOUR_MS = 3_600_000
START_MS = 16_000 * 24 * HOUR_MS


def hour(at: int, length: int = 1) -> Interval:
    """Return an interval, in hours after `START_MS`."""
    return Interval(START_MS + at * HOUR_MS, START_MS + (at + length) * HOUR_MS)


def server(name: str, capacity_bytes: int = 1_000_000, **fields: object) -> Server:
    """Return a server that has plenty of disk unless told otherwise."""
    return Server(server_id=name, capacity_bytes=capacity_bytes, **fields)  # type: ignore[arg-type]


def segment(name: str, at: int = 0, length: int = 1, **fields: object) -> ServedSegment:
    """Return a segment of datasource `a`, 100 bytes, unless told otherwise."""
    values = {"datasource": "a", "size_bytes": 100} | fields
    return ServedSegment(segment_id=name, interval=hour(at, length), **values)  # type: ignore[arg-type]


def cluster(
    servers: Iterable[Server],
    segments: Iterable[ServedSegment],
    held: dict[str, list[str]],
    **fields: object,
) -> ClusterState:
    """Return a cluster at `START_MS`."""
    return cluster_state(servers, segments, held, **({"now_ms": START_MS} | fields))  # type: ignore[arg-type]


def held_by(state: ClusterState) -> dict[str, set[str]]:
    """Return server id → ids of what it holds in any way."""
    found: dict[str, set[str]] = {host.server_id: set() for host in state.servers}
    for one, at in zip(state.replicas.segment, state.replicas.server, strict=True):
        found[state.servers[at].server_id].add(state.segments.ids[one])
    return found


def _field(z: float, rate: float) -> float:
    return math.exp(-rate * abs(z)) / rate**2 + abs(z) / rate


def naive_joint_cost(x: tuple[int, int, int], y: tuple[int, int, int]) -> float:
    """Return the joint cost of two (datasource, start ms, end ms) in hours², straight from design section 8."""
    rate = math.log(2) / 24
    x0, x1, y0, y1 = (value / HOUR_MS for value in (*x[1:], *y[1:]))
    cost = _field(x1 - y0, rate) - _field(x0 - y0, rate) - _field(x1 - y1, rate)
    return (cost + _field(x0 - y1, rate)) * (2 if x[0] == y[0] else 1)


def naive_total_cost(state: ClusterState) -> float:
    """Return the cost of all pairs on one server, pair by pair."""
    table, total = state.segments, 0.0
    for at in range(len(state.servers)):
        stays = (state.replicas.server == at) & (state.replicas.hold < Hold.LEAVING)
        keys = [
            (int(table.datasource[one]), int(table.start_ms[one]), int(table.end_ms[one]))
            for one in state.replicas.segment[stays]
        ]
        pairs = [(x, y) for n, x in enumerate(keys) for y in keys[:n]]
        total += sum(naive_joint_cost(x, y) for x, y in pairs)
    return total


@st.composite
def clusters(draw: st.DrawFn, *, max_segments: int = 24) -> ClusterState:
    """Random clusters: tiers, full disks, dying servers, replicas, queues."""
    tiers = st.sampled_from(["hot", "cold"])
    count = draw(st.integers(2, 6))
    segments = [
        segment(
            f"s{n}",
            draw(st.integers(0, 60)),
            draw(st.sampled_from([1, 1, 1, 6, 24])),
            datasource=draw(st.sampled_from("abc")),
            size_bytes=draw(st.integers(1, 40)),
        )
        for n in range(draw(st.integers(0, max_segments)))
    ]
    holds: dict[Hold, dict[str, list[str]]] = {hold: {} for hold in Hold}
    for one in segments:
        for at in draw(st.sets(st.integers(0, count - 1), max_size=3)):
            hold = draw(st.sampled_from([*[Hold.LOADED] * 6, *list(Hold)[1:]]))
            holds[hold].setdefault(f"h{at}", []).append(one.segment_id)
    servers = [
        server(
            f"h{n}",
            draw(st.integers(100, 800)),
            tier=draw(tiers),
            decommissioning=draw(st.integers(0, 4)) == 0,
        )
        for n in range(count)
    ]
    return cluster_state(
        servers,
        segments,
        holds[Hold.LOADED],
        loading=holds[Hold.LOADING],
        leaving=holds[Hold.LEAVING],
        blocked=holds[Hold.BLOCKED],
        now_ms=START_MS + 61 * HOUR_MS,
    )


def counts_by_server(state: ClusterState) -> list[int]:
    """Return how many segments each server holds in any way."""
    return [int(n) for n in np.bincount(state.replicas.server, minlength=len(state.servers))]
