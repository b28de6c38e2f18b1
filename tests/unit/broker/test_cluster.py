"""What a broker knows of a historical: how much it has to do, for this broker and for others."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, cast

from carnac.broker.cluster import Cluster, Member
from carnac.ports.serving import Inventory, Role, SegmentServer, ServerRecord
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from carnac.metadata.records.server_records import ServerRecords

RECORD = ServerRecord(
    server_id="h",
    role=Role.HISTORICAL,
    url="test://h",
    holder="test",
    started_at_ms=0,
    lease_ms=60_000,
)


class Teller:
    """A historical that says how much it runs when a test lets it."""

    def __init__(self) -> None:
        self.said: SimpleQueue[int] = SimpleQueue()

    def inventory(self, *, epoch: str = "", since: int = 0, wait_ms: int = 0) -> Inventory:
        """Return an empty one, once it is said how much runs."""
        del epoch, wait_ms
        return Inventory(
            server_id="h",
            epoch="e",
            number=since + 1,
            is_whole=True,
            holdings=(),
            removed=(),
            used_bytes=0,
            capacity_bytes=0,
            running=self.said.get(),
        )


class Records:
    """Historicals that live, as a test says."""

    def __init__(self) -> None:
        self.records = [RECORD]
        self.answers, self.was_asked = Event(), Event()
        self.answers.set()

    def servers(self, role: Role) -> list[ServerRecord]:
        """Return them."""
        del role
        self.was_asked.set()
        self.answers.wait(PATIENCE_S)
        return self.records


def test_a_server_that_hangs_keeps_nobody_waiting_when_it_is_left() -> None:
    teller, records = Teller(), Records()
    cluster = Cluster(cast("ServerRecords", records), lambda _: cast("SegmentServer", teller))
    cluster.follow()
    records.records = []
    following = Thread(target=cluster.follow, daemon=True)
    following.start()
    following.join(PATIENCE_S)
    assert not following.is_alive(), "it waits for the answer of the one that is gone"
    assert not cluster.known()
    teller.said.put(0)
    cluster.close()


def test_a_database_that_hangs_keeps_nobody_from_reading_deep_storage() -> None:
    teller, records = Teller(), Records()
    server = cast("SegmentServer", teller)
    own = Member(RECORD, server)
    cluster = Cluster(cast("ServerRecords", records), lambda _: server, lambda: own)
    records.answers.clear()
    following = Thread(target=cluster.follow, daemon=True)
    following.start()
    assert records.was_asked.wait(PATIENCE_S)
    found: SimpleQueue[Member | None] = SimpleQueue()
    Thread(target=lambda: found.put(cluster.own()), daemon=True).start()
    assert found.get(timeout=PATIENCE_S / 2) is own
    records.answers.set()
    following.join()
    teller.said.put(0)
    cluster.close()


def test_a_query_of_this_broker_counts_once_and_only_while_it_runs() -> None:
    """A server says seldom how much it runs, and of what it ran for this broker then that is known better here."""
    teller = Teller()
    member = Member(RECORD, cast("SegmentServer", teller))

    def running() -> int:
        return member.view(frozenset()).running

    member.start()
    member.begin()
    assert running() == 1
    teller.said.put(3)
    until(lambda: running() == 3, "two queries of others and one of this broker")
    member.end()
    assert running() == 2
    teller.said.put(0)
    until(lambda: running() == 0, "an idle server")
    teller.said.put(0)  # for who waits
    member.close()
