"""One behaviour for every metadata store: servers, the told revision and load rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from carnac.clock import RandomIds
from carnac.core.tasks.leadership import Candidacy
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid, NotFound, Revoked
from carnac.metadata import open_metadata
from carnac.metadata.records.server_records import CHANGES_KEPT, FORGET_HISTORICALS_MS, FORGET_MS
from carnac.metadata.sql.dialects import SqlText, Statement
from carnac.ports.serving import Role, ServerRecord, Told
from tests.contract.conftest import Store
from tests.logs import append_of, day, segment
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import table_counts

LEASE_MS = 10_000
REPLACED = "UPDATE origin SET store_id = 'another'"
BROKER = ServerRecord(
    server_id="b1",
    role=Role.BROKER,
    url="http://b1:8082",
    holder="host b, process 1",
    started_at_ms=1,
    lease_ms=LEASE_MS,
    is_draining=True,
    planning_revision=7,
    oldest_revision=5,
)
HISTORICAL = ServerRecord(
    server_id="h1",
    role=Role.HISTORICAL,
    url="grpc+tcp://h1:8083",
    holder="host h, process 1",
    tier="_default_tier",
    capacity_bytes=1 << 45,
    started_at_ms=2,
    lease_ms=LEASE_MS,
)


def ids(store: Store, *, live_only: bool = True) -> list[str]:
    return [server.server_id for server in store.servers(live_only=live_only)]


def lead(store: Store, leader_id: str) -> int:
    candidacy = Candidacy(
        role=Role.COORDINATOR, leader_id=leader_id, holder="host c", lease_ms=LEASE_MS
    )
    return store.lead(candidacy).fence


def publish(store: Store, count: int) -> None:
    for number in range(count):
        store.publish(append_of(segment(f"s{number}", day(number + 1))))


def test_a_store_has_one_id_wherever_it_is_opened(store: Store, metadata_url: str) -> None:
    again = open_metadata(metadata_url, clock=FakeClock(), ids=SequentialIds())
    other = open_metadata("memory://", clock=FakeClock(), ids=RandomIds())
    assert store.store_id
    assert again.store_id == store.store_id != other.store_id
    again.close()
    other.close()


def test_a_number_that_no_column_holds_is_refused(store: Store) -> None:
    """SQLite kept it, and whoever read it as a whole number failed."""
    with pytest.raises(Invalid, match="no database keeps"):
        store.put_server(replace(HISTORICAL, capacity_bytes=1e308))  # type: ignore[arg-type]
    assert ids(store) == []


def test_who_serves_a_store_does_not_join_the_one_that_took_its_place(store: Store) -> None:
    store.put_server(HISTORICAL)
    was = store.store_id
    replaced = Statement(**dict.fromkeys(("sqlite", "postgresql"), SqlText(REPLACED)))
    store._write(lambda session: session.run(replaced))
    said = f"^the database holds store another now, and this process serves store {was}; start it"
    with pytest.raises(Revoked, match=said):
        store.put_server(BROKER)
    with pytest.raises(Revoked, match=said):
        lead(store, "c1")
    assert ids(store) == ["h1"]
    assert store.leader(Role.COORDINATOR) is None


def test_servers_come_back_as_they_were_at_the_time_of_the_store(
    store: Store, clock: FakeClock
) -> None:
    kept = store.put_server(HISTORICAL)
    assert kept == replace(HISTORICAL, heartbeat_at_ms=clock.now_ms())
    store.put_server(BROKER)
    assert store.servers() == (replace(BROKER, heartbeat_at_ms=clock.now_ms()), kept)
    assert store.servers(Role.HISTORICAL) == (kept,)
    assert store.servers(Role.OVERLORD) == ()


def test_a_heartbeat_takes_the_place_of_the_one_before(store: Store, clock: FakeClock) -> None:
    store.put_server(BROKER)
    clock.advance_ms(LEASE_MS - 1)
    later = store.put_server(replace(BROKER, planning_revision=9, is_draining=False))
    clock.advance_ms(LEASE_MS - 1)
    assert store.servers() == (later,)
    assert (later.planning_revision, later.oldest_revision, later.is_draining) == (9, 5, False)


def test_a_server_that_is_not_heard_of_for_its_lease_is_not_alive(
    store: Store, clock: FakeClock
) -> None:
    store.put_server(HISTORICAL)
    store.put_server(replace(BROKER, lease_ms=2 * LEASE_MS))
    clock.advance_ms(LEASE_MS)
    assert ids(store) == ["b1"]
    assert ids(store, live_only=False) == ["b1", "h1"]


def test_who_says_goodbye_is_gone_at_once_and_may_come_back(store: Store) -> None:
    store.put_server(HISTORICAL)
    store.remove_server("h1")
    store.remove_server("h1")
    store.remove_server("nobody")
    assert ids(store) == []
    assert ids(store, live_only=False) == ["h1"]
    store.put_server(HISTORICAL)
    assert ids(store) == ["h1"]


def test_a_heartbeat_from_a_clock_that_was_ahead_is_not_believed(
    store: Store, clock: FakeClock
) -> None:
    clock.advance_ms(2 * 86_400_000)
    store.put_server(HISTORICAL)
    clock.advance_ms(-2 * 86_400_000)
    assert ids(store) == []
    assert store.ahead() == {HISTORICAL.holder: 2 * 86_400_000}
    store.put_server(HISTORICAL)
    assert ids(store) == ["h1"]
    assert store.ahead() == {}


def test_decommissioning_is_kept_over_heartbeats_and_restarts(
    store: Store, clock: FakeClock
) -> None:
    store.put_server(HISTORICAL)
    store.decommission("h1", wanted=True)
    store.decommission("h1", wanted=True)
    assert store.put_server(HISTORICAL).is_decommissioning
    store.remove_server("h1")
    clock.advance_ms(LEASE_MS)
    assert store.put_server(replace(HISTORICAL, started_at_ms=99)).is_decommissioning
    store.decommission("h1", wanted=False)
    assert [server.is_decommissioning for server in store.servers()] == [False]


def test_no_server_decommissions_itself(store: Store) -> None:
    assert not store.put_server(replace(HISTORICAL, is_decommissioning=True)).is_decommissioning


def test_a_server_that_nobody_knows_is_not_decommissioned(store: Store) -> None:
    with pytest.raises(
        NotFound, match=r"^there is no historical 'h9'; there are no historicals yet$"
    ):
        store.decommission("h9", wanted=True)
    store.put_server(HISTORICAL)
    store.put_server(BROKER)
    with pytest.raises(NotFound, match=r"^there is no historical 'h9'; there are h1$"):
        store.decommission("h9", wanted=True)
    with pytest.raises(NotFound, match=f"^there is no historical '{BROKER.server_id}'; "):
        store.decommission(BROKER.server_id, wanted=True)


def test_servers_that_are_long_gone_are_forgotten_when_another_one_comes(
    store: Store, clock: FakeClock
) -> None:
    store.put_server(HISTORICAL)
    for number in range(20):
        store.put_server(replace(BROKER, server_id=f"b{number}"))
        store.remove_server(f"b{number}")
        clock.advance_ms(FORGET_MS // 4)
    assert ids(store, live_only=False) == ["b16", "b17", "b18", "b19", "h1"]
    clock.advance_ms(FORGET_HISTORICALS_MS)
    store.put_server(BROKER)
    assert ids(store, live_only=False) == ["b1"]


def test_a_server_from_far_ahead_is_forgotten_too(store: Store, clock: FakeClock) -> None:
    clock.advance_ms(FORGET_HISTORICALS_MS + 2 * LEASE_MS)
    store.put_server(HISTORICAL)
    clock.advance_ms(-FORGET_HISTORICALS_MS - 2 * LEASE_MS)
    store.put_server(BROKER)
    assert ids(store, live_only=False) == ["b1"]


def test_a_server_has_texts_that_can_be_shown(store: Store) -> None:
    with pytest.raises(Invalid, match=r"^the address of a server holds a control character"):
        store.put_server(replace(BROKER, url="http://\0"))
    assert ids(store) == []


def test_the_told_revision_only_rises(store: Store, clock: FakeClock) -> None:
    publish(store, 3)
    assert store.told() is None
    first = store.tell(2, fence=1)
    assert first == Told(revision=2, fence=1, at_ms=clock.now_ms()) == store.told()
    clock.advance_ms(5)
    assert store.tell(1, fence=1) == first
    assert store.tell(2, fence=1) == first
    assert store.tell(3, fence=4) == Told(revision=3, fence=4, at_ms=clock.now_ms())


def test_a_coordinator_that_leads_no_more_tells_nothing(store: Store, clock: FakeClock) -> None:
    publish(store, 3)
    old = lead(store, "c1")
    store.tell(1, fence=old)
    clock.advance_ms(LEASE_MS)
    new = lead(store, "c2")
    assert new > old
    with pytest.raises(Revoked, match=r"^a coordinator leads with fence 2; this one has 1 "):
        store.tell(2, fence=old)
    assert store.tell(2, fence=new).revision == 2
    with pytest.raises(Revoked):
        store.tell(1, fence=old)


def test_nobody_is_told_of_a_revision_that_is_not_there(store: Store) -> None:
    publish(store, 1)
    with pytest.raises(NotFound, match=r"^there is no revision 2 to tell of; the newest is 1$"):
        store.tell(2, fence=1)
    assert store.told() is None


def test_rules_are_kept_changed_and_removed(store: Store) -> None:
    assert store.rules() == {}
    store.put_rules("_default", '[{"type": "loadForever"}]')
    store.put_rules("events", "[]")
    store.put_rules("events", '[{"type": "dropForever"}]')
    assert list(store.rules().items()) == [
        ("_default", '[{"type": "loadForever"}]'),
        ("events", '[{"type": "dropForever"}]'),
    ]
    store.put_rules("events", None)
    store.put_rules("events", None)
    assert list(store.rules()) == ["_default"]


@pytest.mark.parametrize("name", ["", "a/b", " events", ".."])
def test_rules_are_of_what_can_be_a_datasource(store: Store, name: str) -> None:
    with pytest.raises(Invalid, match=r"^the name of a datasource must not"):
        store.put_rules(name, "[]")
    assert store.rule_history() == ()


def test_changes_of_rules_are_remembered_newest_first(store: Store, clock: FakeClock) -> None:
    store.put_rules("events", "[1]", author="ana", comment="less\nof it")
    clock.advance_ms(1)
    store.put_rules("clicks", "[2]")
    store.put_rules("events", None, author="bo")
    history = store.rule_history()
    assert [(one.datasource, one.rules, one.author) for one in history] == [
        ("events", "[]", "bo"),
        ("clicks", "[2]", ""),
        ("events", "[1]", "ana"),
    ]
    assert (history[2].comment, history[2].at_ms) == ("less\nof it", clock.now_ms() - 1)
    assert store.rule_history("events") == (history[0], history[2])
    assert store.rule_history(limit=1) == history[:1]
    first = Interval(history[2].at_ms, history[2].at_ms + 1)
    assert store.rule_history(limit=1, within=first) == history[2:]
    assert store.rule_history("events", limit=1, within=first) == history[2:]
    assert store.rule_history("clicks", within=first) == ()
    assert store.rule_history("nobody") == ()


def test_of_each_datasource_so_many_changes_are_remembered(store: Store) -> None:
    store.put_rules("clicks", "[]")
    for number in range(CHANGES_KEPT + 5):
        store.put_rules("events", f"[{number}]")
    kept = store.rule_history("events", limit=1_000)
    assert (len(kept), kept[-1].rules) == (CHANGES_KEPT, "[5]")
    assert len(store.rule_history(limit=1_000)) == CHANGES_KEPT + 1
    assert table_counts(store)["rule_changes"] == CHANGES_KEPT + 1


def test_a_change_of_rules_has_texts_that_can_be_shown(store: Store) -> None:
    with pytest.raises(Invalid, match=r"^the author of rules holds a control character"):
        store.put_rules("events", "[]", author="\x1b[2J")
    assert store.rules() == {}
    assert store.rule_history() == ()
