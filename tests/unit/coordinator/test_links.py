"""What the coordinator believes of a historical, and from when on."""

from __future__ import annotations

from carnac.coordinator.links import Link
from carnac.metadata import open_metadata
from tests.clusters_live import live_cluster
from tests.support.clock import FakeClock, SequentialIds
from tests.support.hand_historicals import HandHistorical


def test_a_server_is_counted_on_once_it_was_asked_after_it_had_heard_the_fence() -> None:
    """Until it has, an earlier leader's order may take away what it has just said that it holds."""
    server, clock = HandHistorical("h1"), FakeClock()
    metadata = open_metadata("memory://", clock=clock, ids=SequentialIds())
    server.beat(metadata)
    [record] = metadata.servers()
    link = Link(
        record,
        server,
        clock,
        disconnect=lambda _: None,
        has_threads=False,
        on_news=lambda: None,
    )
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
    metadata.close()


def test_a_new_leader_tells_a_revision_when_it_counts_on_the_servers() -> None:
    with live_cluster("h1", "h2") as cluster:
        cluster.publish("e1")
        cluster.settle()
        revision = cluster.publish("e2")
        cluster.settle(cluster.another("two"))
        assert cluster.told in (revision - 1, revision)
        cluster.settle()
        assert cluster.told == revision
