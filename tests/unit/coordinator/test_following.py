"""The log as the coordinator follows it: what an erasure changes in it, and what brokers may still read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from carnac.core.log.commits import CommitKind
from tests.clusters_live import LiveCluster, live_cluster
from tests.contract.test_metadata_store_erasing import erasure, instead_of
from tests.logs import day, folding, replacement, segment

DAYS = ["e1", "e2", "e3"]


@pytest.fixture
def cluster() -> Iterator[LiveCluster]:
    with live_cluster("h1", "h2") as made:
        made.publish(*DAYS)
        made.settle()
        yield made


@pytest.mark.parametrize("left", ["some rows", "no row"])
@pytest.mark.parametrize("seen", ["the deletion", "neither"])
def test_an_erasure_between_two_rounds_leaves_what_the_newest_revision_shows(
    cluster: LiveCluster, left: str, seen: str
) -> None:
    store = cluster.metadata
    if left == "some rows":
        store.publish(folding(store, ("e1",), segment("f1", day(1)), kind=CommitKind.DELETE))
    else:
        store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
    if seen == "the deletion":
        cluster.turn()
    store.erase(erasure(store, instead_of(store, "e1", "E1" if left == "some rows" else None)))
    cluster.settle()
    newest = {"e2", "e3"} | ({"f1"} if left == "some rows" else set())
    assert set(cluster.coordinator.log.live) == set(cluster.copies()) == newest
    assert cluster.coordinator.log.is_current
    cluster.publish("e4")
    cluster.settle()
    assert set(cluster.copies()) == newest | {"e4"}
    assert cluster.told == store.head().revision


def test_what_brokers_plan_on_is_kept_through_an_erasure(cluster: LiveCluster) -> None:
    store = cluster.metadata
    cluster.broker("b", planning=1)
    store.publish(folding(store, ("e2",), segment("f2", day(2)), kind=CommitKind.REWRITE))
    store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
    store.erase(erasure(store, instead_of(store, "e1", None)))
    for _ in range(10):
        cluster.turn(after_ms=1_500)
    assert {"e2", "e3", "f2"} <= set(cluster.copies())


def test_a_broker_that_has_not_said_what_it_plans_on_may_plan_on_anything(
    cluster: LiveCluster,
) -> None:
    cluster.broker("b", planning=1)
    unsaid = replace(cluster.brokers["b"], planning_revision=None, oldest_revision=None)
    cluster.brokers["b"] = unsaid
    cluster.metadata.publish(replacement(cluster.metadata, day(1), kind=CommitKind.DELETE))
    cluster.settle()
    assert set(cluster.copies()) == {"e1", "e2", "e3"}
    cluster.broker("b", planning=2)
    cluster.settle()
    assert set(cluster.copies()) == {"e2", "e3"}
