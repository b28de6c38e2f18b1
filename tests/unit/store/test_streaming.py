"""A stream read into a store: every message is a row once, or in quarantine, whatever ends the reading."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import carnac
from carnac import OffsetRange, Store
from carnac.clock import SystemClock
from carnac.errors import Conflict, Invalid, NotFound, Revoked, Unavailable
from carnac.ports import Clock, JobProgress, StreamProgress
from carnac.rows.read.inputs import ResolvedInput
from carnac.rows.read.message_ranges import MessageRange
from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.supervisors.kafka import load_supervisor
from carnac.store.streaming.reading import Counts, StreamReading
from tests.support.clock import ClockSetBack, FakeClock
from tests.support.kafka import KEPT_BYTES, PARTITIONS, TOPIC, Broker, row, spec_for

Until = Callable[[Mapping[str, int]], bool]


class Enough(Exception):
    """What a test waits for has come."""


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with carnac.open(tmp_path / "store", create=True) as opened:
        yield opened


def read(
    store: Store,
    spec: Mapping[str, Any],
    until: Until = lambda _: False,
    *,
    group: int = 0,
    clock: Clock | None = None,
) -> Counts:
    """Read until counts are as they are waited for, or the task's time is over; return the counts."""

    def look(progress: JobProgress) -> None:
        assert isinstance(progress, StreamProgress)
        if until(progress.counts):
            raise Enough

    reading = StreamReading(
        store,
        load_supervisor(spec),
        group,
        clock or SystemClock(),
        guard=None,
        on_progress=look,
        message="test",
    )
    with suppress(Enough):
        reading.run()
    return reading.counts


def rows(count: int) -> Until:
    return lambda counts: counts["processed"] >= count


def ids(store: Store) -> list[int]:
    return [one["id"] for one in store.sql(f"SELECT id FROM {TOPIC} ORDER BY id").rows()]


def test_every_message_is_a_row_and_a_second_task_goes_on_where_the_first_was(
    store: Store, broker: Broker
) -> None:
    broker.write_ids(range(100))
    spec = spec_for(broker.address)
    assert read(store, spec, rows(100)).processed == 100
    broker.write_ids(range(100, 150))
    counts = read(store, spec, rows(50))
    assert (counts.processed, counts.unparseable, counts.lost) == (50, 0, 0)
    assert ids(store) == list(range(150))
    reached = {"clicks/0": "38", "clicks/1": "38", "clicks/2": "37", "clicks/3": "37"}
    assert store.position(TOPIC) == reached
    assert store.check() == ()


@pytest.mark.slow
def test_the_end_of_a_task_publishes_what_it_has(store: Store, broker: Broker) -> None:
    broker.write_ids(range(10))
    spec = spec_for(
        broker.address, io={"taskDuration": "PT1S"}, tuning={"intermediateHandoffPeriod": "PT1H"}
    )
    assert read(store, spec).processed == 10
    assert ids(store) == list(range(10))


@pytest.mark.slow
def test_what_comes_after_a_publication_waits_for_a_period(store: Store, broker: Broker) -> None:
    broker.write_ids(range(10))
    clock, seen = FakeClock(), list[int]()

    def until(counts: Mapping[str, int]) -> bool:
        done = counts["processed"]
        if done and not any(seen):
            broker.write_ids(range(10, 20))
        seen.append(done)
        if done and seen.count(done) == 5:
            clock.advance_ms(3_600_000)
        return done == 20

    io, tuning = {"taskDuration": "P1D"}, {"intermediateHandoffPeriod": "PT1H"}
    read(store, spec_for(broker.address, io=io, tuning=tuning), until, clock=clock)
    assert ids(store) == list(range(20))
    assert all(seen.count(done) >= 5 for done in {*seen} - {0, 20})


def test_a_clock_that_is_set_back_stops_no_stream(store: Store, broker: Broker) -> None:
    broker.write_ids(range(10))
    clock, looks = ClockSetBack(), 0

    def until(counts: Mapping[str, int]) -> bool:
        nonlocal looks
        looks += 1
        assert looks < 100, "the stream publishes nothing"
        if counts["processed"] == 10 and not clock.back_ms:
            clock.back_ms = 3_600_000
            broker.write_ids(range(10, 20))
        return counts["processed"] == 20

    assert read(store, spec_for(broker.address), until, clock=clock).processed == 20
    assert ids(store) == list(range(20))


def test_what_cannot_be_read_is_in_quarantine_and_nulls_are_counted(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    values = [row(1), "broken", None, b"\xff", row(2), '{"id": 3}', ""]
    broker.write(values, partition=2)
    counts = read(
        store, spec_for(broker.address), lambda _: store.position(TOPIC).get("clicks/2") == "7"
    )
    assert (counts.processed, counts.unparseable, counts.nulls) == (2, 3, 1)
    files = tmp_path.glob(f"store/**/quarantine/{TOPIC}/*/*.parquet")  # one for each publication
    found = [one for file in files for one in pq.read_table(file).to_pylist()]
    assert sorted((one["file"], one["byte_offset"]) for one in found) == [
        ("kafka:clicks/2", 1),
        ("kafka:clicks/2", 3),
        ("kafka:clicks/2", 5),
    ]


def test_messages_that_are_all_unreadable_are_passed(store: Store, broker: Broker) -> None:
    broker.write(["x", "y"])
    counts = read(store, spec_for(broker.address), lambda found: found["unparseable"] >= 2)
    assert counts.unparseable == 2
    assert store.position(TOPIC)["clicks/0"] == "2"
    broker.write([row(1)])
    read(store, spec_for(broker.address), rows(1))
    assert ids(store) == [1]


@pytest.mark.slow
def test_more_unreadable_messages_than_may_be_stop_the_task_before_them(
    store: Store, broker: Broker
) -> None:
    broker.write([row(1), "x"])
    spec = spec_for(broker.address, tuning={"maxParseExceptions": 1})
    assert read(store, spec, lambda found: found["unparseable"] >= 1).processed == 1
    broker.write([row(2), "y", "z"])
    with pytest.raises(Invalid, match="2 messages could not be read and maxParseExceptions allow"):
        read(store, spec)
    assert int(store.position(TOPIC)["clicks/0"]) < 5
    spec = spec_for(broker.address)
    read(store, spec, lambda _: store.position(TOPIC)["clicks/0"] == "5")
    assert ids(store) == [1, 2]


@pytest.mark.slow
def test_unreadable_messages_of_all_publications_of_a_task_count_together(
    store: Store, broker: Broker
) -> None:
    broker.write([row(1), "x"])
    told: list[int] = []

    def until(counts: Mapping[str, int]) -> bool:
        told.append(counts["unparseable"])
        if told.count(1) == 1:
            broker.write([row(2), "y"])
        return told[-1] > 1

    spec = spec_for(broker.address, tuning={"maxParseExceptions": 1})
    with pytest.raises(Invalid, match="2 messages could not be read and maxParseExceptions allows"):
        read(store, spec, until)
    assert ids(store) in ([1], [1, 2])  # a poll may come between the row and the text behind it


def test_a_stream_begins_at_the_end_if_it_is_told_to_and_that_is_written_down(
    store: Store, broker: Broker
) -> None:
    broker.write_ids(range(8))
    spec = spec_for(broker.address, io={"useEarliestOffset": False})
    read(store, spec, lambda _: True)  # dies before it has read anything
    assert store.position(TOPIC) == {f"clicks/{n}": "2" for n in range(PARTITIONS)}
    broker.write_ids(range(8, 12))
    read(store, spec, rows(4))
    assert ids(store) == [8, 9, 10, 11]


def test_a_supervisor_that_gets_another_topic_begins_there_as_it_is_told(
    store: Store, broker: Broker
) -> None:
    broker.write_ids(range(4))
    read(store, spec_for(broker.address), rows(4))
    broker.write_ids(range(10, 14), topic="views")
    spec = spec_for(broker.address, io={"topic": "views", "useEarliestOffset": False})
    read(store, spec, lambda _: True)
    broker.write_ids(range(14, 18), topic="views")
    read(store, spec, rows(4))
    assert ids(store) == [*range(4), *range(14, 18)]


@pytest.mark.slow
def test_two_under_one_name_double_nothing(store: Store, broker: Broker) -> None:
    """The second to publish some messages is refused, or told that they are there if it has read just as many."""
    broker.write_ids(range(20))
    spec = spec_for(broker.address)
    told: list[int] = []

    def other(counts: Mapping[str, int]) -> bool:
        if counts["processed"] >= 20 and not told:
            broker.write_ids(range(20, 40))
            told.extend((read(store, spec, rows(20)).processed, counts["commits"]))
        return bool(told) and counts["commits"] > told[1]

    refused = "moved writer 'clicks' in 'clicks/"
    try:
        read(store, spec, other)
    except Conflict as error:
        refused = error.message
    assert "moved writer 'clicks' in 'clicks/" in refused
    assert told[0] == 20
    assert ids(store) == list(range(40))


def test_tasks_of_one_supervisor_share_its_partitions(store: Store, broker: Broker) -> None:
    broker.write_ids(range(40))
    spec = spec_for(broker.address, io={"taskCount": 2})
    assert read(store, spec, rows(20), group=0).processed == 20
    assert {one % PARTITIONS for one in ids(store)} == {0, 2}
    assert read(store, spec, rows(20), group=1).processed == 20
    assert ids(store) == list(range(40))


@pytest.mark.slow
def test_messages_that_are_gone_are_an_error_or_counted(store: Store, broker: Broker) -> None:
    broker.write([row(1)])
    spec = spec_for(broker.address)
    read(store, spec, rows(1))
    broker.write(["x" * 10_000] * (2 * KEPT_BYTES // 10_000))
    broker.write([row(2)])
    with pytest.raises(Invalid, match=r"messages of clicks/0, offsets 1 to \d+, are gone"):
        read(store, spec)
    counts = read(
        store, spec_for(broker.address, tuning={"resetOffsetAutomatically": True}), rows(1)
    )
    assert counts.lost > 0
    assert ids(store) == [1, 2]


def test_a_position_that_was_forgotten_reads_all_again(store: Store, broker: Broker) -> None:
    broker.write_ids(range(4))
    read(store, spec_for(broker.address), rows(4))
    held = store.position(TOPIC)
    store.move_position(OffsetRange(writer=TOPIC, start=held, end=dict.fromkeys(held, "")))
    read(store, spec_for(broker.address), rows(4))
    assert ids(store) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_rows_out_of_time_are_thrown_away(store: Store, broker: Broker) -> None:
    broker.write_ids(range(3))
    spec = spec_for(broker.address, io={"lateMessageRejectionPeriod": "P1D"})
    counts = read(store, spec, lambda found: found["thrownAway"] >= 3)
    assert (counts.processed, counts.thrownAway) == (0, 3)
    assert store.position(TOPIC)["clicks/0"] == "1"


def test_key_headers_and_time_of_a_message_are_columns(store: Store, broker: Broker) -> None:
    beside = {"key": b"k", "headers": {"h": b"v"}, "timestamp": 1_400_000_000_000}
    broker.write(['{"id": 1}', None, '{"id": 2}\n {"id":3 } \n'], partition=1, **beside)
    envelope = {
        "type": "kafka",
        "valueFormat": {"type": "json"},
        "headerFormat": {"type": "string"},
        "keyFormat": {"type": "json"},
    }
    spec = spec_for(
        broker.address,
        io={"inputFormat": envelope},
        schema={
            "timestampSpec": {"column": "kafka.timestamp", "format": "millis"},
            "dimensionsSpec": {"dimensions": [
                {"type": "long", "name": "id"}, "kafka.key", "kafka.header.h", "kafka.topic"
            ]},
        },
    )  # fmt: skip
    read(store, spec, rows(4))
    found = store.sql(f"SELECT * FROM {TOPIC} ORDER BY id").rows()
    assert [one["id"] for one in found] == [1, 2, 3, None]
    for one in found:
        assert (one["kafka.key"], one["kafka.header.h"], one["kafka.topic"]) == ("k", "v", TOPIC)


def test_a_stream_takes_the_transforms_and_filters_of_a_batch(store: Store, broker: Broker) -> None:
    broker.write([row(n, page=f"Talk:{n}") for n in range(3)] + [row(9, page="Main")])
    transforms = [
        {"type": "expression", "name": "space", "expression": "regexp_extract(page, '^(.+):', 1)"},
        {"type": "expression", "name": "hour", "expression": "timestamp_floor(__time, 'PT1H')"},
    ]
    kept = {"type": "not", "field": {"type": "null", "column": "space"}}
    dimensions = ["space", {"type": "long", "name": "id"}, {"type": "long", "name": "hour"}]
    schema = {
        "dimensionsSpec": {"dimensions": dimensions},
        "transformSpec": {"transforms": transforms, "filter": kept},
    }
    read(store, spec_for(broker.address, schema=schema), rows(3))
    assert store.sql(f"SELECT space, id, hour FROM {TOPIC} ORDER BY id").rows() == [
        {"space": "Talk", "id": n, "hour": 1_400_000_000_000 // 3_600_000 * 3_600_000}
        for n in range(3)
    ]


def test_csv_messages_are_rows(store: Store, broker: Broker) -> None:
    broker.write(["1400000000000,5", "1400000000001,6,7", "1400000000002,8"])
    spec = spec_for(broker.address, io={"inputFormat": {"type": "csv", "columns": ["t", "id"]}})
    assert read(store, spec, rows(2)).unparseable == 1
    assert ids(store) == [5, 8]


def test_topics_of_a_pattern_are_read_together(store: Store, broker: Broker) -> None:
    for topic in ("a1", "a2", "b1"):
        broker.write([row(1)], topic=topic)
    spec = spec_for(broker.address, io={"topic": None, "topicPattern": "a."})
    read(store, spec, rows(2))
    assert {name for name in store.position(TOPIC) if store.position(TOPIC)[name] == "1"} == {
        "a1/0",
        "a2/0",
    }


def test_a_topic_that_is_not_there_and_a_broker_that_does_not_answer(
    store: Store, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carnac.kafka.client.TIMEOUT_S", 0.2)
    with pytest.raises(Unavailable, match=r"Kafka at 127\.0\.0\.1:1 does not say which topics"):
        read(store, spec_for("127.0.0.1:1"))
    spec = spec_for(broker.address, io={"topic": "nothing"})
    with suppress(NotFound):  # the broker makes topics that are asked for
        read(store, spec, lambda _: True)


@pytest.mark.slow
def test_a_backlog_is_read_in_ranges_and_the_stream_goes_on_behind_it(
    store: Store, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark does is done here by the function that it replaces; `tests/integration/spark` starts a JVM."""
    asked = []

    def ingest(spec: IngestSpec, rows: ResolvedInput, **more: Any) -> Any:
        asked.extend(file.messages for file in rows.files)
        more.pop("on_progress")
        return store.append(spec.datasource, rows, spec=spec, **more)

    monkeypatch.setattr(store, "ingest", ingest)
    monkeypatch.setattr("carnac.store.streaming.reading.PIECE_MESSAGES", 7)
    broker.write_ids(range(100))
    spec = spec_for(broker.address, context={"sparkBacklog": 50})
    counts = read(store, spec, rows(100))
    assert (counts.processed, counts.commits, len(asked)) == (100, 1, 16)
    ranges = [one for one in asked if isinstance(one, MessageRange)]
    again = [offset for one in ranges for block in one.blocks() for offset in block.offsets]
    assert again == [offset for one in ranges for offset in range(one.start, one.end)]
    broker.write_ids(range(100, 110))
    assert read(store, spec, rows(10)).processed == 10
    assert len(asked) == 16
    assert ids(store) == list(range(110))


def test_a_partition_that_holds_nothing_but_nulls_is_passed(store: Store, broker: Broker) -> None:
    broker.write([None, None, None])
    read(store, spec_for(broker.address), lambda found: found["nulls"] >= 3)
    assert store.position(TOPIC)["clicks/0"] == "3"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whatever_ends_a_task_every_message_is_there_once(
    store: Store, broker: Broker, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task is ended before it publishes, after that, or while it reads; the next one begins at the position."""
    rng = random.Random(seed)
    append = store.append

    def dying(*args: Any, **more: Any) -> Any:
        fate = rng.random()
        if fate < 0.3:
            raise Revoked("dies before it publishes")
        done = append(*args, **more)
        if fate < 0.6:
            raise Revoked("dies after it has published")
        return done

    spec = spec_for(broker.address)
    written = 0
    for _ in range(8):
        more = rng.randrange(1, 60)
        broker.write_ids(range(written, written + more))
        written += more
        left = written - sum(int(offset) for offset in store.position(TOPIC).values())
        monkeypatch.setattr(store, "append", dying)
        with suppress(Revoked):
            read(store, spec, rows(rng.randint(1, left)))
        monkeypatch.undo()
    left = written - len(ids(store))
    read(store, spec, rows(left))
    assert ids(store) == list(range(written))
    assert store.check() == ()
