"""What becomes of those who ask when the other side is gone, is somebody else, or never was there."""

from __future__ import annotations

import dataclasses
import gc
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from carnac.clock import SystemClock
from carnac.errors import Invalid, TimedOut, Unavailable
from carnac.flight import FlightSegmentServer, FlightServer, wire
from carnac.historical import Historical
from carnac.historical.leaves import Leaf
from tests.support.historicals import (
    STORE_ID,
    PlainEngine,
    open_historical,
    request_of,
    rows_of,
    settled,
    write_hours,
)
from tests.support.memory_storage import MemoryDeepStorage
from tests.waiting import until

pytestmark = pytest.mark.http


HEAD = wire.Head(version=wire.VERSION, server_id="", store_id=STORE_ID)


@dataclasses.dataclass
class Behind:
    historical: Historical
    flight: FlightServer
    storage: MemoryDeepStorage
    engine: PlainEngine

    @property
    def url(self) -> str:
        return f"grpc+tcp://127.0.0.1:{self.flight.port}"


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    storage, engine = MemoryDeepStorage(), PlainEngine()
    historical = open_historical(tmp_path / "historical", storage, engine=engine)
    flight = FlightServer(historical, host="127.0.0.1", port=0, store_id=STORE_ID)
    yield Behind(historical, flight, storage, engine)
    historical.close()
    flight.close()


def leaves() -> list[Leaf]:
    """Return the leaf statements that something still refers to."""
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is Leaf]


def test_nobody_there_is_unavailable_in_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = FlightSegmentServer(f"grpc+tcp://127.0.0.1:{taken.getsockname()[1]}", "s1")
        with pytest.raises(Unavailable, match=r"historical s1 at grpc.* cannot be reached; ask"):
            client.inventory()
    client.close()
    with pytest.raises(Unavailable, match="is no address of a historical"):
        FlightSegmentServer("no such:url").inventory()


@pytest.mark.parametrize(
    ("limit_ms", "epoch"),
    [pytest.param(300, "", id="first"), pytest.param(60_000, "e", id="nothing held so far")],
)
def test_whoever_does_not_answer_in_time_is_given_up(limit_ms: int, epoch: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"grpc+tcp://127.0.0.1:{silent.getsockname()[1]}"
        client = FlightSegmentServer(url, "s1", clock=SystemClock(), call_timeout_ms=limit_ms)
        with pytest.raises(TimedOut, match=r"did not answer within (0\.3|1) s"):
            client.inventory(epoch=epoch)
        client.close()


def test_a_statement_is_given_up_after_its_time_and_stops_at_the_server(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carnac.flight.client.RUN_SLACK_MS", 0)
    client = FlightSegmentServer(behind.url)
    behind.engine.gate.clear()
    with pytest.raises(TimedOut, match=r"did not answer within 0\.3 s; ask another one"):
        rows_of(client, request_of(write_hours(behind.storage, 1), timeout_ms=300))
    until(lambda: not behind.historical.running, "the end of the statement")
    client.close()


def test_a_small_answer_is_one_message_with_its_report(behind: Behind) -> None:
    body = wire.dump_run(request_of(write_hours(behind.storage, 1)), HEAD)
    with fl.FlightClient(behind.url) as client:
        chunk = client.do_get(fl.Ticket(body)).read_chunk()
    assert chunk.data.num_rows
    assert wire.load(wire.ReportTold, chunk.app_metadata.to_pybytes()).is_whole


def test_a_statement_of_somebody_who_was_killed_stops(behind: Behind, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(wire.dump_run(request_of(write_hours(behind.storage, 1)), HEAD))
    behind.engine.gate.clear()
    code = (
        "import sys, pathlib, pyarrow.flight as fl\n"
        "ticket = fl.Ticket(pathlib.Path(sys.argv[2]).read_bytes())\n"
        "fl.FlightClient(sys.argv[1]).do_get(ticket)\n"
    )
    asker = subprocess.Popen([sys.executable, "-c", code, behind.url, str(body)])
    until(lambda: behind.historical.running, "the statement running")
    asker.kill()
    asker.wait()
    until(lambda: not behind.historical.running, "the end of the statement")
    until(lambda: not leaves(), "the end of all that the statement had")


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: list(client.list_flights()),
        lambda client: client.get_flight_info(fl.FlightDescriptor.for_path("events")),
        lambda client: client.get_schema(fl.FlightDescriptor.for_path("events")),
        lambda client: client.do_exchange(fl.FlightDescriptor.for_path("events"))[1].read_all(),
        lambda client: client.do_put(fl.FlightDescriptor.for_path("a"), pa.schema([]))[0].close(),
    ],
    ids=["list_flights", "get_flight_info", "get_schema", "do_exchange", "do_put"],
)
def test_what_other_programs_ask_of_the_port_is_refused_in_a_sentence(
    behind: Behind, ask: Callable[[fl.FlightClient], object]
) -> None:
    with (
        fl.FlightClient(behind.url) as client,
        pytest.raises(
            (fl.FlightError, OSError), match=r"answers Carnac's own processes .* ask a broker"
        ) as told,
    ):
        ask(client)
    assert "Traceback" not in str(told.value)
    with fl.FlightClient(behind.url) as client:
        assert {one.type for one in client.list_actions()} >= {"inventory", "cancel"}


def test_another_server_at_the_address_is_not_asked(behind: Behind) -> None:
    client = FlightSegmentServer(behind.url, "s0")
    with pytest.raises(Unavailable, match="historical s0 is not at this address any more"):
        client.assign([], fence=1, number=0)
    with pytest.raises(Unavailable, match="s0 is not at this address"):
        client.run(request_of(write_hours(behind.storage, 1)))
    client.close()
    unknown = FlightSegmentServer(behind.url)
    assert unknown.server_id == behind.historical.server_id
    unknown.close()


def test_a_server_of_another_store_is_not_asked(behind: Behind) -> None:
    client = FlightSegmentServer(behind.url, behind.historical.server_id, "store2")
    said = f"^historical {behind.historical.server_id} serves store store1, not store store2; ask"
    for ask in (
        client.inventory,
        lambda: client.assign(write_hours(behind.storage, 1), fence=1, number=0),
        lambda: client.unassign(["x"], fence=1, number=0),
        lambda: client.run(request_of(write_hours(behind.storage, 1))),
        lambda: client.cancel("q"),
    ):
        with pytest.raises(Unavailable, match=said):
            ask()
    client.close()
    assert not behind.historical.segments


def test_a_server_that_is_back_is_found_again(behind: Behind, tmp_path: Path) -> None:
    client = FlightSegmentServer(behind.url)
    segments = write_hours(behind.storage, 2)
    client.assign(segments, fence=1, number=0)
    before = settled(client)
    port = behind.flight.port
    behind.historical.close()
    behind.flight.close()
    with pytest.raises(Unavailable):
        client.inventory()
    again = open_historical(tmp_path / "historical", behind.storage)
    flight = FlightServer(again, host="127.0.0.1", port=port)

    def answers() -> bool:
        try:
            return client.inventory().holdings == before.holdings
        except Unavailable:
            return False

    until(answers, "the server that is back")
    client.close()
    again.close()
    flight.close()


def test_an_address_that_is_taken_is_told(behind: Behind) -> None:
    with pytest.raises(Unavailable, match="cannot listen at 127"):
        # Flight never lets go of what failed to listen, so it gets nothing to hold
        FlightServer(cast("Historical", None), host="127.0.0.1", port=behind.flight.port)


def test_ten_thousand_slices_are_asked_at_once(behind: Behind) -> None:
    (segment,) = write_hours(behind.storage, 1)
    client = FlightSegmentServer(behind.url)
    gone = [
        dataclasses.replace(segment, segment_id=f"gone{i}", path="no/such") for i in range(9_999)
    ]
    rows, report = rows_of(client, request_of([segment, *gone], skips_missing=True))
    assert rows[0]["rows"] == 10
    assert (len(report.missing), len(report.slices)) == (9_999, 1)
    client.close()


@pytest.mark.parametrize("name", ["assign", "unassign", "inventory", "cancel", "format-disk"])
def test_made_up_actions_are_refused(behind: Behind, name: str) -> None:
    with fl.FlightClient(behind.url) as raw:
        for body in (b"", b"\xff" * 100, wire.dump(wire.Done(server_id="x"))):
            with pytest.raises(fl.FlightServerError) as caught:
                list(raw.do_action(fl.Action(name, body)))
            assert b'"Invalid"' in caught.value.extra_info
        with pytest.raises(fl.FlightServerError) as caught:
            raw.do_get(fl.Ticket(b"?"))
        assert b'"Invalid"' in caught.value.extra_info
    assert not behind.historical.running


def test_errors_in_the_middle_of_an_answer_arrive_whole(behind: Behind) -> None:
    segments = write_hours(behind.storage, 1, rows=5000)
    sql = "SELECT CASE WHEN n = 4000 THEN error('é' || repeat('x', 20000)) ELSE word END FROM v"
    client = FlightSegmentServer(behind.url)
    with pytest.raises((Unavailable, Invalid, Exception)) as caught:
        rows_of(client, request_of(segments, sql))
    assert "éxxx" in str(caught.value)
    assert not behind.historical.running
    client.close()


def test_somebody_who_does_not_read_keeps_no_server_from_ending(
    behind: Behind, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("carnac.flight.grpc.CLOSE_MAX_MS", 300)
    segments = write_hours(behind.storage, 1, rows=3000)
    client = FlightSegmentServer(behind.url)
    endless = "SELECT repeat(a.word, 1000) FROM v a, v b"
    batches, report = client.run(request_of(segments, endless))
    other = FlightSegmentServer(behind.url)
    sent = 0

    def is_stuck() -> bool:
        nonlocal sent
        before, sent = sent, behind.engine.batches
        return before == sent > 1

    until(is_stuck, "an answer that nobody takes", period_s=0.3)
    assert other.inventory().running == 1
    behind.historical.close()
    behind.flight.close()
    assert "connections are closed" in caplog.text
    with pytest.raises(Unavailable):
        list(batches)
    assert not report.is_whole
    with pytest.raises(Unavailable):
        other.inventory()
    client.close()
    other.close()


CLOSED_WHILE_ASKED = """
import contextlib, sys, threading
from carnac.errors import Unavailable
from carnac.flight import FlightSegmentServer

def ask(server):
    with contextlib.suppress(Unavailable):
        server.inventory()

for _ in range(700):
    server = FlightSegmentServer(sys.argv[1])
    threads = [threading.Thread(target=ask, args=(server,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    server.close()
    for thread in threads:
        thread.join()
"""


@pytest.mark.slow
def test_a_connection_may_be_closed_while_other_threads_ask() -> None:
    """In a process of its own, which this once ended with a segmentation fault."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CLOSED_WHILE_ASKED, "grpc+tcp://127.0.0.1:1"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
