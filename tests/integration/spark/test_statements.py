"""Statements on Spark give what the embedded engine gives over the same revision; or they are refused by name."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from pyspark.sql import SparkSession

from carnac.clock import RandomIds, SystemClock
from carnac.errors import CarnacError, Invalid, TimedOut
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports.answers import ANYBODY, Engine, Statement
from carnac.ports.distributed import SparkAsked, SparkPlan, TooMuch
from carnac.query import QueryEngine
from carnac.query.spark_sql.kinds import NotInSpark
from carnac.spark.session import SparkHolder
from carnac.store.querying import OnSpark, RevisionCatalog
from tests.nightly import IS_NIGHTLY, by_day
from tests.support.merging import asked, check_same, fill, rank, rows_of
from tests.support.served import ServedStore
from tests.support.statements import Asked

GENERATED = 100 if IS_NIGHTLY else 3
RUN_MIN_SHARE = 0.8

WRITTEN = (
    "SELECT k, count(*) AS c FROM events GROUP BY k QUALIFY row_number() OVER (ORDER BY c DESC, k) <= 2 ORDER BY k",
    "SELECT n / 2, n // 2, n % 4, -n // 2, x / 0, 7 / 2, w / 0.0, x % 0 FROM events ORDER BY 1, 5",
    "SELECT sum(n), avg(n), sum(w), avg(w), sum(x), stddev(x), var_pop(w), sum(CAST(x AS DECIMAL(9, 2))) FROM events",
    "SELECT median(x), median(w), quantile_cont(x, 0.3), quantile_disc(x, 0.3), count(DISTINCT s) FROM events",
    "SELECT s, x, n FROM events ORDER BY s DESC, x NULLS FIRST, n, __time LIMIT 40",
    "SELECT s ILIKE 'A%', s LIKE 'a\\%', s || '-' || k, concat(s, n), upper(s), length(s), s[1:1], k[2] FROM events "
    "ORDER BY ALL",
    "SELECT date_trunc('week', __time), time_bucket(INTERVAL 3 MONTH, __time), time_bucket(INTERVAL 36 HOURS, __time), "
    "date_part('dow', __time), week(__time), strftime(__time, '%Y-%m-%dT%H:%M'), epoch_ms(__time), "
    "__time AT TIME ZONE 'America/New_York', __time - INTERVAL 1 MONTH, last_day(__time) FROM events ORDER BY ALL",
    "SELECT date_diff('day', __time, TIMESTAMPTZ '2013-03-01'), date_diff('month', __time, now()), "
    "__time::VARCHAR, CAST(__time AS DATE)::VARCHAR FROM events ORDER BY ALL",
    "SELECT round(x * 1.005, 2), round(n, 0), floor(x), ceil(-x), abs(x), sqrt(abs(x)), CAST(x AS BIGINT), "
    "CAST(x * 10 AS VARCHAR), CAST(x AS DECIMAL(6, 1)), greatest(x, w), least(n, 3), nullif(w, 2) FROM events "
    "ORDER BY ALL",
    "SELECT tags, len(tags), tags[1], list_contains(tags, 'q'), array_to_string(tags, '|') FROM events ORDER BY ALL",
    "SELECT ln(x), ln(x - x), log(w), log10(-x), log2(n), sqrt(x), sqrt(-x), sqrt(-1) FROM events ORDER BY ALL",
    "SELECT l, l < [3::BIGINT, NULL], l BETWEEN [NULL::BIGINT] AND [9::BIGINT], rank() OVER (ORDER BY l DESC), "
    "array_to_string(t, '|') FROM "
    "(SELECT [nullif(n, 2), n] AS l, [nullif(k, 'k1')] AS t FROM events) ORDER BY ALL",
    "SELECT k, string_agg(s, '+' ORDER BY s DESC, n) FROM events GROUP BY k ORDER BY k",
    "SELECT k, x, lag(x) OVER (PARTITION BY k ORDER BY __time, x, n, s), "
    "sum(n) OVER (PARTITION BY k ORDER BY __time, x, n, s ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM events "
    "ORDER BY ALL",
    "SELECT count_if(x > 0), bool_and(b), bit_or(w), count(*) FILTER (b), max(__time), min(__time::DATE) FROM events",
    "SELECT k, count_if(x > 0) FILTER (WHERE x IS NULL), count_if(x > 0) FROM events GROUP BY ALL ORDER BY k",
    "SELECT e.k, l.v FROM events e LEFT JOIN lookup.names l ON e.k = l.k WHERE e.k NOT IN ('k2') ORDER BY ALL",
    "SELECT k FROM events INTERSECT SELECT k FROM hits ORDER BY 1",
    "WITH a AS (SELECT k, sum(hits) AS h FROM hits GROUP BY k), b(q) AS (SELECT max(h) FROM a) SELECT k, h FROM a, b "
    "WHERE h = q ORDER BY ALL",
    "SELECT users FROM hits ORDER BY ALL",
    "SELECT k, hits, total FROM hits WHERE EXISTS (SELECT 1 FROM events WHERE x > 9) ORDER BY k, hits, total LIMIT 5",
    "EXPLAIN SELECT count(*) FROM events",
)  # fmt: skip


class SharedSpark(SparkPipeline):
    """On the one Spark of the run, which outlives the store."""

    def close(self) -> None:
        """Leave Spark running."""


@dataclass(frozen=True, slots=True)
class World:
    """A store that two historicals serve, at one revision, and what runs statements over it."""

    served: ServedStore
    engine: QueryEngine
    runner: SparkPipeline

    @property
    def catalog(self) -> RevisionCatalog:
        return RevisionCatalog(self.served.metadata, self.served.store.head().revision)

    def plan(self, sql: str, parameters: Any = ()) -> SparkPlan:
        told = SparkAsked(reason="asked for", parameters=parameters, query_id="q")
        return self.engine.plan_spark(sql, self.catalog, told)

    def run(self, sql: str, parameters: Any = ()) -> pa.Table:
        plan = self.plan(sql, parameters)
        pieces: Any = self.runner.run_statement(plan, stop=lambda: None)
        tables = [pa.Table.from_batches([one]) for one in pieces]
        found: Any = self.engine.run_final(plan.merge, {plan.rows: tables}).table
        return found


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, spark_holder: SparkHolder, spark: SparkSession
) -> Iterator[World]:
    del spark  # it runs before a broker starts one of its own
    served = ServedStore(tmp_path_factory.mktemp("spark statements"), 2)
    fill(served.store)
    served.assign_all()
    storage = served.store.deep_storage
    engine = QueryEngine(storage, threads=1)
    runner = SharedSpark(
        output_url=storage.url, clock=SystemClock(), ids=RandomIds(), spark=spark_holder
    )
    yield World(served, engine, runner)
    engine.close()
    served.close()


def check(world: World, one: Asked) -> None:
    """Compare the answers; an error in one is one in the other."""
    whole = one.all_rows[0] if one.all_rows else one.sql
    wanted: Any = world.engine.run_query(whole, world.catalog, parameters=one.parameters).table
    found = world.run(one.sql, one.parameters)
    if one.all_rows is None:
        check_same(found, wanted, one)
        return
    assert found.schema == wanted.schema
    assert found.num_rows == min(one.all_rows[1], wanted.num_rows)
    there = [rank(row) for row in rows_of(wanted)]
    for row in rows_of(found):
        there.remove(rank(row))


@pytest.mark.slow
def test_generated_statements_give_the_same_on_spark(world: World) -> None:
    refused, counted, number = [], 0, 0
    while counted < GENERATED:
        one = asked(number)
        number += 1
        try:
            world.engine.run_query(one.sql, world.catalog, parameters=one.parameters)
        except CarnacError:
            continue  # nothing to compare with
        counted += 1
        try:
            check(world, one)
        except NotInSpark as error:
            refused.append(f"{error.message}: {one.sql}")
        except BaseException as error:
            error.add_note(f"statement {number - 1}: {one.sql}  {list(one.parameters)}")
            raise
    sys.stdout.write("\n".join([f"refused {len(refused)} of {counted}", *refused]))
    assert counted - len(refused) >= RUN_MIN_SHARE * counted


@pytest.mark.parametrize("sql", by_day(WRITTEN[:-1], 3))
def test_what_spark_says_otherwise_gives_the_same(world: World, sql: str) -> None:
    check(world, Asked(sql, is_ordered="ORDER BY ALL" in sql))


def test_letters_and_fractions_are_the_same_as_texts(world: World) -> None:
    letters = [one for one in range(1, 0x3000) if not 0xD800 <= one < 0xE000]
    numbers = [
        1.0,
        0.1,
        1e15,
        1e16,
        1.5e-5,
        -1e-4,
        1e100,
        0.0,
        -0.0,
        float("inf"),
        float("nan"),
        1 / 3,
        3e10,
        1e22,
    ]
    store = world.served.store
    rows = [{"t": number, "s": chr(one)} for number, one in enumerate(letters)]
    rows += [{"t": number, "x": one} for number, one in enumerate(numbers)]
    spec = {
        "dataSource": "texts",
        "timestampSpec": {"column": "t", "format": "millis"},
        "dimensions": ["s", {"name": "x", "type": "double"}],
    }
    store.append("texts", rows, spec=spec)
    check(
        world,
        Asked("SELECT s, upper(s), lower(s), s ILIKE 'i%', x, x::VARCHAR FROM texts"),
    )


def test_a_name_cannot_leave_its_quotes(world: World) -> None:
    sql = """SELECT 'a\\'' AS "b`; --", '\\\\'' || s AS "c'd" FROM events ORDER BY ALL"""
    check(world, Asked(sql.replace("\\\\''", "''''").replace("\\''", "''"), is_ordered=True))


def test_a_statement_that_fails_for_a_row_fails_with_a_sentence(world: World) -> None:
    with pytest.raises(Invalid, match="for the embedded engine"):
        world.run("SELECT CAST(s AS BIGINT) FROM events")
    for wrong in ("n // (n - n)", "n % (n - n)", "CAST(x * 1e300 AS FLOAT)"):
        sql = f"SELECT {wrong} FROM events"
        with pytest.raises(Invalid, match=r"[Zz]ero|out of range"):
            world.engine.run_query(sql, world.catalog)
        with pytest.raises(Invalid, match=r"[Zz]ero|out of the range"):
            world.run(sql)


def test_a_revision_is_read_as_it_was(world: World) -> None:
    store = world.served.store
    before = store.head().revision
    store.append(
        "later",
        [{"t": 0, "v": 1}],
        spec={
            "dataSource": "later",
            "timestampSpec": {"column": "t", "format": "millis"},
            "dimensions": ["v"],
        },
    )
    revision = store.head().revision
    store.append("later", [{"t": 1, "v": 2}])
    shared = world.runner
    store._pipeline = lambda: shared  # the one Spark of the run
    assert store.sql("SELECT count(*) AS n FROM later", at=revision, engine="spark").rows() == [
        {"n": 1}
    ]
    result = store.sql("SELECT v, count(*) AS n FROM later GROUP BY 1", engine="spark")
    assert result.receipt == store.sql("SELECT v, count(*) AS n FROM later GROUP BY 1").receipt
    with pytest.raises(CarnacError):
        store.sql("SELECT * FROM later", at=before, engine="spark")
    with pytest.raises(Invalid, match="embedded or spark"):
        store.sql("SELECT 1", engine="flink")


@dataclass(frozen=True, slots=True)
class Files:
    """What both engines write of a statement."""

    world: World

    def of_spark(self, sql: str, form: str, rows_max: int | None = None) -> bytes:
        target = io.BytesIO()
        spark = OnSpark(self.world.engine, self.world.runner, timeout_ms=0)
        done = spark.export_query(
            sql, self.world.catalog, target, form=form, parameters=(), rows_max=rows_max
        )
        assert done.is_cut == (rows_max is not None)
        return target.getvalue()

    def of_this_process(self, sql: str, form: str, rows_max: int | None = None) -> bytes:
        target = io.BytesIO()
        self.world.engine.export_query(
            sql, self.world.catalog, target, form=form, rows_max=rows_max
        )
        return target.getvalue()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_files_of_spark_are_those_of_the_embedded_engine(world: World, form: str) -> None:
    """Names that repeat, sums, lists, times, nulls: all rows, and the first few; or none."""
    files = Files(world)
    rows = "SELECT k, k, __time, s, x, b, tags, sum(n) AS n FROM events GROUP BY ALL ORDER BY ALL"
    cases = {
        "csv": ((rows, None), (rows, 3)),
        "jsonl": (("SELECT k FROM events WHERE false", None),),
    }
    for sql, rows_max in cases.get(form, ((rows, None),)):
        ours = files.of_spark(sql, form, rows_max)
        theirs = files.of_this_process(sql, form, rows_max)
        if form in {"csv", "jsonl"}:
            assert ours == theirs
        else:
            read = pq.read_table if form == "parquet" else feather.read_table
            assert read(io.BytesIO(ours)).equals(read(io.BytesIO(theirs)))


def test_a_file_of_explain_says_what_spark_is_asked(world: World) -> None:
    """There is no answer to wait for."""
    assert (
        "Spark: SELECT"
        in Files(world).of_spark("EXPLAIN SELECT count(*) FROM events", "csv").decode()
    )


def test_a_file_of_a_statement_that_fails_midway_says_what_spark_said(world: World) -> None:
    """The failure comes while the embedded engine takes rows, which has no word for it."""
    with pytest.raises(
        Invalid, match=r"^Spark cannot run the statement: [^\[\]]* cannot read \w+$"
    ):
        Files(world).of_spark("SELECT CAST(s AS BIGINT) FROM events", "csv")


def test_a_file_of_a_statement_that_takes_too_long_is_not_written(world: World) -> None:
    """The limit is that of the store."""
    spark = OnSpark(world.engine, world.runner, timeout_ms=1)
    with pytest.raises(TimedOut, match="longer than 1 ms on Spark"):
        spark.export_query(
            "SELECT count(*) FROM events",
            world.catalog,
            io.BytesIO(),
            form="csv",
            parameters=(),
            rows_max=None,
        )


def rows_from(answer: Any) -> list[tuple[object, ...]]:
    return [row for batch in answer.batches() for row in rows_of(pa.Table.from_batches([batch]))]


GROUPS = "SELECT k, count(DISTINCT x) AS c FROM events GROUP BY k ORDER BY k"


def test_a_broker_runs_on_spark_what_asks_for_it(world: World) -> None:
    queries = world.served.open_broker().queries
    here: Any = queries.run(Statement(client=ANYBODY, sql=GROUPS, query_id="here"))
    wanted = rows_from(here)
    there: Any = queries.run(
        Statement(client=ANYBODY, sql=GROUPS, query_id="there", engine=Engine.SPARK)
    )
    assert rows_from(there) == wanted
    facts = there.facts
    assert (facts.engine, facts.why) == (Engine.SPARK, "Spark was asked for")
    assert facts.is_complete
    assert facts.segments_read == facts.segments_expected > 0
    assert (facts.receipt, facts.etag) == (here.facts.receipt, here.facts.etag)
    again = Statement(client=ANYBODY, sql=GROUPS, query_id="again", engine=Engine.SPARK)
    assert queries.run(again, if_none_match=facts.etag) is None
    told: Any = queries.run(
        Statement(client=ANYBODY, sql=f"EXPLAIN {GROUPS}", query_id="e", engine=Engine.SPARK)
    )
    [first, *_] = [str(line) for (line,) in rows_from(told)]
    assert first == "Spark: Spark was asked for"


def test_what_is_too_much_for_a_broker_goes_to_spark_if_that_is_set(world: World) -> None:
    wanted = world.engine.run_query(GROUPS, world.catalog).table
    late = GROUPS.replace("GROUP", "WHERE length(k) > 0 GROUP")  # known only when the rows come
    for sql in (GROUPS, late):
        statement = Statement(client=ANYBODY, sql=sql, query_id="much")
        limited = world.served.open_broker(query_gather_rows=5)
        with pytest.raises(TooMuch, match="run it on Spark"):
            limited.queries.run(statement)
        auto: Any = world.served.open_broker(query_gather_rows=5, query_spark="auto")
        answer = auto.queries.run(statement)
        found = rows_from(answer)
        assert found == [row for row in rows_of(wanted) if sql is GROUPS or row[0] is not None]
        assert answer.facts.engine is Engine.SPARK
        assert "more rows" in answer.facts.why
    never = world.served.open_broker(query_spark="never")
    with pytest.raises(Invalid, match="query_spark"):
        never.queries.run(Statement(client=ANYBODY, sql=GROUPS, query_id="no", engine=Engine.SPARK))
