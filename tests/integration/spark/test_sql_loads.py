"""Rows that a statement loads are those that the embedded engine gives; what is in the way of them is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import carnac
from carnac.bootstrap.store import open_store
from carnac.clock import RandomIds, SystemClock
from carnac.core.segments.segment import TIME_COLUMN, RangePartition
from carnac.errors import AllRejected, CarnacError, Invalid, NotFound
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import DeepStorage
from carnac.query.spark_sql.kinds import NotInSpark
from carnac.spark.session import SparkHolder
from tests.nightly import by_day
from tests.support.merging import fill, rank, rows_of
from tests.support.serving import recorded

SELECTS = (
    "SELECT * FROM events",
    "SELECT * EXCLUDE (tags, b) FROM events",
    "SELECT __time, regexp_replace(s, '[aeiou]', '*') AS s, list_transform(tags, lambda t: t || k) AS tags FROM events "
    "WHERE regexp_matches(k, '[12]') AND n > 0",
    "SELECT TIME_SHIFT(__time, 'P1M', 1) AS __time, STRLEN(s) AS n, CASE WHEN x > w THEN 'more' END AS c FROM events",
    "SELECT TIME_FLOOR(__time, 'P1D') AS __time, k, COUNT(*) AS n, SUM(w) AS total, MAX(x) AS x, "
    "COUNT(DISTINCT s) AS d FROM events GROUP BY 1, 2",
    "SELECT TIME_FLOOR(__time, 'P1D') AS __time, regexp_extract(k, '[0-9]') AS k, SUM(w) AS w FROM events "
    "GROUP BY TIME_FLOOR(__time, 'P1D'), 2 HAVING SUM(w) > 3",
    "SELECT e.__time, upper(e.k) AS k, h.hits FROM events e JOIN hits h ON e.k = h.k AND e.__time < h.__time",
    "SELECT e.__time, regexp_replace(e.k, '[0-9]', '#') AS k, coalesce(upper(h.k), '-') AS o, x + w AS y FROM events e "
    "LEFT JOIN hits h ON reverse(e.k) = reverse(h.k) AND h.hits > 1 WHERE strpos(s, 'a') > 0",
    "SELECT e.__time, reverse(e.s) || '!' AS s, l.v, h.hits * 2 AS h FROM hits h, lookup.names l, events e "
    "WHERE e.k = l.k AND h.k = e.k AND reverse(e.k) <> '1k'",
    "SELECT * FROM events e JOIN (SELECT DISTINCT k AS kk FROM hits) h ON e.k = h.kk",
    "SELECT __time, k, reverse(s) AS r, total FROM events JOIN hits USING (k, __time)",
    "SELECT __time, s FROM events WHERE k IN (SELECT k FROM hits WHERE hits > 1) AND strpos(s, 'a') > 0",
    "WITH t AS (SELECT date_trunc('hour', __time) AS __time, reverse(s) AS s FROM events) "
    "SELECT __time, s, count(*) AS n FROM t GROUP BY ALL",
    "SELECT __time, k FROM events UNION ALL SELECT __time + INTERVAL 1 DAY, reverse(k) FROM hits",
    "SELECT e.__time, e.k, l.v FROM (SELECT __time, lower(k) AS k FROM events) e LEFT JOIN lookup.names l ON e.k = l.k",
    "SELECT __time, x / 0 AS inf, 7 // 2 AS q, DATE '2020-01-01' AS d, b, [n, 1] AS ns, 1.5::DECIMAL(4, 1) AS e "
    "FROM events",
    "SELECT __time, upper(k) AS k, unnest(tags) AS tag FROM events",
    "SELECT epoch_ms(__time) AS __time, row_number() OVER (PARTITION BY k ORDER BY __time, s, n, x, w) AS r "
    "FROM events",
)  # fmt: skip
INLINE = """TABLE(EXTERN('{"type": "inline", "data": %s}', '{"type": "%s"}'))"""


class SharedSpark(SparkPipeline):
    """On the one Spark of the run, which outlives the store."""

    def close(self) -> None:
        """Leave Spark running."""


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory, spark_holder: SparkHolder, spark: SparkSession
) -> Iterator[carnac.Store]:
    del spark  # it runs before a store starts one of its own

    def pipeline(storage: DeepStorage) -> SparkPipeline:
        return SharedSpark(
            output_url=storage.url, clock=SystemClock(), ids=RandomIds(), spark=spark_holder
        )

    folder = tmp_path_factory.mktemp("loads")
    with open_store(folder / "store", create=True, pipeline=pipeline) as opened:
        fill(opened)
        yield opened


def external(rows: object, columns: str, kind: str = "json") -> str:
    """Return an external table of rows, a text of lines or a list of objects."""
    lines = rows if isinstance(rows, str) else "\n".join(json.dumps(row) for row in rows)  # type: ignore[attr-defined]
    data = json.dumps(lines).replace("'", "''")
    return f"{INLINE % (data, kind)} EXTEND ({columns})"


def stored(table: pa.Table) -> list[tuple[object, ...]]:
    """Return rows as segments keep them: whole numbers, times as milliseconds, exact numbers as doubles."""

    def value(name: str, one: Any) -> object:
        if isinstance(one, bool):
            return int(one)
        if hasattr(one, "as_tuple"):
            return int(one) if one.as_tuple().exponent == 0 else float(one)
        if hasattr(one, "isoformat") and name != TIME_COLUMN:
            return int(one.strftime("%s000"))
        if name == TIME_COLUMN and isinstance(one, int):
            return one
        return int(one.timestamp() * 1000) if name == TIME_COLUMN else one

    names = table.column_names
    return sorted(
        (tuple(value(n, one) for n, one in zip(names, row, strict=True)) for row in rows_of(table)),
        key=rank,
    )


@pytest.mark.parametrize("number", by_day(range(len(SELECTS)), 5))
def test_what_is_loaded_is_what_the_statement_gives(store: carnac.Store, number: int) -> None:
    select = SELECTS[number]
    wanted = store.sql(select).arrow()
    outcome = store.ingest(f"INSERT INTO copy{number} {select} PARTITIONED BY ALL")
    assert outcome.report is not None
    assert outcome.report.rows_written == wanted.num_rows > 0
    listed = ", ".join(f'"{name}"' for name in wanted.column_names)
    found = store.sql(f"SELECT {listed} FROM copy{number}").arrow()
    one, other = stored(found), stored(wanted)
    assert [rank(row) for row in one] == [rank(row) for row in other]


def test_what_druid_27_did(store: carnac.Store) -> None:
    answers = {one["id"]: one for one in recorded("msq27.jsonl")}
    submitted = answers["rep-where-empty-submit"]["body"]["query"]
    source = submitted[submitted.index("TABLE(") : submitted.index(" WHERE k=")]
    select = f"SELECT TIME_PARSE(t) AS __time, k, v FROM {source}"

    def check(name: str) -> None:
        rows = json.loads(answers[name]["response_text"])
        asked = "SELECT strftime(__time, '%Y-%m-%dT%H:%M:%S.%gZ'), k, v FROM m1 ORDER BY 1, 2"
        assert [list(row) for row in rows_of(store.sql(asked).arrow())] == rows

    for _ in range(2):
        store.ingest(f"INSERT INTO m1 {select} PARTITIONED BY HOUR")
    check("m1-rows")
    day = "OVERWRITE WHERE __time >= TIMESTAMP '2021-03-01' AND __time < TIMESTAMP '2021-03-02'"
    tens = f"SELECT TIME_PARSE(t) AS __time, k, v * 10 AS v FROM {source}"
    with pytest.raises(Invalid, match="1 row of the statement lies outside of what is replaced"):
        store.ingest(f"REPLACE INTO m1 {day} {tens} PARTITIONED BY DAY")
    store.ingest(
        f"REPLACE INTO m1 {day} {tens} WHERE TIME_PARSE(t) < TIMESTAMP '2021-03-02' PARTITIONED BY DAY"
    )
    check("m1-rows2")
    store.ingest(submitted)
    assert store.sql("SELECT count(*) FROM m1 WHERE __time >= '2021-03-02'").rows() == [
        {"count_star()": 0}
    ], "an empty replacement empties its interval"


def test_each_kind_of_external_table(store: carnac.Store, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    table = pa.table({"t": ["2024-01-01T00:00:00Z"], "n": [3], "tags": [["a", "b"]]})
    pa.parquet.write_table(table, file)
    files = json.dumps({"type": "local", "files": [str(file)]})
    parquet = f"""TABLE(EXTERN('{files}', '{{"type": "parquet"}}')) (t VARCHAR, n BIGINT, tags VARCHAR ARRAY)"""
    lines = external(
        [{"__time": "2024-01-02", "n": 4, "user": {"name": "x"}}],
        "\"__time\" VARCHAR, n BIGINT, user TYPE('COMPLEX<json>')",
    )
    cells = external("t,n\n1704240000000,5\n", "t BIGINT, n VARCHAR", "csv")
    store.ingest(
        f"""INSERT INTO kinds
        SELECT TIME_PARSE(t) AS __time, n, array_to_string(tags, '+') AS said FROM {parquet}
        UNION ALL SELECT TIME_PARSE("__time"), n, JSON_VALUE("user", '$.name') FROM {lines}
        UNION ALL SELECT MILLIS_TO_TIMESTAMP(t), CAST(n AS BIGINT), NULL FROM {cells}
        PARTITIONED BY DAY"""
    )
    found = store.sql("SELECT epoch_ms(__time) // 86400000 AS day, n, said FROM kinds ORDER BY 1")
    assert found.rows() == [
        {"day": 19723, "n": 3, "said": "a+b"},
        {"day": 19724, "n": 4, "said": "x"},
        {"day": 19725, "n": 5, "said": None},
    ]


def test_rows_that_cannot_be_read_are_kept_and_counted(store: carnac.Store) -> None:
    lines = '{"t": "2024-01-01", "n": 1}\n{"t": "2024-01-01", \n{"t": "2024-01-01", "n": 2}\n'
    outcome = store.ingest(
        f"INSERT INTO bad SELECT TIME_PARSE(t) AS __time, SUM(n) AS n FROM {external(lines, 't VARCHAR, n BIGINT')} "
        "GROUP BY 1 PARTITIONED BY DAY"
    )
    assert outcome.report is not None
    assert (outcome.report.rows_read, outcome.report.rejected.count) == (3, 1)
    assert outcome.report.rejected.path is not None
    assert store.sql("SELECT n FROM bad").rows() == [{"n": 3}]
    with pytest.raises(AllRejected, match=r"none of the 2 rows has a time in __time.*TIME_PARSE"):
        store.ingest(
            f"INSERT INTO bad SELECT TIME_PARSE('x' || t) AS __time, n FROM {external(lines, 't VARCHAR, n BIGINT')} "
            "PARTITIONED BY DAY"
        )


def test_rows_appended_meanwhile_stay(store: carnac.Store) -> None:
    spec = {"timestampSpec": {"column": "t"}, "dimensionsSpec": {"dimensions": ["k"]}}
    store.append("meanwhile", [{"t": "2024-01-01T01:00", "k": "old"}], spec=spec)
    appended: list[int] = []

    def append(_: object) -> None:
        if not appended:
            appended.append(1)
            store.append("meanwhile", [{"t": "2024-01-01T02:00", "k": "new"}], spec=spec)

    store.ingest(
        "REPLACE INTO meanwhile OVERWRITE ALL SELECT __time, upper(k) AS k FROM meanwhile PARTITIONED BY MONTH",
        on_progress=append,
    )
    assert appended
    found = store.sql("SELECT k FROM meanwhile ORDER BY k").rows()
    assert found == [{"k": "OLD"}, {"k": "new"}]


def test_sketches_are_merged_by_a_spec_over_a_statement(store: carnac.Store) -> None:
    metrics = [
        {"name": "hits", "type": "longSum"},
        {"name": "users", "type": "HLLSketchMerge"},
    ]
    store.ingest(
        {
            "dataSource": "merged",
            "input": {
                "type": "query",
                "query": "SELECT __time, upper(k) AS k, hits, users FROM hits",
            },
            "timestampSpec": {"column": "__time"},
            "dimensionsSpec": {"dimensions": ["k"]},
            "metricsSpec": metrics,
            "granularitySpec": {"segmentGranularity": "month", "queryGranularity": "month"},
        }
    )
    asked = "SELECT sum(hits) AS n, APPROX_COUNT_DISTINCT_DS_HLL(users) AS d, count(DISTINCT upper(k)) AS k FROM %s"
    assert store.sql(asked % "merged").rows() == store.sql(asked % "hits").rows()
    assert store.sql("SELECT count(*) AS n FROM merged").rows()[0]["n"] == len(
        store.sql("SELECT DISTINCT upper(k) FROM hits")
    )


ROWS = external(
    [{"t": "2024-01-01", "k": "a"}, {"t": "2024-01-01", "k": ["b", "c"]}], "t VARCHAR, k VARCHAR"
)
ONE = external([{"t": "2024-01-01", "k": "a"}], "t VARCHAR, k VARCHAR")
WRONG: tuple[tuple[str, type[CarnacError], str], ...] = (
    (f"SELECT k FROM {ONE}", Invalid, "selects k and no __time; write TIME_PARSE"),
    (f"SELECT t AS __time FROM {ONE}", Invalid, "__time is a VARCHAR, and must be a time; write TIME_PARSE"),
    (f"SELECT TIME_PARSE(t) AS __time, k, k FROM {ONE}", Invalid, "selects 'k' twice"),
    (f"SELECT TIME_PARSE(t) AS __time, nope FROM {ONE}", NotFound, "no column 'nope'; there are __time, k, t"),
    ("SELECT __time FROM nowhere", NotFound, "no datasource 'nowhere'"),
    (f"SELECT TIME_PARSE(t) AS __time, {{'a': k}} AS s FROM {ONE}", Invalid, "TO_JSON_STRING"),
    (f"SELECT TIME_PARSE(t) AS __time, k FROM {ROWS}", Invalid, "declare it VARCHAR ARRAY"),
    (f"SELECT TIME_PARSE(t) AS __time, CAST(k AS BIGINT) AS k FROM {ONE}", Invalid, "fails for a row: .*'a'"),
    ("SELECT __time, CAST(s AS BIGINT) AS k FROM events", Invalid, "fails for a row"),
    ("SELECT __time, COLUMNS('k.*') FROM events", NotInSpark, "names replaced"),
    ("SELECT TIME_FLOOR(__time, 'P1D') AS __time, SUM(n) AS n FROM events GROUP BY 1", Invalid, "fails for a row"),
    ("SELECT __time, users FROM hits", Invalid, "is a sketch, or bytes; select its estimate"),
    ("SELECT * REPLACE (1 AS n) FROM events", NotInSpark, "names replaced"),
)  # fmt: skip


@pytest.mark.parametrize("number", by_day(range(len(WRONG)), 3))
def test_what_is_wrong_is_one_sentence_and_nothing_is_published(
    store: carnac.Store, number: int
) -> None:
    select, kind, said = WRONG[number]
    before = store.head().revision
    with pytest.raises(kind, match=said):
        store.ingest(f"INSERT INTO wrong {select} PARTITIONED BY DAY")
    assert store.head().revision == before


def test_a_datasource_is_clustered_by_ranges(store: carnac.Store) -> None:
    rows = [{"t": "2024-01-01", "k": f"{n:03}"} for n in range(100)]
    source = external(rows, "t VARCHAR, k VARCHAR")
    query = f"SELECT TIME_PARSE(t) AS __time, k FROM {source}"
    store.ingest(f"REPLACE INTO ranges OVERWRITE ALL {query} PARTITIONED BY DAY CLUSTERED BY k")
    [one] = store.segments("ranges")
    assert isinstance(one.segment.partition, RangePartition)
    assert one.segment.partition.dimensions == ("k",)
