"""A cost index that lives: segments are loaded, dropped and placed; the oracle adds up pairs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from carnac.core.balancing.cost.columns import room_for
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid
from tests.pairs import Held, any_interval, brute_cost, brute_place, columns_of

datasources = st.integers(0, 2)


class CostIndexMachine(RuleBasedStateMachine):
    """Cells are cut at nearly every step."""

    @initialize(servers=st.integers(1, 5))
    def start(self, servers: int) -> None:
        self.index = CostIndex(servers)
        self.held: Held = Counter()

    @rule(data=st.data(), datasource=datasources, interval=any_interval)
    def load(self, data: st.DataObject, datasource: int, interval: Interval) -> None:
        server = data.draw(st.integers(0, self.index.server_count - 1))
        self.index.load(server, datasource, interval.start_ms, interval.end_ms)
        self.held[server, datasource, interval] += 1

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        held = sorted(key for key, count in self.held.items() if count)
        server, datasource, interval = key = data.draw(st.sampled_from(held))
        self.index.drop(server, datasource, interval.start_ms, interval.end_ms)
        self.held[key] -= 1

    @rule(
        data=st.data(), rows=st.lists(st.tuples(datasources, any_interval), min_size=1, max_size=5)
    )
    def place(self, data: st.DataObject, rows: list[tuple[int, Interval]]) -> None:
        columns, servers = columns_of(rows), self.index.server_count
        free = data.draw(st.lists(st.integers(0, 9), min_size=servers, max_size=servers))
        room = room_for(
            len(rows), servers, free_bytes=np.array(free), capacity_bytes=np.full(servers, 9)
        )
        expected = brute_place(self.held, servers, columns, room)
        assert [{int(server)} for server in self.index.place(columns, room)] == expected

    @rule(datasource=datasources, interval=any_interval)
    def ask(self, datasource: int, interval: Interval) -> None:
        costs = self.index.costs(datasource, interval.start_ms, interval.end_ms)
        expected = [
            brute_cost(self.held, server, datasource, interval)
            for server in range(self.index.server_count)
        ]
        assert costs.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-280)

    @rule(data=st.data(), interval=any_interval)
    def drop_what_no_server_has(self, data: st.DataObject, interval: Interval) -> None:
        server = data.draw(st.integers(0, self.index.server_count - 1))
        with pytest.raises(Invalid, match="does not hold"):
            self.index.drop(server, 3, interval.start_ms, interval.end_ms)


TestCostIndex = CostIndexMachine.TestCase
