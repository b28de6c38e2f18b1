"""No input ends a round of a coordinator or a broker: whatever rules a store has, whoever says that it serves.

What HTTP refuses may be there all the same: other versions write into the store, and so do people by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from carnac.bootstrap.serving.broker import BrokerHandle
from carnac.errors import CarnacError
from carnac.flight.client import FlightSegmentServer
from carnac.ports.answers import ANYBODY, Statement
from carnac.ports.serving import Role, SegmentServer, ServerRecord
from tests import hostile
from tests.clusters_live import LEASE_MS, LiveCluster
from tests.logs import append
from tests.logs import segment as new_segment
from tests.support.served import ServedStore
from tests.unit.store.events import fast_folder

ROUNDS = 6
"""After so many a segment is where it is to be."""
STRANGER = "stranger"
rules = hostile.texts | hostile.values.map(lambda value: hostile.as_json(value).decode())
records = st.fixed_dictionaries(
    {},
    optional={
        "url": hostile.texts,
        "holder": hostile.texts,
        "tier": hostile.texts,
        "capacity_bytes": hostile.numbers,
        "started_at_ms": hostile.numbers,
        "lease_ms": hostile.numbers,
        "planning_revision": hostile.numbers,
        "oldest_revision": hostile.numbers,
    },
)


def stranger(role: Role, changes: Mapping[str, Any]) -> ServerRecord:
    record: dict[str, Any] = {
        "server_id": STRANGER,
        "role": role,
        "url": "grpc+tcp://127.0.0.1:1",
        "holder": STRANGER,
        "started_at_ms": 1,
        "lease_ms": LEASE_MS,
    }
    return ServerRecord(**{**record, **changes})


class Strangers(LiveCluster):
    """A cluster that reaches servers that it does not know as a process does."""

    def _connect(self, record: ServerRecord) -> SegmentServer:
        if record.server_id in self.servers:
            return super()._connect(record)
        return FlightSegmentServer(record.url, call_timeout_ms=50)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Strangers]:
    cluster = Strangers()
    cluster.join("h1")
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[ServedStore, BrokerHandle]]:
    with fast_folder() as name:
        store = ServedStore(Path(name), 1)
        yield store, store.open_broker()
        store.close()


@pytest.fixture(autouse=True)
def _no_bug(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert "a bug in Carnac" not in caplog.text


_numbers = count()
anybody = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=max(10, settings.default.max_examples // 4),
)


@anybody
@given(text=rules, role=st.sampled_from(Role), changes=records)
def test_a_coordinator_still_has_segments_loaded(
    cluster: Strangers, text: str, role: Role, changes: Mapping[str, Any]
) -> None:
    with suppress(CarnacError):
        cluster.metadata.put_rules("others", text)
    with suppress(CarnacError):
        cluster.metadata.put_server(stranger(role, changes))
    number = next(_numbers)
    append(cluster.metadata, new_segment(f"s{number}", f"{2000 + number}-01-01/P1D"))
    for _ in range(ROUNDS):
        cluster.turn(after_ms=1_500)
    assert "h1" in cluster.copies()[f"s{number}"]
    cluster.metadata.remove_server(STRANGER)


@anybody
@example(role=Role.OVERLORD, changes={"started_at_ms": -(2**63)})
@given(role=st.sampled_from(Role), changes=records)
def test_a_broker_still_answers(
    broker: tuple[ServedStore, BrokerHandle], role: Role, changes: Mapping[str, Any]
) -> None:
    served, handle = broker
    with suppress(CarnacError):
        served.metadata.put_server(stranger(role, changes))
    for loop in handle.loops:
        loop.turn()
        assert loop.failure == ""
    answer = handle.queries.run(
        Statement(client=ANYBODY, sql="SELECT count(*) FROM sys.servers", query_id="q")
    )
    assert answer is not None
    assert len(list(answer.batches())) == 1
    served.metadata.remove_server(STRANGER)
