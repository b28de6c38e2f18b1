"""What the coordinator believes of a historical, and from when on."""

from __future__ import annotations

from itertools import count

from carnac.coordinator.links import Link
from carnac.errors import Conflict
from tests.clusters_live import live_cluster
from tests.logs import day, segment
from tests.support.clock import FakeClock
from tests.support.hand_historicals import HandHistorical


def test_a_server_is_counted_on_once_it_was_asked_after_it_had_heard_the_fence() -> None:
    """Until it has, an earlier leader's order may take away what it has just said that it holds."""
    link = link_to(HandHistorical("h1"))
    link.ask()
    link.greet(1)
    link.send()
    link.absorb()
    assert link.is_known
    assert not link.view(fence=1).obeys, "it was asked before"
    link.ask()
    link.absorb()
    assert link.view(fence=1).obeys
    assert not link.view(fence=2).obeys
    link.greet(2)
    link.send()
    link.absorb()
    assert not link.view(fence=2).obeys


def test_an_order_that_was_said_again_unloads_nothing_when_the_first_one_comes_late() -> None:
    """It was given up; meanwhile the segment went, and was assigned anew."""
    server = HandHistorical("h1")
    link, wanted = link_to(server), segment("e1", day(1))
    link.greet(1)
    link.load([(wanted, "wanted")], fence=1)
    exchange(link)
    server.is_slow = True
    link.unload(["e1"], fence=1)
    exchange(link)
    server.is_slow = False
    exchange(link)
    assert not server.ids()
    link.load([(wanted, "wanted")], fence=1)
    exchange(link)
    assert link.view(fence=1).loaded == server.ids() == {"e1"}
    refused = server.arrive()
    assert server.ids() == {"e1"}
    assert [type(one) for one in refused] == [Conflict]


def test_a_copy_that_was_told_to_go_is_none_although_the_server_was_started_again() -> None:
    """The order may be on its way yet."""
    server = HandHistorical("h1")
    link, wanted = link_to(server), segment("e1", day(1))
    link.greet(1)
    link.load([(wanted, "wanted")], fence=1)
    exchange(link)
    server.is_slow = True
    link.unload(["e1"], fence=1)
    exchange(link)
    server.restart()
    exchange(link)
    assert "e1" not in link.view(fence=1).loaded
    server.is_slow = False
    exchange(link)
    exchange(link)
    assert not server.ids()
    assert not link.view(fence=1).unloading


def test_a_clock_that_is_set_back_makes_no_server_fast() -> None:
    server, clock = HandHistorical("h1", is_eager=False), FakeClock()
    link = link_to(server, clock)
    link.greet(1)
    link.load([(segment(f"e{number}", day(number)), "wanted") for number in (1, 2, 3)], fence=1)
    speeds = []
    for jump_ms in (1_000, 1_000, -3_600_000, 1_000):
        exchange(link)
        clock.advance_ms(jump_ms)
        server.finish(1)
        exchange(link)
        speeds.append(link.bytes_per_s)
    assert speeds[0] == speeds[1] == speeds[2]


def test_what_is_refused_as_overtaken_is_decided_anew() -> None:
    """Nobody takes it for the word of another leader."""
    server = HandHistorical("h1")
    link, wanted = link_to(server), segment("e1", day(1))
    link.greet(1)
    exchange(link)
    server.order = (1, 1_000)
    link.load([(wanted, "wanted")], fence=1)
    exchange(link)
    assert "e1" not in link.asked
    assert link.revoked_by is None


def test_a_link_that_has_ended_sends_nothing_more() -> None:
    """What it would send later than its successor would pass for newer."""
    server = HandHistorical("h1")
    link = link_to(server)
    link.greet(1)
    link.end()
    link.send()
    link.greet(2)
    link.send()
    assert server.order == (0, 0)


def link_to(server: HandHistorical, clock: FakeClock | None = None) -> Link:
    return Link(
        server.record,
        server,
        clock or FakeClock(),
        numbers=count(1),
        disconnect=lambda _: None,
        has_threads=False,
        on_news=lambda: None,
    )


def exchange(link: Link) -> None:
    link.send()
    link.ask()
    link.absorb()


def test_a_new_leader_tells_a_revision_when_it_counts_on_the_servers() -> None:
    with live_cluster("h1", "h2") as cluster:
        cluster.publish("e1")
        cluster.settle()
        revision = cluster.publish("e2")
        cluster.settle(cluster.another("two"))
        assert cluster.told in (revision - 1, revision)
        cluster.settle()
        assert cluster.told == revision


def test_a_fence_that_a_restored_store_has_forgotten_keeps_nobody_from_leading() -> None:
    with live_cluster("h1", "h2", "h3") as cluster:
        cluster.publish("e1")
        cluster.servers["h2"].order = (7, 1)
        cluster.servers["h3"].order = (
            2**63 - 1,
            1,
        )  # a stranger's, of which there is no higher one
        cluster.settle()
        assert cluster.coordinator.fence == 8
        assert cluster.copies() == {"e1": ["h1", "h2"]}
        assert cluster.told == 1
