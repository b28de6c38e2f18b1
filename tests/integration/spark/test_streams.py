"""Streams that go on from the log: each row of the source once, wherever they were ended."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions

import carnac
from carnac import AllRejected, Conflict, Invalid, OffsetRange
from carnac.clock import RandomIds, SystemClock
from carnac.core.log.positions import Move, check_tiling
from carnac.ports import DeepStorage
from carnac.spark.session import SparkHolder
from carnac.spark.streams import Stream
from carnac.store import Store
from tests.integration.spark.conftest import SharedSpark
from tests.support.counting import SPEC, START_S, Counting
from tests.support.stores import open_local_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

STEP = 5
PATIENCE_MS = 120_000
SOURCE = "0 rate-micro-batch"
CHILD = Path(__file__).with_name("stream_child.py")
POINTS = ("before write", "before publish", "after publish")


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    return rate(spark)


def rate(spark: SparkSession, step: int = STEP) -> DataFrame:
    """Return numbers from 0 on, so many in a batch; its offsets are whole."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", step)
    source = source.option("numPartitions", 2).option("startTimestamp", 1_700_000_000_000)
    return source.load().selectExpr("unix_timestamp(timestamp) AS at", "value AS n")


def run_to(stream: Stream, store: Store, revision: int) -> None:
    """Let a stream run until the store has a revision, and stop it."""
    ends = time.monotonic() + PATIENCE_MS / 1000
    with stream:
        while store.head().revision < revision:
            if stream.wait(timeout_ms=20):
                raise AssertionError("the stream has ended")
            assert time.monotonic() < ends


def counted(store: Store) -> list[int]:
    return [row["n"] for row in store.sql("SELECT n FROM counted ORDER BY n").rows()]


def assert_exact(store: Store, step: int = STEP) -> None:
    """What was read is there once, and the offset ranges of the log tile."""
    found = counted(store)
    assert found == list(range(len(found)))
    assert len(found) % step == 0
    moves = [
        Move(one.revision, one.writer, one.after, one.offsets)
        for one in store.changes(after=0)
        if one.writer is not None
    ]
    check_tiling(moves)
    assert moves[-1].end == store.position("w")
    assert store.check() == ()


def test_a_stream_goes_on_from_the_log(spark_store: Store, numbers: DataFrame) -> None:
    for revision in (2, 3, 6):
        run_to(spark_store.stream(SPEC, numbers, writer="w"), spark_store, revision)
        assert_exact(spark_store)
    assert len(counted(spark_store)) >= 6 * STEP
    assert list(spark_store.position("w")) == [SOURCE]


@pytest.mark.parametrize("point", POINTS)
def test_a_batch_that_breaks_off_is_there_once(
    spark_store: Store, numbers: DataFrame, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_to(spark_store.stream(SPEC, numbers, writer="w"), spark_store, 1)
    owner: Any = spark_store if point != "before publish" else spark_store._metadata
    name = "ingest" if point != "before publish" else "publish"
    done = getattr(owner, name)

    def breaking(*given: Any, **named: Any) -> Any:
        if point == "after publish":
            done(*given, **named)
        raise Invalid("broken off")

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, breaking)
        stream = spark_store.stream(SPEC, numbers, writer="w")
        with stream, pytest.raises(Invalid, match=r"^broken off$"):
            stream.wait(timeout_ms=PATIENCE_MS)
    before = spark_store.head().revision
    run_to(spark_store.stream(SPEC, numbers, writer="w"), spark_store, before + 2)
    assert_exact(spark_store)


def test_of_two_streams_of_one_name_one_is_refused(spark_store: Store, numbers: DataFrame) -> None:
    with (
        spark_store.stream(SPEC, numbers, writer="w") as first,
        spark_store.stream(SPEC, numbers, writer="w") as second,
    ):
        ended: list[str] = []
        ends = time.monotonic() + PATIENCE_MS / 1000
        while not ended:
            assert time.monotonic() < ends
            for one in (first, second):
                try:
                    one.wait(timeout_ms=50)
                except Conflict as error:
                    ended.append(error.message)
        after = spark_store.head().revision
        if len(ended) == 1:  # the other one goes on
            while spark_store.head().revision == after:
                assert time.monotonic() < ends
                time.sleep(0.05)
    assert "'w'" in ended[0]
    assert "nothing was published" in ended[0]
    assert_exact(spark_store)


def test_a_stream_whose_position_is_moved_ends(spark_store: Store, numbers: DataFrame) -> None:
    with spark_store.stream(SPEC, numbers, writer="w") as stream:
        while not spark_store.position("w"):
            time.sleep(0.05)
        moved = False
        while not moved:
            start = spark_store.position("w")
            try:
                far = OffsetRange(
                    writer="w", start=start, end={SOURCE: '{"offset":0,"timestamp":0}'}
                )
                spark_store.move_position(far)
                moved = True
            except Conflict:
                continue
        with pytest.raises(Conflict, match="moved writer 'w' in '0 rate-micro-batch' from"):
            stream.wait(timeout_ms=PATIENCE_MS)
        assert not stream.is_active


def test_batches_without_rows_move_the_position(spark_store: Store, numbers: DataFrame) -> None:
    late = numbers.where(f"n >= {2 * STEP}")
    run_to(spark_store.stream(SPEC, late, writer="w"), spark_store, 3)
    log = spark_store.changes(after=0)[:3]
    assert [sum(len(change.segments) for change in one.changes) > 0 for one in log] == [
        False,
        False,
        True,
    ]
    assert counted(spark_store)[0] == 2 * STEP
    assert spark_store.check() == ()


def test_a_datasource_needs_no_spec(spark_store: Store, numbers: DataFrame) -> None:
    """The first batch with rows shows what they are; those before it have none."""
    late = numbers.where(f"n >= {STEP}").withColumnRenamed("at", "time")
    for revision in (3, 4):
        stream = spark_store.stream("counted", late, writer="w", time="time")
        assert repr(stream) == "<Stream: writer w, not stopped>"
        run_to(stream, spark_store, revision)
        assert repr(stream) == "<Stream: writer w, ended>"
    found = counted(spark_store)
    assert found == list(range(STEP, STEP + len(found)))
    assert spark_store.check() == ()


def test_two_sources_have_a_position_each(spark_store: Store, spark: SparkSession) -> None:
    both = rate(spark).union(rate(spark, 3).selectExpr("at", "-1 - n"))
    for revision in (2, 4):
        run_to(spark_store.stream(SPEC, both, writer="w"), spark_store, revision)
    assert list(spark_store.position("w")) == [SOURCE, "1 rate-micro-batch"]
    found = counted(spark_store)
    assert found == list(range(found[0], found[-1] + 1))
    assert len(found) == (found[-1] + 1) * (STEP + 3) // STEP
    twice = rate(spark)
    with pytest.raises(Invalid, match="and this stream reads '0 rate-micro-batch'; stream under"):
        spark_store.stream(SPEC, twice, writer="w")


def test_a_source_may_come_to_a_stream_at_its_end(spark_store: Store, spark: SparkSession) -> None:
    run_to(spark_store.stream(SPEC, rate(spark), writer="w"), spark_store, 2)
    both = rate(spark).union(rate(spark, 3).selectExpr("at", "-1 - n"))
    run_to(spark_store.stream(SPEC, both, writer="w"), spark_store, 4)
    found = counted(spark_store)
    assert found == list(range(found[0], found[-1] + 1))
    assert spark_store.position("w").keys() == {SOURCE, "1 rate-micro-batch"}
    assert found[0] < -1


def test_one_source_that_is_read_twice_has_two_positions(
    spark_store: Store, numbers: DataFrame
) -> None:
    both = numbers.union(numbers.selectExpr("at", "-1 - n"))
    run_to(spark_store.stream(SPEC, both, writer="w"), spark_store, 2)
    found = counted(spark_store)
    assert found == list(range(-len(found) // 2, len(found) // 2))
    assert len(set(spark_store.position("w").values())) == 1


def test_a_forgotten_position_begins_anew(spark_store: Store, numbers: DataFrame) -> None:
    run_to(spark_store.stream(SPEC, numbers, writer="w"), spark_store, 1)
    start = spark_store.position("w")
    spark_store.move_position(OffsetRange(writer="w", start=start, end=dict.fromkeys(start, "")))
    last = spark_store.head().revision
    run_to(spark_store.stream(SPEC, numbers, writer="w"), spark_store, last + 1)
    assert counted(spark_store)[:2] == [0, 0]


def test_a_stream_ends_when_it_has_read_what_is_there(
    spark_store: Store, spark: SparkSession
) -> None:
    """And a source written in Python has offsets that are whole."""
    spark.dataSource.register(Counting)
    source = spark.readStream.format("counting").option("step", 4)
    with spark_store.stream(
        SPEC, source.option("last", 9).load(), writer="w", trigger="available-now"
    ) as first:
        assert first.wait(timeout_ms=PATIENCE_MS)
    assert list(spark_store.position("w")) == ["0 counting"]
    with spark_store.stream(SPEC, source.option("last", 13).load(), writer="w") as second:
        while spark_store.position("w") != {"0 counting": '{"n": 13}'}:
            assert not second.wait(timeout_ms=50)
    assert_exact(spark_store, 1)
    assert len(counted(spark_store)) == 13


@pytest.mark.nightly("starts a stream between two stores")
def test_one_store_follows_another(spark_store: Store, spark: SparkSession, tmp_path: Path) -> None:
    by_number = {**SPEC, "timestampSpec": {"column": "__time", "format": "auto"}}
    with carnac.open(tmp_path / "first", create=True) as first:
        for begin in (0, 5):
            rows = [{"at": START_S + number, "n": number} for number in range(begin, begin + 5)]
            first.append("counted", rows, spec=SPEC)
            events = spark.readStream.format("carnac").option("store", str(tmp_path / "first"))
            with spark_store.stream(
                by_number, events.load("counted"), writer="w", trigger="available-now"
            ) as stream:
                assert stream.wait(timeout_ms=PATIENCE_MS)
            assert_exact(spark_store)
    assert len(counted(spark_store)) == 10
    assert list(spark_store.position("w")) == ["0 carnac"]


def test_a_batch_that_nobody_can_read_ends_it_unless_the_spec_allows_that(
    spark_store: Store, numbers: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    bad = numbers.selectExpr(f"IF(n < {STEP}, 'noon', CAST(at AS STRING)) AS at", "n")
    with spark_store.stream(SPEC, bad, writer="w") as stream, pytest.raises(AllRejected):
        stream.wait(timeout_ms=PATIENCE_MS)
    assert spark_store.position("w") == {}
    allowing = {**SPEC, "tuningConfig": {"maxParseExceptions": STEP}}
    run_to(spark_store.stream(allowing, bad, writer="w"), spark_store, 2)
    assert counted(spark_store)[0] == STEP
    assert f"{STEP} of {STEP} rows of counted were rejected; see them with: carnac" in caplog.text


STATEFUL: Mapping[str, Callable[[DataFrame], DataFrame]] = {
    "a deduplication": lambda frame: frame.dropDuplicates(["n"]),
    "an aggregation": lambda frame: frame.groupBy("n").agg(functions.max("at").alias("at")),
    "a join of two streams": lambda frame: frame.join(frame.select("n"), "n"),
    "a limit": lambda frame: frame.limit(3),
}


@pytest.mark.parametrize("what", STATEFUL)
def test_state_is_refused(spark_store: Store, numbers: DataFrame, what: str) -> None:
    with pytest.raises(Invalid, match=f"the stream holds {what}, .* publish it by foreachBatch"):
        spark_store.stream(SPEC, STATEFUL[what](numbers), writer="w")


def test_sources_that_live_in_a_checkpoint_are_refused(
    spark_store: Store, spark: SparkSession, tmp_path: Path
) -> None:
    for frame in (
        spark.readStream.text(str(tmp_path)),
        spark.readStream.format("rate").load(),
        spark.readStream.format("socket").option("host", "localhost").option("port", 1).load(),
    ):
        with pytest.raises(Invalid, match="no position in the log says where to go on; publish it"):
            spark_store.stream("counted", frame, writer="w")
    with pytest.raises(Invalid, match="ingest takes others"):
        spark_store.stream("counted", spark.range(3), writer="w")


def test_a_static_side_with_an_aggregation_is_no_state(
    spark_store: Store, numbers: DataFrame, spark: SparkSession
) -> None:
    known = spark.range(1000).groupBy("id").count().withColumnRenamed("id", "n")
    run_to(spark_store.stream(SPEC, numbers.join(known, "n"), writer="w"), spark_store, 1)
    assert_exact(spark_store)


def test_specs_that_are_not_for_streams(spark_store: Store, numbers: DataFrame) -> None:
    with pytest.raises(Invalid, match="leave both out"):
        spark_store.stream({**SPEC, "writer": "w", "batch": "1"}, numbers, writer="w")
    with pytest.raises(Invalid, match="a stream appends"):
        spark_store.stream({**SPEC, "mode": "replace"}, numbers, writer="w")
    with pytest.raises(Invalid, match="the name of a writer"):
        spark_store.stream(SPEC, numbers, writer="\n")
    with pytest.raises(Invalid, match="trigger"):
        spark_store.stream(SPEC, numbers, writer="w", trigger="now and then")
    assert spark_store.head().revision == 0


def test_a_store_that_is_closed_ends_its_streams(
    places: Callable[[], Store], numbers: DataFrame
) -> None:
    with places() as store:
        stream = store.stream(SPEC, numbers, writer="w")
        while not store.position("w"):
            assert not stream.wait(timeout_ms=50)
    assert not stream.is_active
    assert stream.wait()
    with places() as store:
        assert_exact(store)


@pytest.fixture
def places(tmp_path: Path, spark_holder: SparkHolder) -> Callable[[], Store]:
    """Open the store of a folder, on the one Spark of the run."""
    clock, new_ids = SystemClock(), RandomIds()

    def make(storage: DeepStorage) -> SharedSpark:
        url = Path(str(storage.local_path("x"))).parent.as_uri()
        return SharedSpark(output_url=url, clock=clock, ids=new_ids, spark=spark_holder)

    return lambda: open_local_store(tmp_path, clock=clock, ids=new_ids, pipeline=make)


def kill_driver(folder: Path, point: str, batch: int) -> None:
    """Let a process stream into the store, and end it in a batch; `random`: at any moment after its start."""
    command = [sys.executable, str(CHILD), str(folder), point, str(batch)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        if point == "random":
            assert child.stdout is not None
            assert child.stdout.readline() == "streaming\n"
            time.sleep(random.Random(batch).uniform(0, 12))
            child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL, os.environ.get("TMPDIR", "")


def finish(store: Store, spark: SparkSession) -> None:
    """Read the rest of the source, in this process."""
    spark.dataSource.register(Counting)
    source = spark.readStream.format("counting").option("step", 4).option("last", 25).load()
    with store.stream(SPEC, source, writer="w") as stream:
        while store.position("w") != {"0 counting": '{"n": 25}'}:
            assert not stream.wait(timeout_ms=50)
    assert_exact(store, 1)
    assert len(counted(store)) == 25


@pytest.mark.slow
@pytest.mark.nightly("starts Spark for each death")
@pytest.mark.parametrize("point", [*POINTS, "random"])
def test_a_driver_that_is_killed_stores_each_row_once(
    tmp_path: Path, places: Callable[[], Store], spark: SparkSession, point: str
) -> None:
    for batch in range(1, 5 if point == "random" else 3):
        kill_driver(tmp_path, point, batch)
    with places() as store:
        finish(store, spark)
