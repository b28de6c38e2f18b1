"""Writing by the format: what an append of the same rows does, in one commit or not at all."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    StringType,
    StructField,
    StructType,
    TimestampType,
    YearMonthIntervalType,
)

import carnac
from carnac.core.log.commits import CommitKind
from carnac.errors import AllRejected, CarnacError, Conflict, Invalid, Revoked
from carnac.jobs.ingest.apart import slices
from carnac.ports import Lease
from carnac.store import Store
from tests.support.spark_format import in_parts, rows, sent, source, sql_rows, write
from tests.unit.store.events import fast_folder

START = datetime(2024, 1, 1, tzinfo=UTC)
SPEC = """
timestampSpec: {column: t}
dimensionsSpec: {dimensions: [k, {name: n, type: long}]}
granularitySpec: {segmentGranularity: hour}
"""
ROLLUP = """
timestampSpec: {column: t}
dimensionsSpec: {dimensions: [k]}
metricsSpec: [{name: rows, type: count}, {name: total, type: longSum, fieldName: n}]
granularitySpec: {segmentGranularity: day, queryGranularity: hour, rollup: true}
"""
FILTERED = """
timestampSpec: {column: t}
dimensionsSpec: {dimensions: [k, {name: twice, type: long}]}
transformSpec: {filter: "n > 3", transforms: [{name: twice, expression: n * 2}]}
granularitySpec: {segmentGranularity: day}
"""


@pytest.fixture
def store() -> Iterator[Store]:
    with fast_folder() as folder, carnac.open(folder, create=True) as opened:
        yield opened


def table_of(count: int, *, seed: int = 1, first: int = 0) -> pa.Table:
    rng = random.Random(seed)
    return pa.table(
        {
            "t": [START + timedelta(minutes=rng.randrange(5_000)) for _ in range(count)],
            "n": list(range(first, first + count)),
            "k": [rng.choice(["a", "b", None]) for _ in range(count)],
            "tags": pa.array([rng.choice([["x"], ["x", "y"], None]) for _ in range(count)]),
        }
    )


def files_of(store: Store) -> set[str]:
    return {file.path for file in store.deep_storage.list_files("segments")}


def leases(store: Store) -> list[Lease]:
    """Return the leases of the format."""
    return [one for one in store.leases() if "format carnac" in one.holder]


@pytest.mark.slow
@pytest.mark.parametrize("spec", [None, SPEC, ROLLUP, FILTERED])
@pytest.mark.parametrize("parts", [1, 3])
def test_rows_are_those_of_an_append(store: Store, spec: str | None, parts: int) -> None:
    table = table_of(300)
    options = {} if spec is None else {"spec": spec}
    write(store, "written", table, parts=parts, **options)
    store.append("appended", table, spec=spec)
    assert store.columns("written") == store.columns("appended")
    written, appended = sql_rows(store, "written"), sql_rows(store, "appended")
    if spec == ROLLUP:
        sums = 'SELECT __time, k, sum("rows") AS r, sum(total) AS s FROM {} GROUP BY 1, 2'
        written, appended = (
            store.sql(sums.format(name)).arrow() for name in ("written", "appended")
        )
    assert rows(written) == rows(appended)
    (commit,) = store.log(datasource="written")
    assert commit.kind is CommitKind.APPEND
    assert leases(store) == []


def test_what_was_declared_holds_for_the_next_rows(store: Store) -> None:
    write(store, "events", table_of(50), spec=SPEC)
    write(store, "events", table_of(50, seed=2, first=50))
    assert set(store.columns("events")) == {"k", "n"}
    assert store.sql("SELECT count(*) AS c, sum(n) AS s FROM events").rows() == [
        {"c": 100, "s": 99 * 50}
    ]
    assert {one.interval.duration_ms for one in store.chunks("events")} == {3_600_000}


@pytest.mark.slow
def test_rejected_rows_are_counted_over_all_tasks(store: Store) -> None:
    table = pa.table({"t": ["2024-01-01", "x", "2024-01-02", "y"], "n": [1, 2, 3, 4]})
    write(store, "events", table, parts=4, time="t")
    assert store.sql("SELECT sum(n) AS s FROM events").rows() == [{"s": 4}]
    kept = list(store.deep_storage.list_files("quarantine/events"))
    assert len(kept) == 2
    spec = '{"timestampSpec": {"column": "t"}, "tuningConfig": {"maxParseExceptions": 1}}'
    with pytest.raises(Invalid, match=r"2 rows were rejected .* maxParseExceptions allows 1"):
        write(store, "others", table, parts=4, spec=spec)
    with pytest.raises(AllRejected, match="all 2 rows were rejected"):
        write(store, "others", table.take([1, 3]), parts=2, time="t")
    assert {one.name for one in store.datasources()} == {"events"}
    assert leases(store) == []


def test_late_rows_are_told_of(store: Store) -> None:
    write(store, "events", pa.table({"t": [START + timedelta(days=9)], "n": [1]}))
    write(store, "events", table_of(20, seed=3).select(["t", "n"]))
    assert store.late("events").total.rows == 20


def test_a_type_that_breaks_queries_is_refused(store: Store) -> None:
    write(store, "events", pa.table({"t": [START], "n": [1]}))
    before = files_of(store)
    spec = '{"timestampSpec": {"column": "t"}, "dimensionsSpec": {"dimensions": ["n"]}}'
    rows = pa.table({"t": [START], "n": ["a"]})
    with pytest.raises(Invalid, match="queries that compute with it would break"):
        write(store, "events", rows, spec=spec)
    assert files_of(store) == before
    write(store, "events", rows, spec=spec, allowTypeChange="true")


def test_an_overwrite_replaces_the_chunks_of_its_rows(store: Store) -> None:
    days = [START + timedelta(days=day) for day in range(3)]
    write(store, "events", pa.table({"t": days, "n": [1, 2, 3]}))
    write(store, "events", pa.table({"t": [days[1]], "n": [20]}), is_overwrite=True)
    found = store.sql("SELECT n FROM events ORDER BY __time").rows()
    assert [row["n"] for row in found] == [1, 20, 3]
    assert store.log()[0].kind is CommitKind.REPLACE


def test_an_overwrite_replaces_the_intervals_that_it_names(store: Store) -> None:
    days = [START + timedelta(days=day) for day in range(4)]
    write(store, "events", pa.table({"t": days, "n": [1, 2, 3, 4]}))
    write(
        store,
        "events",
        pa.table({"t": [days[1]], "n": [20]}),
        is_overwrite=True,
        intervals="2024-01-02/2024-01-03,2024-01-03/2024-01-04",
    )
    found = store.sql("SELECT n FROM events ORDER BY __time").rows()
    assert [row["n"] for row in found] == [1, 20, 4]


def test_rows_outside_of_what_is_replaced_are_told_of(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    days = [START + timedelta(days=day) for day in range(2)]
    rows = pa.table({"t": days, "n": [1, 2]})
    write(store, "events", rows, is_overwrite=True, intervals="2024-01-01/P1D")
    assert store.sql("SELECT n FROM events").rows() == [{"n": 1}]
    assert "1 of 2 rows of events lie outside of what is replaced" in caplog.text


def test_what_a_load_changes_without_being_told_to_is_in_the_log(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    write(store, "events", pa.table({"t": [START], "n": [1]}))
    write(store, "events", pa.table({"t": [START] * 3, "n": [1.5, 2.0, 2.5], "m": [1, 2, 3]}))
    assert "events: column 'm' (long) is new" in caplog.text
    assert "a fraction" in caplog.text
    write(store, "seconds", pa.table({"t": [1_719_835_200], "n": [1]}), time="t")
    assert "seconds: all rows lie in the first weeks of 1970" in caplog.text


def test_a_replacement_of_what_was_replaced_meanwhile_is_refused(store: Store) -> None:
    table = pa.table({"t": [START], "n": [1]})
    write(store, "events", table)
    with pytest.raises(Conflict):
        write(
            store,
            "events",
            table,
            is_overwrite=True,
            before_commit=lambda: write(store, "events", table, is_overwrite=True),
        )
    assert leases(store) == []
    write(
        store,
        "events",
        table,
        is_overwrite=True,
        before_commit=lambda: write(store, "events", table),
    )
    assert store.sql("SELECT count(*) AS c FROM events").rows() == [{"c": 2}]


def test_a_batch_of_a_writer_is_published_once(store: Store) -> None:
    for _ in range(2):
        write(store, "events", table_of(30), writer="nightly", batch="2024-01-01")
        assert store.sql("SELECT count(*) AS c FROM events").rows() == [{"c": 30}]
    assert len(store.log()) == 1
    named = {segment.segment.path for segment in store.segments("events")}
    assert files_of(store) == named


def test_what_is_aborted_leaves_nothing(store: Store) -> None:
    table = table_of(30)
    writer = source(store, "events").writer(from_arrow_schema(table.schema), False)
    first, _ = in_parts(table, 2)
    message = sent(sent(writer).write(iter(first.to_batches())))
    assert files_of(store)
    assert len(leases(store)) == 1
    sent(writer).abort([message, None])
    assert (files_of(store), leases(store), store.log()) == (set(), [], ())


def test_what_may_have_been_published_is_not_removed(store: Store) -> None:
    table = table_of(30)
    writer = source(store, "events").writer(from_arrow_schema(table.schema), False)
    messages = [sent(sent(writer).write(iter(one.to_batches()))) for one in in_parts(table, 2)]
    sent(writer).commit(list(messages))
    sent(writer).abort(list(messages))  # as where the answer of the database was lost
    assert files_of(store) == {one.segment.path for one in store.segments("events")}
    assert store.sql("SELECT count(*) AS c FROM events").rows() == [{"c": 30}]


def test_what_a_crash_leaves_is_garbage_once_its_lease_is_over(store: Store) -> None:
    table = table_of(30)
    writer = source(store, "events").writer(from_arrow_schema(table.schema), False)
    message = writer.write(iter(table.to_batches()))
    (lease,) = leases(store)
    store.settings = store.settings.model_copy(update={"safety_period_ms": 0})
    store.gc()
    assert files_of(store), "a writer's lease protects them"
    store._metadata.release_lease(lease.lease_id)
    with pytest.raises(Revoked):
        sent(writer).commit([message])
    assert store.log() == ()
    assert files_of(store) == set()


def test_tasks_without_rows_publish_nothing(store: Store) -> None:
    write(store, "events", table_of(10).slice(0, 0), parts=3)
    assert store.log() == ()
    assert leases(store) == []


def test_slices_are_what_an_append_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carnac.jobs.ingest.apart.APPEND_ROWS_MAX", 10)
    table = table_of(95)
    found = list(slices(table.to_batches(max_chunksize=30)))
    assert pa.concat_tables(found).equals(table)
    assert max(one.num_rows for one in found) <= 10


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mode": "append"}, "writing carnac has no option 'mode'"),
        ({"writer": "w"}, "options writer and batch go together"),
        ({"intervals": "2024-01-01/P1D"}, "an append takes none"),
        ({"spec": "{]"}, "spec is not valid"),
        ({"spec": '{"dataSource": "other", "timestampSpec": {"column": "t"}}'}, "other"),
        ({"time": "m"}, "the rows have no column 'm'"),
        ({"allowMissing": "maybe"}, "is true or false, not 'maybe'"),
        ({"store": "not/there"}, "there is no store at"),
        ({"spec": SPEC + "mode: replace"}, 'say so by mode("overwrite")'),
    ],
)
def test_what_cannot_be_written_is_told(
    store: Store, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(CarnacError) as caught:
        write(store, "events", table_of(3), **options)
    assert sentence in caught.value.message
    assert leases(store) == []


def test_a_type_that_has_no_other_is_told(store: Store) -> None:
    schema = StructType(
        [StructField("t", TimestampType()), StructField("v", YearMonthIntervalType())]
    )
    with pytest.raises(Invalid, match=r"'v' is of Spark's type interval year to month.*; cast it"):
        source(store, "events").writer(schema, False)
    assert leases(store) == []


@pytest.mark.parametrize("options", [{}, {"spec": SPEC}])
def test_two_columns_of_one_name_are_told(store: Store, options: dict[str, str]) -> None:
    fields = [StructField("t", TimestampType()), *[StructField("k", StringType())] * 2]
    with pytest.raises(Invalid, match="the rows have the column k more than once; rename one"):
        source(store, "events", **options).writer(StructType(fields), False)


def test_a_declared_column_that_no_row_has_is_refused(store: Store) -> None:
    spec = SPEC.replace("[k,", "[k, mm,")
    with pytest.raises(Invalid, match="no row has the declared column 'mm'"):
        write(store, "events", table_of(20), parts=3, spec=spec)
    assert files_of(store) == set()
    write(store, "events", table_of(20), parts=3, spec=spec, allowMissing="true")


# ----------------------------------------------------------------------------------------- streams


class Query:
    """A streaming query of one checkpoint."""

    def __init__(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, query_id: str, writer: str = "w"
    ) -> None:
        self.store, self.patch, self.query_id, self.writer = store, monkeypatch, query_id, writer

    def run(self, number: int, table: pa.Table, *, is_aborted: bool = False) -> None:
        """Run a micro-batch."""

        class Context:
            @staticmethod
            def get() -> Context:
                return Context()

            def getLocalProperty(context, name: str) -> str:  # noqa: N802, N805
                assert name == "sql.streaming.queryId"
                return self.query_id

        self.patch.setattr("carnac.spark_format.writing.TaskContext", Context)
        made = source(self.store, "events", writer=self.writer, checkpointLocation="/tmp/x")
        schema = from_arrow_schema(table.schema)
        planned = made.streamWriter(schema, False)
        messages = [sent(sent(planned).write(iter(one.to_batches()))) for one in in_parts(table, 2)]
        committing = sent(made).streamWriter(schema, False)
        if is_aborted:
            committing.abort([messages[0], None], number)
        else:
            committing.commit(list(messages), number)


@pytest.mark.slow
def test_a_batch_that_comes_again_is_published_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(store, monkeypatch, "one")
    for number in (0, 1, 1, 2, 2, 2):
        query.run(number, table_of(10, seed=number, first=number * 10))
    assert store.sql("SELECT count(*) AS c, sum(n) AS s FROM events").rows() == [
        {"c": 30, "s": 29 * 15}
    ]
    assert [one.batch for one in store.log()] == ["2", "1", "0"]
    assert files_of(store) == {one.segment.path for one in store.segments("events")}
    assert leases(store) == []


def test_batches_are_late_by_what_was_there_before_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(store, monkeypatch, "one")
    query.run(0, pa.table({"t": [START + timedelta(days=9)], "n": [1]}))
    query.run(1, pa.table({"t": [START], "n": [1]}))
    assert store.late("events").total.rows == 1


@pytest.mark.slow
def test_a_new_checkpoint_needs_a_new_writer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    Query(store, monkeypatch, "one").run(0, table_of(10))
    with pytest.raises(Invalid, match="writer 'w' is that of the query with id one"):
        Query(store, monkeypatch, "two").run(0, table_of(10))
    assert leases(store) == []
    Query(store, monkeypatch, "two", writer="w2").run(0, table_of(10))
    assert store.sql("SELECT count(*) AS c FROM events").rows() == [{"c": 20}]
    assert files_of(store) == {one.segment.path for one in store.segments("events")}


@pytest.mark.slow
def test_an_aborted_batch_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(store, monkeypatch, "one")
    query.run(0, table_of(10, seed=1), is_aborted=True)
    assert leases(store) == []
    assert store.log() == ()
    query.run(0, table_of(10, seed=1))
    assert store.sql("SELECT count(*) AS c FROM events").rows() == [{"c": 10}]


def test_streams_are_refused_without_a_writer_and_with_all_rows_again(store: Store) -> None:
    schema = from_arrow_schema(table_of(1).schema)
    with pytest.raises(Invalid, match="needs option writer"):
        source(store, "events").streamWriter(schema, False)
    with pytest.raises(Invalid, match="foreachBatch"):
        source(store, "events", writer="w").streamWriter(schema, True)
