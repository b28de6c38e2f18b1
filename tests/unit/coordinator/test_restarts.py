"""A historical that has gone and may be back soon: what is made anew meanwhile, and what is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from carnac.core.log.commits import Commit
from carnac.errors import Unavailable
from tests.clusters_live import LiveCluster, live_cluster

GRACE_MS = 60_000
DAYS = [f"e{number}" for number in range(1, 9)]


@pytest.fixture
def cluster() -> Iterator[LiveCluster]:
    with live_cluster("h1", "h2", "h3", restart_grace_ms=GRACE_MS) as made:
        made.publish(*DAYS)
        made.settle()
        yield made


def orders(cluster: LiveCluster) -> dict[str, int]:
    return {name: len(server.orders) for name, server in cluster.servers.items()}


def test_what_another_one_has_is_not_made_anew_before_the_grace_is_over(
    cluster: LiveCluster,
) -> None:
    cluster.kill("h1")
    before = orders(cluster)
    for _ in range(GRACE_MS // 5_000 - 1):
        cluster.turn(after_ms=5_000)
    assert orders(cluster) == before
    assert set(cluster.coordinator.fleet.away) == {"h1"}
    cluster.settle()
    cluster.settle(after_ms=5_000)
    assert not cluster.coordinator.fleet.away
    assert all(len(where) == 2 for where in cluster.copies().values())


def test_what_nobody_else_has_is_loaded_at_once(cluster: LiveCluster) -> None:
    alone = {name for name, where in cluster.copies().items() if set(where) == {"h1", "h2"}}
    assert alone
    cluster.kill("h1")
    cluster.kill("h2")
    cluster.turn()
    cluster.turn()
    assert set(cluster.copies()) == set(DAYS)
    assert cluster.coordinator.fleet.away


def test_one_that_is_back_has_its_copies_again_and_nothing_moves(cluster: LiveCluster) -> None:
    held = cluster.copies()
    server = cluster.servers["h1"]
    cluster.kill("h1")
    cluster.turn(after_ms=20_000)
    server.is_down = False
    cluster.servers["h1"] = server
    server.restart()
    before = orders(cluster)
    cluster.settle(after_ms=5_000)
    assert cluster.copies() == held
    assert orders(cluster) == before
    assert not cluster.coordinator.fleet.away


def test_one_that_is_to_be_emptied_is_not_waited_for(cluster: LiveCluster) -> None:
    cluster.metadata.decommission("h1", wanted=True)
    cluster.turn()
    cluster.kill("h1")
    cluster.turn()
    assert not cluster.coordinator.fleet.away


def test_no_copy_is_too_many_because_of_one_that_is_away(cluster: LiveCluster) -> None:
    cluster.kill("h1")
    cluster.turn()
    held = cluster.copies()
    cluster.rules("events", {"type": "loadForever", "tieredReplicants": {"_default_tier": 1}})
    for _ in range(5):
        cluster.turn(after_ms=2_000)
    assert all(cluster.copies().get(name) for name in held)


def test_nothing_is_let_go_by_a_leader_that_did_not_reach_the_end_of_the_log(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, told = cluster.coordinator, cluster.metadata.head().revision
    cluster.publish("e9")
    cluster.settle()
    held = cluster.copies()
    assert "e9" in held

    def fails(**_: object) -> Sequence[Commit]:
        raise Unavailable("the database does not answer")

    with monkeypatch.context() as patch:
        # as a new leader begins, at the revision that brokers plan on, before they are told of the next one
        patch.setattr(coordinator.rolling, "told", told)
        patch.setattr(cluster.metadata, "changes", fails)
        coordinator.log.restart()
        cluster.clock.advance_ms(2_000)
        coordinator.run_round()
        assert set(coordinator.failures) == {"following the log"}
        assert coordinator.log.lives.head == told
        cluster.servers["h1"].beat(cluster.metadata)
        coordinator.run_round()
    assert cluster.copies() == held
    cluster.settle(after_ms=2_000)
    assert cluster.copies() == held
