"""The revision that a broker plans on: as it is told, and as the log of the store has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from carnac.broker.membership import Membership
from carnac.errors import NotFound, Unavailable
from carnac.metadata.sql import dialects
from carnac.ports.serving import Role, ServerRecord
from tests.support.clock import FakeClock
from tests.support.historicals import settled
from tests.support.served import ServedStore
from tests.unit.broker.conftest import append_day, rows_of, statement
from tests.waiting import until


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedStore]:
    """Give a store of two days over a historical."""
    served = ServedStore(tmp_path, 1)
    for day in (1, 2):
        append_day(served.store, day)
    served.assign_all()
    for line in served.lines:
        settled(line)
    yield served
    served.close()


def test_a_broker_plans_on_what_it_is_told(served: ServedStore) -> None:
    head = served.store.head().revision
    served.metadata.tell(head, fence=1)
    queries = served.open_broker().queries
    append_day(served.store, 9)
    sql = "SELECT count(*) AS c FROM events"
    assert rows_of(queries.run(statement(sql))) == [{"c": 2 * 24}]
    assert rows_of(queries.run(statement(sql, at=head + 1))) == [{"c": 3 * 24}]
    served.metadata.tell(head + 1, fence=1)
    until(
        lambda: rows_of(queries.run(statement(sql))) == [{"c": 3 * 24}],
        "the told revision",
    )


def test_a_broker_starts_where_what_it_is_told_was_trimmed(served: ServedStore) -> None:
    head = served.store.head().revision
    append_day(served.store, 9)
    served.metadata.trim(keep=lambda heads: {heads[-1].revision}, dry_run=False)
    with pytest.raises(NotFound):
        served.metadata.resolve(head)
    served.metadata.tell(head, fence=1)
    queries = served.open_broker().queries
    sql = "SELECT count(*) AS c FROM events"
    assert rows_of(queries.run(statement(sql))) == [{"c": 3 * 24}]


def test_a_heartbeat_that_took_a_whole_lease_says_nothing_of_now(
    served: ServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, put_server = FakeClock(), served.metadata.put_server
    record = ServerRecord(
        server_id="b", role=Role.BROKER, url="", holder="test", started_at_ms=0, lease_ms=60_000
    )
    slow_ms = [record.lease_ms, 0]

    def put_slowly(one: ServerRecord) -> None:
        put_server(one)
        clock.advance_ms(slow_ms.pop(0))

    monkeypatch.setattr(served.metadata, "put_server", put_slowly)
    reading = cast("Any", nullcontext)
    membership = Membership(served.metadata, reading, record, clock)
    membership.turn()
    with pytest.raises(Unavailable, match="does not know what it may read"):
        membership.planned(None).__enter__()
    membership.turn()
    with membership.planned(None) as revision:
        assert revision == served.store.head().revision
    membership.close()


@pytest.mark.parametrize("has_historicals", [True, False])
def test_a_broker_beneath_which_the_metadata_were_restored_answers_nothing(
    served: ServedStore, has_historicals: bool
) -> None:
    if not has_historicals:
        for line in served.lines:
            served.kill(line)
    broker = served.open_broker()
    queries = broker.queries
    ask = statement("SELECT count(*) AS c FROM events")
    append_day(served.store, 9)
    until(lambda: rows_of(queries.run(ask)) == [{"c": 3 * 24}], "the newest revision")
    other = dialects.statement("UPDATE commits SET at_ms = at_ms - 1")
    served.metadata._write(lambda session: session.run(other))

    def is_refused() -> bool:
        try:
            rows_of(queries.run(ask))
        except Unavailable as error:
            return "restored" in error.message
        return False

    assert [loop.trouble for loop in broker.loops] == [None] * len(broker.loops)
    until(is_refused, "the refusal")
    assert "restored" in str([loop.trouble for loop in broker.loops])
    assert rows_of(served.open_broker().queries.run(ask)) == [{"c": 3 * 24}]
