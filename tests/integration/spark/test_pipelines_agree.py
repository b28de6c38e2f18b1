"""The pipeline for tests and the real one give the same rows for the same calls; Spark reads what SQL reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.errors import Conflict, NotFound
from carnac.ports import DeepStorage
from carnac.spark.session import SparkHolder
from carnac.specs.ingest.spec import IngestSpec
from carnac.store import Store
from carnac.store.writing.outcome import WriteOutcome
from tests.integration.spark.conftest import SharedSpark
from tests.support.stores import open_local_store
from tests.unit.store.events import HOUR_MS, START_MS, fast_folder, hour, spec

pytestmark = pytest.mark.spark

DIMENSIONS = [{"name": "id", "type": "long"}, {"name": "color", "type": "string"}]


@pytest.fixture
def local_store() -> Iterator[Store]:
    with (
        fast_folder() as folder,
        open_local_store(Path(folder), clock=SystemClock(), ids=RandomIds()) as store,
    ):
        yield store


def table(*rows: tuple[int | None, int, str | None]) -> pa.Table:
    return pa.table(
        {
            "t": pa.array([at for at, _, _ in rows], pa.int64()),
            "id": pa.array([identity for _, identity, _ in rows], pa.int64()),
            "color": pa.array([color for _, _, color in rows], pa.string()),
        }
    )


def how(**more: Any) -> IngestSpec:
    return spec(dimensionsSpec={"dimensions": DIMENSIONS}, **more)


CALLS: list[tuple[str, Any]] = [
    ("ingest", (how(), table((hour(1), 1, "red"), (hour(25), 2, None), (hour(26), 3, "blue")))),
    ("ingest", (how(granularity="month"), table((hour(25), 4, "red"), (hour(700), 5, "é")))),
    ("ingest", (how(), table((hour(2), 6, "red"), (None, 7, "no time")))),
    (
        "ingest",
        (
            how(mode="replace", intervals=["2013-10-23T00/2013-10-23T02"]),
            table((hour(25), 8, "green"), (hour(30), 9, "outside")),
        ),
    ),
    (
        "ingest",
        (how(mode="replace", query="hour"), table((hour(49), 10, "a"), (hour(49), 11, "b"))),
    ),
    ("delete", {"interval": "2013-10-23T02/2013-10-23T03"}),
    ("delete", {"where": "color = 'red' AND id > 1"}),
    ("delete", {"where": "id > 0", "interval": "2013-10-24/2013-10-25"}),
    ("delete", {"where": "color = 'never'"}),
    ("revert", 3),
    ("revert", 6),
    ("ingest", (how(mode="replace", intervals=["2013-10-22/2013-10-23"]), table())),
    ("ingest", (how(), table())),
]


def call(store: Store, kind: str, what: Any) -> object:
    if kind == "ingest":
        return facts(store.ingest(*what))
    if kind == "delete":
        return facts(store.delete("events", **what))
    try:
        return store.revert(what).revision
    except Conflict as conflict:
        return conflict.ids["commit"], "stands in the way"


def facts(outcome: WriteOutcome) -> tuple[object, ...]:
    report = outcome.report
    counts = None
    if report is not None:
        counts = (
            report.rows_read,
            report.rows_filtered,
            report.rows_written,
            report.rows_late,
            report.rejected.count,
            report.segments,
        )
    return outcome.revision, outcome.segments_dropped, outcome.rows_deleted, counts


def rows(store: Store, sql: str = "SELECT * FROM events", **more: Any) -> list[tuple[Any, ...]]:
    found = store.sql(sql, **more).rows()
    return sorted((tuple(sorted(row.items())) for row in found), key=repr)


def test_same_calls_same_rows(spark_store: Store, local_store: Store) -> None:
    for kind, what in CALLS:
        assert call(spark_store, kind, what) == call(local_store, kind, what), (kind, what)
        assert rows(spark_store) == rows(local_store), (kind, what)
        for store in (spark_store, local_store):
            assert list(store.verify()) == []
        chunks = [
            [(chunk.interval, chunk.entries) for chunk in store.chunks("events")]
            for store in (spark_store, local_store)
        ]
        assert chunks[0] == chunks[1], (kind, what)
        assert ledger(spark_store) == ledger(local_store), (kind, what)
    for revision in range(1, spark_store.head().revision + 1):
        assert rows(spark_store, at=revision) == rows(local_store, at=revision)


def ledger(store: Store) -> list[tuple[object, ...]]:
    return [
        (line.chunk, line.lateness, line.rows, line.rows_folded)
        for line in store.late("events").lines
    ]


def test_spark_reads_what_sql_reads(spark_store: Store) -> None:
    """At every revision: columns that came, were widened, are missing; clips; an interval."""
    store = spark_store
    shapes: list[tuple[dict[str, str], dict[str, Any]]] = [
        ({"id": "long", "size": "long"}, {"size": 1}),
        ({"id": "long", "size": "double", "new": "string"}, {"size": 2.5, "new": "b"}),
        ({"id": "long"}, {}),
    ]
    for number, (types, values) in enumerate(shapes):
        dimensions = [{"name": name, "type": kind} for name, kind in types.items()]
        given = [{"t": hour(at), "id": 10 * number + at, **values} for at in (1, 2, 3)]
        store.ingest(spec(dimensionsSpec={"dimensions": dimensions}), pa.Table.from_pylist(given))
    store.delete("events", interval="2013-10-22T02/2013-10-22T03")
    store.delete("events", where="id = 11")
    for revision in range(1, store.head().revision + 1):
        assert frame_rows(store.read_spark("events", at=revision)) == sql_rows(store, revision)
    part = store.read_spark("events", interval="2013-10-22T01/2013-10-22T02")
    inside = [row for row in sql_rows(store) if row[-1] < START_MS + 2 * HOUR_MS]
    assert frame_rows(part) == inside
    assert len(inside) == 2, "the third one was deleted"


def test_spark_reads_only_what_is_there(spark_store: Store) -> None:
    with pytest.raises(NotFound, match="there is no datasource 'nothing'; there are none yet"):
        spark_store.read_spark("nothing")
    spark_store.ingest(how(), table((hour(1), 1, "red")))
    with pytest.raises(NotFound, match="there is no datasource 'evnts'; there are events"):
        spark_store.read_spark("evnts")
    empty = spark_store.read_spark("events", interval="2014-01-01/2014-01-02")
    assert frame_rows(empty) == []


def frame_rows(frame: Any) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions as F  # noqa: N812

    timed = frame.withColumn("__time", F.unix_millis("__time"))
    names = sorted(timed.columns, key=lambda name: (name == "__time", name))
    return sorted((tuple(row) for row in timed.select(*names).collect()), key=repr)


def sql_rows(store: Store, at: int | None = None) -> list[tuple[Any, ...]]:
    found = store.sql("SELECT * REPLACE (epoch_ms(__time) AS __time) FROM events", at=at).rows()
    return sorted(
        (
            tuple(row[name] for name in sorted(row, key=lambda name: (name == "__time", name)))
            for row in found
        ),
        key=repr,
    )


def test_a_folder_whose_name_is_a_pattern_is_read_by_spark(
    spark_holder: SparkHolder, tmp_path: Path
) -> None:
    clock, new_ids = SystemClock(), RandomIds()

    def make(storage: DeepStorage) -> SharedSpark:
        url = Path(str(storage.local_path("x"))).parent.as_uri()
        return SharedSpark(output_url=url, clock=clock, ids=new_ids, spark=spark_holder)

    folder = tmp_path / "year=2013" / "a[1]{b}*"
    folder.mkdir(parents=True)
    with open_local_store(folder, clock=clock, ids=new_ids, pipeline=make) as store:
        for year in (7, 8, 9):  # Spark lists several such paths for each of them
            store.append("t", [{"time": f"2024-03-0{year}T09:00:00Z", "year": year}])
        assert sorted(row["year"] for row in store.read_spark("t").collect()) == [7, 8, 9]
