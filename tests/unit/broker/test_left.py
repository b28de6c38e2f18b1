"""Statements whose client goes at an odd moment: they end, and a part of an answer is never taken for all of it."""

from __future__ import annotations

import pytest

from carnac.api.avatica.held import HeldRows
from carnac.api.sql.facts import JSON_TYPE
from carnac.api.sql.requests import SqlRequest, asked_by, read_request
from carnac.api.sql.runs import Run
from carnac.broker import Broker
from carnac.broker.answer import BrokerAnswer
from carnac.errors import Cancelled
from carnac.ports.answers import Statement
from tests.unit.broker.conftest import ANYBODY, OpenBroker


def request(sql: str) -> SqlRequest:
    return asked_by(read_request({"query": sql}), new_id=lambda: "q", client=ANYBODY)


def test_one_whose_client_goes_as_it_starts_gives_its_turn_back(
    open_one: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = open_one(query_slots=1)
    asked = request("SELECT n FROM events")
    run = Run(broker.queries, asked, media_type=JSON_TYPE)
    start = Broker.run

    def start_and_leave(
        self: Broker, statement: Statement, *, if_none_match: str | None = None
    ) -> BrokerAnswer | None:
        answer = start(self, statement, if_none_match=if_none_match)
        run.leave()
        return answer

    monkeypatch.setattr(Broker, "run", start_and_leave)
    with pytest.raises(Cancelled):
        run.open(None)
    assert broker.queue.running == 0


def test_rows_that_were_read_ahead_are_not_handed_on_once_nobody_waits(
    open_one: OpenBroker,
) -> None:
    asked = request("SELECT n FROM events")
    held = HeldRows(Run(open_one().queries, asked, media_type=JSON_TYPE), asked)
    held.open()
    assert len(held.take(10)["rows"]) == 10
    held.leave()
    with pytest.raises(Cancelled, match="nobody waited for its rows"):
        held.take(10)
