"""The format `carnac` in a Spark session: what Spark makes of readers and writers that are tested without it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from carnac.core.log.commits import CommitKind
from carnac.store import Store
from tests.support.spark_format import place_of, rows, sql_rows
from tests.unit.spark_format.histories import START, random_history, random_interval

pytestmark = pytest.mark.spark
LINES_MAX = 6
"""Of what Spark says of a mistake."""


@pytest.fixture(autouse=True)
def utc(spark: SparkSession) -> Iterator[None]:
    """Have times shown as they are compared."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def reader(spark: SparkSession, store: Store, **options: object) -> Any:
    return spark.read.format("carnac").options(store=place_of(store), **options)  # type: ignore[arg-type]


def writer(frame: DataFrame, store: Store, **options: object) -> Any:
    return frame.write.format("carnac").options(store=place_of(store), **options)  # type: ignore[arg-type]


def collected(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def events(spark: SparkSession, count: int, *, parts: int = 3) -> DataFrame:
    """Return rows with times of several days."""
    hours = F.make_dt_interval(hours=F.col("id").cast("int") % 100)
    return spark.range(0, count, 1, parts).select(
        (F.lit(START).cast("timestamp") + hours).alias("t"),
        F.col("id").alias("n"),
        F.concat(F.lit("k"), F.col("id") % 3).alias("k"),
        F.array(F.lit("x"), F.lit("y")).alias("tags"),
    )


LONG = pytest.mark.nightly("runs a dozen jobs for each history")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=LONG) for seed in range(1, 6))])
def test_a_frame_is_that_of_read_spark(spark: SparkSession, spark_store: Store, seed: int) -> None:
    rng = random.Random(seed)
    random_history(spark_store, rng, 6)
    head = spark_store.head().revision
    for at in {rng.randint(1, head), head}:
        within = random_interval(rng)
        for options in ({}, {"interval": within}):
            own = spark_store.read_spark("events", at=at, **options)
            found = reader(spark, spark_store, at=at, **options).load("events")
            assert found.schema == own.schema
            assert collected(found) == collected(own)


def test_a_frame_may_have_no_rows(spark: SparkSession, spark_store: Store) -> None:
    spark_store.append("events", pa.table({"t": [START], "n": [1]}))
    frame = reader(spark, spark_store, interval="2030-01-01/P1D").load("events")
    assert frame.collect() == []
    writer(frame, spark_store).mode("append").save("others")
    assert len(spark_store.log()) == 1


def test_a_frame_has_all_its_rows_after_some_were_asked_for(
    spark: SparkSession, spark_store: Store
) -> None:
    times = [START + timedelta(hours=hour) for hour in range(72)]
    spark_store.append("events", pa.table({"t": times, "k": [f"k{i % 2}" for i in range(72)]}))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = reader(spark, spark_store).load("events")
        assert frame.where(F.col("k") == "k1").count() == 36
        assert frame.count() == 72
        assert frame.where("k = 'k0'").unionByName(frame.where("k = 'k1'")).count() == 72
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_frame_is_written_as_it_is_ingested(spark: SparkSession, spark_store: Store) -> None:
    frame = events(spark, 500)
    writer(frame, spark_store).mode("append").save("written")
    spark_store.ingest("ingested", frame)
    assert spark_store.columns("written") == spark_store.columns("ingested")
    assert rows(sql_rows(spark_store, "written")) == rows(sql_rows(spark_store, "ingested"))
    (commit,) = spark_store.log(datasource="written")
    assert commit.kind is CommitKind.APPEND
    writer(frame.limit(1).withColumn("n", F.lit(-1)), spark_store).mode("overwrite").save("written")
    found = reader(spark, spark_store).load("written")
    assert found.where("n < 0").count() == 1
    assert found.where(f"__time < '{(START + timedelta(days=1)).date()}'").count() == 1
    assert found.count() == spark_store.sql("SELECT count(*) AS n FROM written").rows()[0]["n"]


def test_in_sql_a_datasource_is_a_view_and_no_table(
    spark: SparkSession, spark_store: Store
) -> None:
    writer(events(spark, 10), spark_store).mode("append").save("events")
    place = f"USING carnac OPTIONS (store '{place_of(spark_store)}', path 'events')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW shown {place}")
    assert spark.sql("SELECT count(*) FROM shown WHERE n > 4").collect()[0][0] == 5
    with pytest.raises(Exception, match="make a view: CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE kept {place}")


def test_a_task_that_fails_leaves_nothing(spark: SparkSession, spark_store: Store) -> None:
    broken = events(spark, 100).withColumn(
        "n", F.when(F.col("n") == 90, F.raise_error(F.lit("no more"))).otherwise(F.col("n"))
    )
    with pytest.raises(Exception, match="no more"):
        writer(broken, spark_store).mode("append").save("events")
    assert spark_store.log() == ()
    assert [one for one in spark_store.leases() if "format carnac" in one.holder] == []


def test_mistakes_are_told_in_a_few_lines(spark: SparkSession, spark_store: Store) -> None:
    frame = events(spark, 10)
    writer(frame, spark_store).mode("append").save("events")
    attempts = {
        "no datasource 'event'": lambda: reader(spark, spark_store).load("event"),
        "did you mean 'at'": lambda: reader(spark, spark_store, aat=1).load("events"),
        "leave out .schema": lambda: (
            reader(spark, spark_store).schema("n long").load("events").count()
        ),
        "name the datasource": lambda: reader(spark, spark_store).load(),
        "go together": lambda: writer(frame, spark_store, writer="w").mode("append").save("events"),
        '"ErrorIfExists" mode': lambda: writer(frame, spark_store).save("events"),
        "Spark's type variant": lambda: (
            writer(frame.withColumn("v", F.expr("parse_json('1')")), spark_store)
            .mode("append")
            .save("events")
        ),
        "would break": lambda: (
            writer(
                frame.withColumn("n", F.lit("x")),
                spark_store,
                spec='{"timestampSpec": {"column": "t"}, "dimensionsSpec": {"dimensions": ["n"]}}',
            )
            .mode("append")
            .save("events")
        ),
    }
    for sentence, attempt in attempts.items():
        with pytest.raises((AnalysisException, PythonException, Exception)) as caught:  # type: ignore[arg-type]
            attempt()
        message = str(caught.value)
        assert sentence in message
        assert len([line for line in message.splitlines() if "SQLSTATE" not in line]) <= LINES_MAX


@pytest.mark.nightly("starts two queries more; following is tested without Spark by day")
def test_a_stream_goes_on_where_its_checkpoint_ended(
    spark: SparkSession, spark_store: Store, tmp_path: Any
) -> None:
    folder = tmp_path / "input"
    folder.mkdir()

    def run(checkpoint: str, **options: str) -> None:
        frame = spark.readStream.schema("t timestamp, n long").parquet(str(folder))
        query = (
            frame.writeStream.format("carnac")
            .options(store=place_of(spark_store), **options)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start("events")
        )
        query.awaitTermination()

    for number in range(2):
        times = [START + timedelta(hours=hour) for hour in range(20)]
        table = [Row(t=time, n=number * 20 + place) for place, time in enumerate(times)]
        spark.createDataFrame(table).coalesce(1).write.mode("append").parquet(str(folder))
        run("one", writer="clicks")
    run("one", writer="clicks")
    assert [one.batch for one in spark_store.log()] == ["1", "0"]
    total = {"c": 40, "s": 39 * 20}
    counts = "SELECT count(*) AS c, sum(n) AS s FROM events"
    assert spark_store.sql(counts).rows() == [total]
    with pytest.raises(Exception, match="writer 'clicks' is that of the query"):
        run("two", writer="clicks")
    with pytest.raises(Exception, match="needs option writer"):
        run("three")
    assert spark_store.sql(counts).rows() == [total]


@pytest.mark.nightly("starts its query four times; following is tested without Spark by day")
def test_a_stream_gives_each_row_once_over_restarts(
    spark: SparkSession, spark_store: Store, tmp_path: Any
) -> None:
    given: list[int] = []
    appended: list[int] = []

    def append() -> None:
        numbers = range(len(appended), len(appended) + 30)
        appended.extend(numbers)
        times = [START + timedelta(hours=number % 48) for number in numbers]
        spark_store.append("events", pa.table({"t": times, "n": pa.array(numbers, pa.int64())}))

    def run(**options: object) -> None:
        frame = (
            spark.readStream.format("carnac")
            .options(store=place_of(spark_store), **options)  # type: ignore[arg-type]
            .load("events")
        )
        query = (
            frame.writeStream.foreachBatch(
                lambda batch, _: given.extend(row["n"] for row in batch.collect())
            )
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    append()
    run()
    assert sorted(given) == appended
    append()
    spark_store.compact_interval("events")
    append()
    run(maxRowsPerTrigger=30)
    assert sorted(given) == appended
    run()
    spark_store.delete("events", interval="2024-01-01/PT1H")
    append()
    with pytest.raises(Exception, match="takes back rows of events"):
        run()
    run(changes="skip")
    assert sorted(given) == appended


@pytest.mark.nightly("starts two queries more")
def test_a_stream_goes_from_one_datasource_to_another(
    spark: SparkSession, spark_store: Store, tmp_path: Any
) -> None:
    place = place_of(spark_store)
    times = [START + timedelta(hours=number) for number in range(40)]
    spark_store.append("events", pa.table({"t": times, "n": list(range(40))}))
    for _ in range(2):
        frame = spark.readStream.format("carnac").option("store", place).load("events")
        query = (
            frame.where("n % 2 = 0")
            .writeStream.format("carnac")
            .options(store=place, writer="evens", time="__time")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start("evens")
        )
        query.awaitTermination()
    found = spark_store.sql("SELECT count(*) AS c, sum(n) AS s FROM evens").rows()
    assert found == [{"c": 20, "s": 380}]
