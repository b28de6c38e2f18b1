"""No input ends a loop of a historical: whatever segments it is told to load, whatever it is asked.

What is sent comes over Arrow Flight, as from a coordinator or a broker of another version. Fences and numbers that a
coordinator could give are left out: an order of the highest is obeyed, and none is after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.flight as fl
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from msgspec import msgpack

from carnac.core.segments.record import dump_segment
from carnac.core.segments.segment import Segment
from carnac.deep_storage import open_deep_storage
from carnac.flight import FlightSegmentServer, FlightServer, wire
from carnac.historical import Historical
from carnac.ports import DeepStorage
from tests import hostile
from tests.support.historicals import (
    STORE_ID,
    hour_rows,
    open_historical,
    request_of,
    rows_of,
    settled,
    states,
)
from tests.support.segments import write_segment
from tests.unit.store.events import fast_folder

pytestmark = pytest.mark.http

HEAD = {"version": wire.VERSION, "server_id": "", "store_id": STORE_ID}
ROWS = 10


@dataclass
class Served:
    """A historical with one thread that loads, and what reaches it."""

    historical: Historical
    storage: DeepStorage
    raw: fl.FlightClient
    client: FlightSegmentServer
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def send(self, name: str, message: object) -> None:
        """Send an order or a question as it is, if it can be written at all."""
        try:
            body = msgpack.encode(message)
        except (TypeError, OverflowError, ValueError, RecursionError):
            body = hostile.as_json(message)
        with suppress(fl.FlightError, OSError):
            if name == "run":
                self.raw.do_get(fl.Ticket(body)).read_all()
            else:
                list(self.raw.do_action(fl.Action(name, body)))

    def segment(self) -> Segment:
        return write_segment(self.storage, hour_rows(0, ROWS))

    def expect_life(self) -> None:
        """See that another segment is loaded, read, verified and forgotten."""
        segment = self.segment()
        self.client.assign([segment], fence=1, number=next(self.numbers))
        assert states(settled(self.client))[segment.segment_id] == "loaded"
        self.historical.scrub(1 << 30)
        rows, report = rows_of(self.client, request_of([segment]))
        assert (rows[0]["rows"], report.cold) == (ROWS, 0)
        held = [one.segment_id for one in self.client.inventory().holdings]
        self.client.unassign(held, fence=1, number=next(self.numbers))
        assert not self.client.inventory().holdings


EXAMPLES = settings(
    max_examples=max(10, settings.default.max_examples // 2),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # what fails may leave something behind
)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with fast_folder() as name:
        storage = open_deep_storage(str(Path(name, "deep-storage")))
        historical = open_historical(Path(name, "historical"), storage, load_threads=1)
        flight = FlightServer(historical, host="127.0.0.1", port=0, store_id=STORE_ID)
        url = f"grpc+tcp://127.0.0.1:{flight.port}"
        client = FlightSegmentServer(url)
        with fl.FlightClient(url) as raw:
            yield Served(historical, storage, raw, client)
        client.close()
        historical.close()
        flight.close()


@pytest.fixture(autouse=True)
def _no_bug(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert "a bug in Carnac" not in caplog.text


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """A value with something hostile in a place of it, or in two."""
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from(list(hostile.places(value))))
        value = hostile.replaced(value, place, draw(hostile.values))
    return value


loadable = st.fixed_dictionaries(
    {"segmentId": hostile.odd_texts},
    optional={"path": hostile.texts, "checksum": hostile.texts, "sizeBytes": st.integers(0, 2**40)},
)
"""Changes of a record that reads all the same: what it says comes as far as the threads that load."""


def texts_of(records: object) -> str:
    return hostile.as_json(records).decode()


@EXAMPLES
@given(data=st.data())
def test_no_segment_ends_one(served: Served, data: st.DataObject) -> None:
    record = json.loads(dump_segment(served.segment()))
    readable = loadable.map(lambda change: {**record, **change})
    told = data.draw(st.lists(readable | changed(record), min_size=1, max_size=3))
    number = next(served.numbers)
    asked = {**HEAD, "segments": [texts_of(one) for one in told], "fence": 1, "number": number}
    served.send("assign", asked)
    for one in told:  # one that does not read keeps the others out
        number = next(served.numbers)
        served.send("assign", {**asked, "segments": [texts_of(one)], "number": number})
    settled(served.client)
    served.expect_life()


MESSAGES: dict[str, dict[str, Any]] = {
    "assign": {"segments": [], "fence": -1, "number": -1},
    "unassign": {"segment_ids": ["a"], "fence": -1, "number": -1},
    "inventory": {"epoch": "", "since": 0, "wait_ms": 0},
    "cancel": {"query_id": "q"},
    "run": {
        "query_id": "q",
        "revision": 1,
        "sql": "SELECT count(*) FROM v",
        "view": "v",
        "columns": {"n": "long"},
        "segments": [],
        "tables": {},
        "timeout_ms": 1_000,
        "skips_missing": True,
        "uses_kept": True,
        "populates_kept": True,
        "is_explained": False,
    },
}


def is_an_order(message: Any) -> bool:
    """Whether a coordinator could have given it, so that it is obeyed."""
    fence = message.get("fence") if isinstance(message, dict) else None
    return isinstance(fence, int) and 0 <= fence < 2**63


@EXAMPLES
@given(name=st.sampled_from(sorted(MESSAGES)), data=st.data())
def test_no_question_and_no_order_ends_one(served: Served, name: str, data: st.DataObject) -> None:
    message = data.draw(
        changed({**HEAD, **MESSAGES[name]}).filter(lambda one: not is_an_order(one))
    )
    served.send(name, message)
    served.expect_life()


@EXAMPLES
@given(name=hostile.texts, body=st.binary(max_size=50))
@example(name="assign", body=b"")
def test_no_bytes_end_one(served: Served, name: str, body: bytes) -> None:
    with suppress(fl.FlightError, OSError, UnicodeEncodeError):
        list(served.raw.do_action(fl.Action(name, body)))
    with suppress(fl.FlightError, OSError):
        served.raw.do_get(fl.Ticket(body)).read_all()
    served.expect_life()
