"""One behaviour for every segment server: a historical in this process, and one behind Arrow Flight."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import (
    Busy,
    Cancelled,
    CarnacError,
    Conflict,
    Corrupt,
    Invalid,
    NotFound,
    Revoked,
    Unavailable,
)
from carnac.flight import FlightSegmentServer, FlightServer
from carnac.historical import Historical
from carnac.historical.server import LEAVES_MAX
from carnac.ports.serving import SegmentServer
from carnac.ports.storage import OWNER_FILE
from tests.support.historicals import (
    PlainEngine,
    open_historical,
    request_of,
    rows_of,
    settled,
    states,
    write_hours,
)
from tests.support.memory_storage import MemoryDeepStorage
from tests.support.segments import without_file
from tests.waiting import until


@dataclass
class Served:
    """A server under test, the historical behind it, and what both read."""

    server: SegmentServer
    historical: Historical
    storage: MemoryDeepStorage
    engine: PlainEngine


@pytest.fixture(params=["in_process", pytest.param("flight", marks=pytest.mark.http)])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    storage, engine = MemoryDeepStorage(), PlainEngine()
    storage.write(OWNER_FILE, b"mine")
    historical = open_historical(tmp_path / "historical", storage, engine=engine)
    if request.param == "in_process":
        yield Served(historical, historical, storage, engine)
        historical.close()
        return
    flight = FlightServer(historical, host="127.0.0.1", port=0)
    client = FlightSegmentServer(f"grpc+tcp://127.0.0.1:{flight.port}", historical.server_id)
    yield Served(client, historical, storage, engine)
    client.close()
    historical.close()
    flight.close()


def test_segments_are_loaded_and_forgotten(served: Served) -> None:
    segments = write_hours(served.storage, 3)
    served.server.assign(segments, fence=1, number=0)
    found = settled(served.server)
    assert states(found) == {one.segment_id: "loaded" for one in segments}
    assert found.server_id == served.server.server_id == served.historical.server_id
    assert found.used_bytes == sum(one.size_bytes for one in segments)
    assert {one.datasource for one in found.holdings} == {"events"}
    served.server.unassign([segments[0].segment_id, "nobody's"], fence=1, number=0)
    changed = served.server.inventory(epoch=found.epoch, since=found.number)
    assert (changed.is_whole, changed.holdings) == (False, [])
    assert changed.removed == [segments[0].segment_id]


def test_why_a_segment_failed_is_told(served: Served) -> None:
    (segment,) = write_hours(served.storage, 1)
    without_file(served.storage, segment)
    served.server.assign([segment], fence=1, number=0)
    (failed,) = settled(served.server).holdings
    assert failed.state == "failed"
    assert "no such file" in failed.error


def test_who_waits_is_told_of_a_change(served: Served) -> None:
    segments = write_hours(served.storage, 1)
    before = served.server.inventory()
    told: list[int] = []

    def wait() -> None:
        found = served.server.inventory(epoch=before.epoch, since=before.number, wait_ms=60_000)
        told.append(found.number)

    waiter = threading.Thread(target=wait)
    waiter.start()
    served.server.assign(segments, fence=1, number=0)
    waiter.join(60)
    assert told
    assert told[0] > before.number
    assert not served.server.inventory(
        epoch=before.epoch, since=settled(served.server).number, wait_ms=1
    ).holdings


def test_a_coordinator_of_the_past_is_refused(served: Served) -> None:
    segments = write_hours(served.storage, 1)
    served.server.assign([], fence=5, number=0)
    with pytest.raises(Revoked, match="fence 5 leads") as caught:
        served.server.assign(segments, fence=4, number=0)
    assert caught.value.ids == {"fence": 4, "leading": 5}
    with pytest.raises(Revoked):
        served.server.unassign([], fence=4, number=0)


def test_an_order_that_was_overtaken_changes_nothing(served: Served) -> None:
    segments = write_hours(served.storage, 2)
    ids = [one.segment_id for one in segments]
    served.server.assign(segments, fence=1, number=2)
    served.server.assign(segments, fence=1, number=4)  # has nothing to change, and counts
    with pytest.raises(Conflict, match="after order 4"):
        served.server.unassign(ids, fence=1, number=3)
    assert sorted(states(served.server.inventory())) == sorted(ids)
    served.server.unassign(ids, fence=1, number=5)
    served.server.unassign(ids, fence=1, number=5)
    with pytest.raises(Conflict, match="decide anew"):
        served.server.assign(segments, fence=1, number=4)
    assert not states(served.server.inventory())
    served.server.assign(segments, fence=2, number=1)
    assert sorted(states(served.server.inventory())) == sorted(ids)


def test_answers_come_with_a_report(served: Served) -> None:
    segments = write_hours(served.storage, 4, rows=3000)
    served.server.assign(segments[:1], fence=1, number=0)
    settled(served.server)
    rows, report = rows_of(served.server, request_of(segments, "SELECT n FROM v ORDER BY n"))
    assert [row["n"] for row in rows] == list(range(12_000))
    assert (report.rows, report.cold, report.is_whole, report.missing) == (12_000, 3, True, {})
    assert sorted(report.slices) == sorted((one.segment_id, None) for one in segments)
    assert report.server_id == served.historical.server_id


def test_clips_arrive_and_come_back(served: Served) -> None:
    segments = write_hours(served.storage, 2)
    start_ms = segments[0].min_time_ms
    clip = IntervalSet(
        (Interval(start_ms, start_ms + 1000), Interval(start_ms + 3000, start_ms + 5000))
    )
    rows, report = rows_of(served.server, request_of(segments, clip=clip))
    assert rows == [{"rows": 3, "total": 7}]
    assert {one for _, one in report.slices} == {clip}


def test_an_answer_without_rows_has_columns(served: Served) -> None:
    segments = write_hours(served.storage, 1)
    batches, report = served.server.run(request_of(segments, "SELECT n, word FROM v WHERE n < 0"))
    (batch,) = batches
    assert (batch.num_rows, batch.schema.names) == (0, ["n", "word"])  # type: ignore[attr-defined]
    assert report.is_whole


def test_columns_of_one_name_are_told_apart_by_their_place(served: Served) -> None:
    segments = write_hours(served.storage, 1)
    (batch,), _ = served.server.run(request_of(segments, "SELECT min(n) a, max(n) a FROM v"))
    assert [column.to_pylist() for column in batch.columns] == [[0], [9]]  # type: ignore[attr-defined]


def test_small_tables_go_along(served: Served) -> None:
    import pyarrow as pa

    segments = write_hours(served.storage, 1)
    names = pa.table({"k": ["w0", "w1"], "v": ["zero", "one"]})
    sql = "SELECT t.v, count(*) AS c FROM v JOIN names t ON v.word = t.k GROUP BY 1 ORDER BY 1"
    rows, _ = rows_of(served.server, request_of(segments, sql, tables={"names": names}))
    assert rows == [{"v": "one", "c": 3}, {"v": "zero", "c": 4}]


def test_missing_segments_are_errors_or_reported(served: Served) -> None:
    segments = write_hours(served.storage, 3)
    without_file(served.storage, segments[1])
    with pytest.raises(CarnacError) as caught:
        rows_of(served.server, request_of(segments))
    assert type(caught.value) in {NotFound, Corrupt}
    assert segments[1].segment_id in caught.value.message
    rows, report = rows_of(served.server, request_of(segments, skips_missing=True))
    assert rows[0]["rows"] == 20
    assert list(report.missing) == [segments[1].segment_id]
    assert segments[1].segment_id not in dict(report.slices)


def test_what_is_wrong_with_a_request_is_told(served: Served) -> None:
    segments = write_hours(served.storage, 1)
    with pytest.raises(Invalid, match="each segment once") as caught:
        rows_of(served.server, request_of([*segments, *segments]))
    assert type(caught.value) is Invalid


def test_a_query_is_cancelled_by_its_id(served: Served) -> None:
    segments = write_hours(served.storage, 2, rows=3000)
    served.engine.gate.clear()
    errors: list[CarnacError] = []

    def run() -> None:
        try:
            rows_of(served.server, request_of(segments, "SELECT n FROM v", query_id="mine"))
        except CarnacError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: served.engine.running, "the statement running")
    served.server.cancel("nobody's")
    assert served.server.inventory().running == 1
    served.server.cancel("mine")
    served.server.cancel("mine")
    thread.join(60)
    assert [type(one) for one in errors] == [Cancelled]
    until(lambda: not served.server.inventory().running, "the end of the statement")


def test_an_answer_that_is_closed_early_ends_at_the_server(served: Served) -> None:
    """Both have gigabytes: how much is on its way between two ends grows with how slowly they are served."""
    segments = write_hours(served.storage, 2, rows=3000)
    wide = "SELECT n, repeat('x', 10000) AS wide FROM v, range(100)"
    request = request_of(segments, wide, query_id="q")
    batches, report = served.server.run(request)
    others, _ = served.server.run(request)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    until(lambda: served.historical.running == 1, "the end of the statement")
    assert not report.is_whole
    assert all(next(others).num_rows for _ in range(8))  # type: ignore[attr-defined]
    others.close()  # type: ignore[attr-defined]
    until(lambda: served.historical.running == 0, "the end of the other one")


def test_draining_refuses_what_is_new_and_ends_what_runs(served: Served) -> None:
    segments = write_hours(served.storage, 2, rows=3000)
    batches, report = served.server.run(request_of(segments, "SELECT n FROM v"))
    served.historical.drain()
    with pytest.raises(Unavailable, match="ask another one") as caught:
        served.server.run(request_of(segments))
    assert caught.value.retryable
    assert caught.value.ids == {"server_id": served.historical.server_id}
    with pytest.raises(Unavailable):
        served.server.assign(segments, fence=1, number=0)
    assert sum(batch.num_rows for batch in batches) == 6000  # type: ignore[attr-defined]
    assert report.is_whole
    assert served.historical.wait_until_idle(10_000)


@pytest.mark.slow
def test_too_many_statements_at_a_time_are_refused(served: Served) -> None:
    segments = write_hours(served.storage, 1)
    served.engine.gate.clear()
    found: list[int] = []

    def ask() -> None:
        found.append(rows_of(served.server, request_of(segments))[0][0]["rows"])

    threads = [threading.Thread(target=ask) for _ in range(LEAVES_MAX)]
    for thread in threads:
        thread.start()
    until(lambda: served.historical.running == LEAVES_MAX, "all statements running")
    with pytest.raises(Busy, match="at a time") as caught:
        served.server.run(request_of(segments))
    assert caught.value.retry_after_s >= 1
    served.engine.gate.set()
    for thread in threads:
        thread.join(120)
    assert found == [10] * LEAVES_MAX
    until(lambda: not served.historical.running, "the end of the statements")
    ask()


@pytest.mark.slow
def test_many_threads_share_a_server(served: Served) -> None:
    segments = write_hours(served.storage, 8)
    wrong: list[object] = []

    def ask(number: int) -> None:
        for hour in range(8):
            some = segments[: 1 + (hour + number) % 8]
            found, report = rows_of(served.server, request_of(some))
            if found != [{"rows": 10 * len(some), "total": sum(range(10 * len(some)))}]:
                wrong.append(found)
            if len(report.slices) != len(some):
                wrong.append(report)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for fence, segment in enumerate(segments * 2):
        served.server.assign([segment], fence=fence, number=0)
        served.server.unassign([segments[fence % 3].segment_id], fence=fence, number=0)
    for thread in threads:
        thread.join(120)
    assert wrong == []
    assert served.historical.wait_until_idle(10_000)
