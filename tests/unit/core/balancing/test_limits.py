"""Limits: the numbers of Druid's smart loading, and what is refused."""

from __future__ import annotations

import pytest

from carnac.core.balancing.imbalance import smart_moves_by_tier, tier_imbalance
from carnac.core.balancing.limits import (
    LoadLimits,
    MoveLimits,
    Weights,
    max_smart_moves,
    min_smart_moves,
    smart_limits,
    smart_moves,
)
from carnac.errors import Invalid
from tests.clusters import cluster, segment, server


@pytest.mark.parametrize(
    ("segments", "most"),
    [(0, 0), (50, 50), (512, 100), (100_000, 19_500), (200_000, 10_000), (1_000_000, 2_000)],
)
def test_the_most_moves_of_a_tier(segments: int, most: int) -> None:
    # Source: the examples of Druid's own tests, one thread, a period of a minute.
    assert max_smart_moves(segments, threads=1, period_ms=60_000) == most


def test_the_fewest_moves_of_a_tier() -> None:
    assert [min_smart_moves(n) for n in (0, 7, 100_000, 1_000_000)] == [0, 7, 100, 1_500]


def test_an_imbalance_is_kept_between_the_two() -> None:
    assert smart_moves(100_000, 0) == 100
    assert smart_moves(100_000, 5_000) == 5_000
    assert smart_moves(100_000, 50_000) == 19_500


def test_smart_loading_replicates_a_twentieth_at_a_time() -> None:
    assert smart_limits(1_000).max_replicas == 100
    assert smart_limits(1_000_000).max_replicas == 50_000
    assert (smart_limits(1).max_queue, smart_limits(1).replica_lifetime_runs) == (0, 60)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (MoveLimits, {"max_moves": -1}),
        (MoveLimits, {"min_saving": 0}),
        (MoveLimits, {"min_saving": float("nan")}),
        (MoveLimits, {"period_ms": 0}),
        (MoveLimits, {"return_window_ms": -1}),
        (LoadLimits, {"max_replicas": -1}),
        (Weights, {"spread": -0.5}),
        (Weights, {"heat": 1.5}),
    ],
)
def test_limits_that_make_no_sense_are_refused(kind: type, fields: dict[str, float]) -> None:
    with pytest.raises(Invalid):
        kind(**fields)


def test_an_imbalance_is_that_of_counts_by_datasource_or_of_bytes() -> None:
    # Source: 10 segments of a datasource against none make 5 moves.
    ten = [segment(f"a{n}", n) for n in range(10)]
    ids = [one.segment_id for one in ten]
    hosts = [server("x"), server("y"), server("z", decommissioning=True), server("c", tier="cold")]
    assert tier_imbalance(cluster(hosts, ten, {"x": ids}), "_default_tier") == 5
    others = [segment(f"b{n}", n, datasource="b") for n in range(10)]
    even = {"x": ids, "y": [one.segment_id for one in others]}
    assert tier_imbalance(cluster(hosts, [*ten, *others], even), "_default_tier") == 5
    heavy = [segment(f"h{n}", size_bytes=300 if n < 2 else 100) for n in range(4)]
    held = {"x": ["h0", "h1"], "y": ["h2", "h3"]}
    assert tier_imbalance(cluster(hosts, heavy, held), "_default_tier") == 1
    assert tier_imbalance(cluster(hosts, ten, {"x": ids}), "cold") == 0


def test_smart_moves_of_each_tier() -> None:
    ten = [segment(f"a{n}", n) for n in range(10)]
    hosts = [server("x"), server("y"), server("c", tier="cold")]
    state = cluster(hosts, ten, {"x": [one.segment_id for one in ten]})
    assert smart_moves_by_tier(state) == {"_default_tier": 10, "cold": 0}
