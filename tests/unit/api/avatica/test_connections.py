"""Connections of JDBC without a broker: what nobody uses goes, what somebody uses stays."""

from __future__ import annotations

from typing import Any, cast

import pytest

from carnac.api.avatica.connections import AvaticaLimits, ConnectionKey, Connections, OpenStatement
from carnac.api.avatica.problems import NoConnection, NoStatement
from carnac.core.access import ALL_DATASOURCES
from carnac.errors import Cancelled, Conflict
from carnac.ports.threads import GRACE_MS
from tests.support.clock import FakeClock

IDLE_MS = 60_000
KEY = ConnectionKey("c", ALL_DATASOURCES)


class Rows:
    """Rows that know whether they were let go."""

    def __init__(self) -> None:
        self.is_left = False

    def leave(self) -> None:
        """Note it."""
        self.is_left = True


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def connections(clock: FakeClock) -> Connections:
    made = Connections(AvaticaLimits(idle_ms=IDLE_MS), clock, first_id=lambda: 7)
    made._loop.stop()  # its rounds are called here
    made.open(KEY, {"timeout": "1"})
    return made


def with_rows(connections: Connections) -> tuple[OpenStatement, Rows]:
    statement, rows = connections.add_statement(KEY), Rows()
    statement.held = cast("Any", rows)
    return statement, rows


def test_a_connection_that_nobody_uses_is_closed_with_its_rows(
    connections: Connections, clock: FakeClock
) -> None:
    _, rows = with_rows(connections)
    clock.advance_ms(IDLE_MS - 1)
    connections.sweep()
    assert not rows.is_left
    clock.advance_ms(1)
    connections.sweep()
    assert rows.is_left
    with pytest.raises(NoConnection, match="transparent_reconnection=true"):
        connections.find(KEY)


def test_rows_that_nobody_fetches_go_and_the_connection_stays(
    connections: Connections, clock: FakeClock
) -> None:
    statement, rows = with_rows(connections)
    clock.advance_ms(IDLE_MS)
    connections.find(KEY)
    connections.sweep()
    assert (rows.is_left, statement.held) == (True, None)
    assert statement.why_none == "nobody fetched them for long"
    assert connections.find_statement(KEY, statement.id) is statement


def test_rows_go_when_the_time_of_their_statement_is_over(
    connections: Connections, clock: FakeClock
) -> None:
    """Until then they keep a turn that others wait for."""
    statement, rows = connections.add_statement(KEY), Rows()
    statement.hold(cast("Any", rows), 1_000)
    clock.advance_ms(999)
    connections.find_statement(KEY, statement.id)
    connections.sweep()
    assert not rows.is_left
    clock.advance_ms(1)
    connections.sweep()
    assert (rows.is_left, "time limit" in statement.why_none) == (True, True)


def test_a_statement_that_cannot_be_stopped_is_late(
    connections: Connections, clock: FakeClock
) -> None:
    statement = connections.add_statement(KEY)
    statement.hold(cast("Any", Rows()), 1_000)
    with statement.one_at_a_time():
        clock.advance_ms(1_000 + GRACE_MS)
        assert not connections.is_late(KEY, statement.id)
        clock.advance_ms(1)
        assert connections.is_late(KEY, statement.id)
    assert not connections.is_late(KEY, statement.id)


def test_what_runs_is_in_use(connections: Connections, clock: FakeClock) -> None:
    statement, rows = with_rows(connections)
    with statement.one_at_a_time():
        clock.advance_ms(10 * IDLE_MS)
        connections.sweep()
        with (
            pytest.raises(Conflict, match="statement 7 runs already"),
            statement.one_at_a_time(),
        ):
            raise AssertionError
    clock.advance_ms(IDLE_MS - 1)
    connections.sweep()
    assert not rows.is_left


def test_ids_of_statements_are_never_given_twice(connections: Connections) -> None:
    first = connections.add_statement(KEY)
    assert connections.add_statement(KEY, 8).id == 8  # of an older connection
    assert [first.id, connections.add_statement(KEY).id] == [7, 9]
    connections.close_statement(KEY, 9)
    assert connections.add_statement(KEY).id == 10
    with pytest.raises(NoStatement):
        connections.find_statement(KEY, 9)


def test_closing_lets_all_rows_go(connections: Connections) -> None:
    _, rows = with_rows(connections)
    connections.close_connection(KEY)
    assert rows.is_left
    connections.open(KEY, {})
    _, rows = with_rows(connections)
    connections.close()
    connections.close()
    assert rows.is_left


def test_a_statement_that_was_closed_takes_no_rows(connections: Connections) -> None:
    statement, rows = connections.add_statement(KEY), Rows()
    connections.close_statement(KEY, statement.id)
    with pytest.raises(Cancelled, match="was closed before it ran"):
        statement.hold(cast("Any", rows), 0)
    assert (rows.is_left, statement.held) == (True, None)
