"""A coordinator and historicals in one process: from published to told; servers that come, go, fail and fill up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from carnac.core.balancing.plan.limits import Throttles
from carnac.core.log.commits import CommitKind
from carnac.errors import Revoked
from carnac.ports.serving import HoldState
from tests.clusters_live import LEASE_MS, LiveCluster, live_cluster
from tests.logs import replacement, segment

ONE = {"type": "loadForever", "tieredReplicants": {"_default_tier": 1}}
DAYS = [f"e{number}" for number in range(1, 13)]


@pytest.fixture
def cluster() -> Iterator[LiveCluster]:
    with live_cluster("h1", "h2", "h3") as made:
        yield made


def homes(cluster: LiveCluster) -> dict[str, int]:
    return {name: len(where) for name, where in cluster.copies().items()}


class TestPublished:
    def test_what_is_there_is_loaded_twice_and_told(self, cluster: LiveCluster) -> None:
        cluster.publish(*DAYS)
        cluster.settle()
        assert homes(cluster) == dict.fromkeys(DAYS, 2)
        assert cluster.told == 1

    def test_what_comes_is_placed_at_once_without_a_run(self, cluster: LiveCluster) -> None:
        cluster.publish("e1")
        cluster.settle()
        ran = cluster.coordinator.planner.last
        revision = cluster.publish("e2")
        cluster.turn(after_ms=100)
        assert len(cluster.copies()["e2"]) == 2
        assert cluster.coordinator.planner.last is ran
        cluster.turn(after_ms=100)
        assert cluster.told == revision

    def test_nothing_is_told_before_it_is_loaded(self, cluster: LiveCluster) -> None:
        cluster.publish("e1")
        cluster.settle()
        for server in cluster.servers.values():
            server.is_eager = False
        revision = cluster.publish("e2")
        for _ in range(5):
            cluster.turn()
            assert cluster.told == revision - 1
        for server in cluster.servers.values():
            server.finish()
        cluster.turn()
        assert cluster.told == revision

    def test_a_revision_waits_no_longer_than_it_may(self, cluster: LiveCluster) -> None:
        cluster.publish("e1")
        cluster.settle()
        for server in cluster.servers.values():
            server.is_eager = False
        revision = cluster.publish("e2")
        cluster.turn()
        cluster.turn(after_ms=10 * 60_000)
        assert cluster.told == revision

    def test_more_copies_are_not_asked_for_than_there_are_servers(self) -> None:
        with live_cluster("h1") as cluster:
            cluster.publish("e1")
            cluster.settle()
            assert cluster.copies() == {"e1": ["h1"]}

    def test_without_a_historical_nothing_is_told_and_brokers_plan_on_the_newest(self) -> None:
        with live_cluster() as cluster:
            cluster.publish("e1")
            cluster.turn()
            assert cluster.told is None

    def test_when_the_last_one_is_gone_the_newest_is_told(self) -> None:
        with live_cluster("h1") as cluster:
            cluster.publish("e1")
            cluster.settle()
            cluster.kill("h1")
            revision = cluster.publish("e2")
            cluster.turn()
            assert cluster.told == revision


class TestReplaced:
    def test_what_was_replaced_stays_until_brokers_have_confirmed(
        self, cluster: LiveCluster
    ) -> None:
        cluster.publish("e1")
        cluster.settle()
        cluster.broker("b1", 1)
        metadata = cluster.metadata
        new = segment("n1", "2013-01-01/2013-01-02")
        metadata.publish(replacement(metadata, "2013-01-01/2013-01-02", new))
        cluster.settle()
        assert cluster.told == 2
        assert sorted(cluster.copies()) == ["e1", "n1"]
        cluster.broker("b1", 2, oldest=1)
        cluster.settle()
        assert sorted(cluster.copies()) == ["e1", "n1"]
        cluster.broker("b1", 2)
        cluster.settle()
        assert sorted(cluster.copies()) == ["n1"]

    def test_an_empty_replacement_is_told_and_unloaded(self, cluster: LiveCluster) -> None:
        cluster.publish("e1", "e2")
        cluster.settle()
        metadata = cluster.metadata
        metadata.publish(replacement(metadata, "2013-01-01/2013-01-02", kind=CommitKind.DELETE))
        cluster.settle()
        assert cluster.told == 2
        assert sorted(cluster.copies()) == ["e2"]


class TestServers:
    def test_when_one_dies_its_copies_are_made_elsewhere(self, cluster: LiveCluster) -> None:
        cluster.publish(*DAYS)
        cluster.settle()
        cluster.kill("h2")
        cluster.settle()
        assert cluster.copies() == {name: ["h1", "h3"] for name in DAYS}

    def test_one_that_is_silent_for_its_lease_counts_as_dead(self, cluster: LiveCluster) -> None:
        cluster.publish(*DAYS)
        cluster.settle()
        cluster.servers.pop("h2").is_down = True
        cluster.clock.advance_ms(LEASE_MS)
        cluster.settle()
        assert cluster.copies() == {name: ["h1", "h3"] for name in DAYS}

    def test_one_that_was_started_again_keeps_what_it_has(self, cluster: LiveCluster) -> None:
        cluster.publish(*DAYS)
        cluster.settle()
        before, orders = cluster.copies(), cluster._orders()
        cluster.servers["h2"].restart()
        cluster.settle()
        assert cluster.copies() == before
        assert cluster._orders() == orders

    def test_one_that_was_started_again_is_waited_for_to_say_what_it_holds(
        self, cluster: LiveCluster
    ) -> None:
        cluster.publish(*DAYS)
        cluster.settle()
        orders = cluster._orders()
        cluster.servers["h2"].restart()
        cluster.servers["h2"].is_down = True
        for _ in range(3):
            cluster.turn(after_ms=1_500)
        assert cluster._orders() == orders
        cluster.servers["h2"].is_down = False
        cluster.settle()
        assert cluster._orders() == orders

    def test_one_that_never_says_what_it_holds_counts_as_empty(self, cluster: LiveCluster) -> None:
        cluster.publish(*DAYS)
        cluster.settle()
        cluster.servers["h2"].restart()
        cluster.servers["h2"].is_down = True
        cluster.settle(after_ms=6_000)
        held = [name for name, server in cluster.servers.items() if server.ids() == set(DAYS)]
        assert held == ["h1", "h3"]

    def test_a_target_that_dies_takes_no_copy_with_it(self) -> None:
        """Once ten segments ended as five: a copy that was to move away was dropped though its target had died."""
        with live_cluster("h1") as cluster:
            cluster.rules("_default", ONE)
            cluster.publish(*DAYS)
            cluster.settle()
            cluster.join("h2", is_eager=False)
            cluster.turn(after_ms=1_500)
            cluster.turn(after_ms=1_500)
            moving = cluster.servers["h2"].ids(HoldState.LOADING)
            assert moving
            cluster.kill("h2")
            cluster.settle()
            assert cluster.copies() == {name: ["h1"] for name in DAYS}

    def test_loads_that_wait_go_to_a_server_that_joins(self) -> None:
        throttles = Throttles(max_moves=0)
        with live_cluster(throttles=throttles) as cluster:
            cluster.rules("_default", ONE)
            cluster.join("h1", is_eager=False)
            days = [f"e{number}" for number in range(1, 29)]
            cluster.publish(*days)
            cluster.turn()
            cluster.turn()
            assert cluster.servers["h1"].ids(HoldState.LOADING) == set(days)
            cluster.join("h2")
            cluster.settle()
            assert cluster.servers["h2"].ids()
            waiting = cluster.servers["h1"].ids(HoldState.LOADING)
            assert waiting | cluster.servers["h2"].ids() == set(days)
            assert not waiting & cluster.servers["h2"].ids()

    def test_decommissioning_empties_and_undoing_it_fills_again(self, cluster: LiveCluster) -> None:
        cluster.publish(*DAYS)
        cluster.settle()
        cluster.metadata.decommission("h2", wanted=True)
        cluster.settle()
        assert cluster.servers["h2"].ids(None) == set()
        assert homes(cluster) == dict.fromkeys(DAYS, 2)
        cluster.metadata.decommission("h2", wanted=False)
        cluster.publish("e20", "e21", "e22")
        cluster.settle()
        assert cluster.servers["h2"].ids()

    def test_one_that_drains_gets_nothing_new(self, cluster: LiveCluster) -> None:
        from dataclasses import replace

        server = cluster.servers["h2"]
        server.record = replace(server.record, is_draining=True)
        cluster.publish(*DAYS)
        cluster.settle()
        assert server.ids(None) == set()
        assert {name for where in cluster.copies().values() for name in where} == {"h1", "h3"}

    def test_one_that_is_nearly_full_gets_nothing(self) -> None:
        with live_cluster() as cluster:
            cluster.join("h1", capacity_bytes=1_000)
            cluster.join("h2")
            cluster.publish("e1", rows=96)
            cluster.publish("e2", rows=95)
            cluster.settle()
            assert cluster.copies() == {"e1": ["h2"], "e2": ["h1", "h2"]}
            assert cluster.told == 2

    def test_what_fits_nowhere_is_told_and_read_cold(self) -> None:
        with live_cluster() as cluster:
            cluster.join("h1", capacity_bytes=1_000)
            cluster.publish("e1")
            cluster.settle()
            revision = cluster.publish("e2", rows=500)
            cluster.settle()
            assert cluster.told == revision
            assert cluster.coordinator.planner.memory.unplaced == {"e2": "no_room"}

    def test_one_that_does_not_answer_keeps_nobody_else_waiting(self, cluster: LiveCluster) -> None:
        cluster.publish("e1")
        cluster.settle()
        cluster.servers["h2"].is_down = True
        cluster.publish(*DAYS[1:])
        cluster.settle()
        assert cluster.told == 2
        copies = cluster.copies()
        assert all(copies[name] for name in DAYS)


class TestFailures:
    def test_what_one_server_cannot_load_another_one_does(self, cluster: LiveCluster) -> None:
        cluster.servers["h1"].failing = set(DAYS)
        cluster.publish(*DAYS)
        cluster.settle()
        assert cluster.told == 1
        assert cluster.copies() == {name: ["h2", "h3"] for name in DAYS}

    def test_what_failed_is_tried_again_after_a_while(self) -> None:
        with live_cluster("h1") as cluster:
            cluster.servers["h1"].failing = {"e1"}
            cluster.publish("e1", "e2")
            cluster.settle()
            assert cluster.copies() == {"e2": ["h1"]}
            cluster.servers["h1"].failing = set()
            cluster.settle(after_ms=15_000)
            assert cluster.copies() == {"e1": ["h1"], "e2": ["h1"]}

    def test_what_failed_before_the_clock_was_set_back_is_tried_again(self) -> None:
        with live_cluster("h1") as cluster:
            cluster.servers["h1"].failing = {"e1"}
            cluster.publish("e1")
            cluster.settle()
            cluster.servers["h1"].failing = set()
            cluster.clock.advance_ms(-3_600_000)
            cluster.settle(after_ms=15_000)
            assert cluster.copies() == {"e1": ["h1"]}

    @pytest.mark.slow
    def test_a_load_that_fails_every_time_is_tried_ever_more_seldom(self) -> None:
        with live_cluster("h1") as cluster:
            server = cluster.servers["h1"]
            server.failing = {"e1"}
            cluster.publish("e1")
            for _ in range(400):
                cluster.turn(after_ms=10_000)
            tries = server.orders.count("load e1")
            assert 4 <= tries <= 10


class TestLeaders:
    def test_another_one_goes_on_with_a_higher_fence(self, cluster: LiveCluster) -> None:
        cluster.publish(*DAYS)
        cluster.settle()
        before = cluster.copies()
        second = cluster.another("two")
        cluster.turn(second)
        assert not second.is_leader
        cluster.clock.advance_ms(LEASE_MS)
        revision = cluster.publish("e20")
        cluster.settle(second)
        assert second.is_leader
        assert cluster.told == revision
        assert {name: where for name, where in cluster.copies().items() if name != "e20"} == before

    def test_the_old_one_is_refused_by_servers_and_by_the_store(self, cluster: LiveCluster) -> None:
        cluster.publish("e1")
        cluster.settle()
        old = cluster.coordinator.fence
        assert old is not None
        cluster.clock.advance_ms(LEASE_MS)
        second = cluster.another("two")
        cluster.settle(second)
        assert second.fence == old + 1
        with pytest.raises(Revoked):
            cluster.servers["h1"].unassign(["e1"], fence=old, number=0)
        with pytest.raises(Revoked):
            cluster.metadata.tell(1, fence=old)
        cluster.turn()
        assert not cluster.coordinator.is_leader

    def test_who_is_paused_between_two_duties_orders_nothing(self, cluster: LiveCluster) -> None:
        cluster.publish("e1")
        cluster.settle()
        cluster.clock.advance_ms(LEASE_MS)
        second = cluster.another("two")
        cluster.settle(second)
        orders = cluster._orders()
        cluster.publish("e2")
        cluster.coordinator._follow_log()
        cluster.coordinator._plan()
        cluster.coordinator._roll()
        assert cluster._orders() == orders
        assert cluster.told == 1

    def test_what_the_old_one_had_begun_is_ended(self, cluster: LiveCluster) -> None:
        for server in cluster.servers.values():
            server.is_eager = False
        cluster.publish(*DAYS)
        cluster.turn()
        cluster.turn()
        cluster.coordinator.resign()
        second = cluster.another("two")
        for server in cluster.servers.values():
            server.is_eager = True
            server.finish()
        cluster.settle(second)
        assert homes(cluster) == dict.fromkeys(DAYS, 2)

    def test_what_is_loaded_and_not_told_yet_is_not_unloaded_by_the_next_one(
        self, cluster: LiveCluster
    ) -> None:
        cluster.publish("e1")
        cluster.settle()
        cluster.publish("e2")
        cluster.turn()
        assert cluster.told == 1
        assert "e2" in cluster.copies()
        cluster.coordinator.resign()
        cluster.settle(cluster.another("two"))
        assert cluster.told == 2
        orders = [one for server in cluster.servers.values() for one in server.orders]
        assert "unload e2" not in orders

    def test_one_that_was_revoked_leads_again_later(self, cluster: LiveCluster) -> None:
        """Found by `carnac simulate cluster`: it kept the leadership for ever, and gave no order any more."""
        cluster.publish("e1")
        cluster.settle()
        first, second = cluster.coordinator, cluster.another("two")
        first._metadata.resign("coordinator", first.leader_id)  # while it stands still
        cluster.settle(second)
        assert second.is_leader
        cluster.publish("e2")
        for _ in range(3):
            first.planner.restart()
            first.fleet.lead(first._fence)  # it wakes, and gives orders under its old fence
            cluster.turn(first)
        assert first.fleet.revoked_by == second.fence
        assert not first.is_leader
        second.resign()
        revision = cluster.publish("e3")
        cluster.settle(first)
        assert first.is_leader
        assert cluster.told == revision

    def test_who_resigns_lets_one_that_waits_lead_soon(self, cluster: LiveCluster) -> None:
        cluster.turn()
        second = cluster.another("two")
        cluster.turn(second)
        assert not second.is_leader
        cluster.coordinator.resign()
        cluster.turn(second, after_ms=500)
        assert second.is_leader


class TestRules:
    def test_copies_follow_the_rules(self, cluster: LiveCluster) -> None:
        cluster.publish(*DAYS)
        cluster.settle()
        cluster.rules("events", {"type": "loadForever", "tieredReplicants": {"_default_tier": 3}})
        cluster.settle()
        assert homes(cluster) == dict.fromkeys(DAYS, 3)
        cluster.rules("events", ONE)
        cluster.settle()
        assert homes(cluster) == dict.fromkeys(DAYS, 1)

    def test_what_is_wanted_nowhere_is_unloaded_and_stays_in_the_data(
        self, cluster: LiveCluster
    ) -> None:
        cluster.publish(*DAYS)
        cluster.settle()
        cluster.rules("events", {"type": "loadForever", "tieredReplicants": {}})
        cluster.settle()
        assert cluster.copies() == {}
        assert cluster.metadata.count_visible("events") == len(DAYS)
        revision = cluster.publish("e20")
        cluster.settle()
        assert cluster.told == revision

    def test_tiers_and_the_names_that_stand_for_them(self) -> None:
        with live_cluster() as cluster:
            cluster.join("a1", tier="hot_a")
            cluster.join("b1", tier="hot_b")
            cluster.join("c1", tier="cold")
            cluster.coordinator = cluster.another("one", tier_aliases={"hot": ["hot_a", "hot_b"]})
            cluster.rules("events", {"type": "loadForever", "tieredReplicants": {"hot": 1}})
            cluster.publish("e1")
            cluster.settle()
            assert cluster.copies() == {"e1": ["a1", "b1"]}

    def test_rules_that_cannot_be_read_are_left_out(self, cluster: LiveCluster) -> None:
        cluster.metadata.put_rules("events", "{not json")
        cluster.publish("e1")
        cluster.settle()
        assert homes(cluster) == {"e1": 2}

    def test_broadcast_is_everywhere_and_on_who_comes_later(self, cluster: LiveCluster) -> None:
        cluster.rules("events", {"type": "broadcastForever"})
        cluster.publish("e1")
        cluster.settle()
        assert homes(cluster) == {"e1": 3}
        cluster.join("h4")
        cluster.settle()
        assert homes(cluster) == {"e1": 4}


class TestThrottles:
    def test_no_more_moves_are_under_way_than_may_be(self) -> None:
        throttles = Throttles(max_moves=2)
        with live_cluster("h1", throttles=throttles) as cluster:
            cluster.rules("_default", ONE)
            cluster.publish(*DAYS)
            cluster.settle()
            cluster.join("h2", is_eager=False)
            for _ in range(10):
                cluster.turn(after_ms=1_500)
                assert len(cluster.servers["h2"].ids(HoldState.LOADING)) <= 2
            while cluster.servers["h2"].ids(HoldState.LOADING):
                cluster.servers["h2"].finish()
                cluster.turn(after_ms=1_500)
                cluster.turn(after_ms=1_500)
            cluster.settle()
            assert cluster.servers["h2"].ids()

    def test_no_more_further_replicas_are_under_way_than_may_be(self) -> None:
        throttles = Throttles(max_replicas=3, max_moves=0)
        with live_cluster("h1", throttles=throttles) as cluster:
            cluster.publish(*DAYS)
            cluster.settle()
            cluster.join("h2", is_eager=False)
            for _ in range(5):
                cluster.turn(after_ms=1_500)
                assert len(cluster.servers["h2"].ids(HoldState.LOADING)) == 3
            while cluster.servers["h2"].ids(HoldState.LOADING):
                cluster.servers["h2"].finish()
                cluster.turn(after_ms=1_500)
                cluster.turn(after_ms=1_500)
            assert homes(cluster) == dict.fromkeys(DAYS, 2)

    def test_queues_are_no_longer_than_they_may_be(self) -> None:
        throttles = Throttles(max_queue=4)
        with live_cluster(throttles=throttles) as cluster:
            cluster.join("h1", is_eager=False)
            cluster.publish(*DAYS)
            for _ in range(3):
                cluster.turn(after_ms=1_500)
            assert len(cluster.servers["h1"].ids(HoldState.LOADING)) == 4
            assert cluster.told == 1
            for _ in range(8):
                cluster.servers["h1"].finish()
                cluster.turn(after_ms=1_500)
            assert homes(cluster) == dict.fromkeys(DAYS, 1)
