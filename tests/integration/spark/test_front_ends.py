"""One spec, many ways in: files, DataFrames, tables, with and without Spark's plan, all give the same rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from carnac import Store
from carnac.core.segments.lateness import NONE_LATE, LateCounts, add_counts
from carnac.core.time.intervals import parse_instant
from carnac.errors import Invalid
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import ChunkLayout, JobResult
from carnac.specs.ingest.spec import IngestSpec
from tests.integration.spark.conftest import MakeSpec
from tests.integration.spark.rows import files_below, rows_of
from tests.nightly import by_day
from tests.support.lateness import count_late

pytestmark = pytest.mark.spark

DAY = ChunkLayout(segment_granularity="day")
ROWS: list[dict[str, Any]] = [
    {
        "t": f"2024-01-0{1 + i % 3}T{i % 24:02d}:30:00Z",
        "d": ["a", "b", None, "ü\n", ""][i % 5],
        "n": i - 20,
        "x": None if i % 7 == 0 else i / 3,
        "tags": [["p", "q"], ["q"], None][i % 3],
    }
    for i in range(60)
]
DIMENSIONS = [
    "d",
    {"name": "n", "type": "long"},
    {"name": "x", "type": "double"},
    {"name": "tags", "type": "array<string>"},
]
METRICS = [
    {"name": "rows", "type": "count"},
    {"name": "sum_n", "type": "longSum", "fieldName": "n"},
    {"name": "max_x", "type": "doubleMax", "fieldName": "x"},
    {"name": "last_x", "type": "doubleLast", "fieldName": "x"},
    {"name": "first_n", "type": "longFirst", "fieldName": "n", "timeColumn": "t"},
    {"name": "users", "type": "thetaSketch", "fieldName": "d"},
]
NEWEST_MS = parse_instant("2024-01-03T02:31")
LATE: dict[int, LateCounts] = {
    number: count_late(
        [parse_instant(row["t"]) for row in ROWS if row["t"].startswith(f"2024-01-0{number}")],
        NEWEST_MS,
    )
    for number in (1, 2, 3)
}
"""Late rows of each day of January 2024."""
NOTHING = {"transforms": [], "filter": "true"}


def json_lines() -> str:
    return "".join(json.dumps(row) + "\n" for row in ROWS)


def arrow_rows() -> pa.Table:
    return pa.Table.from_pylist(ROWS)


def late_of(result: JobResult) -> dict[int, LateCounts]:
    """Return the late rows that the segments of each day tell of."""
    found = dict.fromkeys(LATE, NONE_LATE)
    for segment in result.segments:
        if segment.late is not None:
            number = 1 + (segment.chunk.start_ms - parse_instant("2024-01-01")) // 86_400_000
            found[number] = add_counts((found[number], segment.late.counts))
    return found


def fingerprint(deep_storage: Path, result: JobResult) -> tuple[Counter[Any], dict[str, int]]:
    """Rows, and the sum of the row hashes by chunk."""
    hashes: Counter[str] = Counter()
    for segment in result.segments:
        hashes[str(segment.chunk)] += segment.row_hash
    return rows_of(deep_storage, result.segments), {
        chunk: total % 2**64 for chunk, total in hashes.items()
    }


@pytest.mark.parametrize(
    "rollup", by_day([True, False], 2), ids={True: "rollup", False: "raw"}.__getitem__
)
def test_all_ways_in_give_the_same_rows(  # noqa: PLR0917 - pytest hands them over by name
    pipeline: SparkPipeline,
    make_spec: MakeSpec,
    deep_storage: Path,
    tmp_path: Path,
    spark: SparkSession,
    rollup: bool,
) -> None:
    fields: dict[str, Any] = {"dimensions": DIMENSIONS}
    if rollup:
        fields = {
            "dimensions": ["d"],
            "metrics": METRICS,
            "granularity": {"queryGranularity": "hour", "rollup": True},
        }
    parquet = tmp_path / "rows.parquet"
    with duckdb.connect() as con:
        con.register("rows", arrow_rows())
        con.execute(f"COPY rows TO '{parquet}' (FORMAT parquet)").complete()
    frame = spark.createDataFrame(arrow_rows()).repartition(3)
    files = {"type": "files", "paths": [str(parquet)]}

    def memory(kind: str, **more: Any) -> IngestSpec:
        return make_spec(input={"type": "frame", "frame": kind}, **fields, **more)

    def run(spec: IngestSpec, rows: object = None) -> tuple[Any, Any]:
        result = pipeline.run_ingest(spec, DAY, rows=rows, newest_before_ms=NEWEST_MS)
        assert late_of(result) == LATE, "whatever the way in, late input rows are counted"
        assert result.report.rows_late == sum(map(sum, LATE.values())) > 0
        return fingerprint(deep_storage, result)

    expected = run(make_spec(json_lines(), **fields))
    assert expected[0]
    assert run(make_spec(json_lines(), **fields, transforms=NOTHING)) == expected
    assert run(make_spec(input=files, **fields)) == expected
    assert run(make_spec(input=files, **fields, transforms=NOTHING)) == expected
    assert run(memory("arrow"), arrow_rows()) == expected
    assert run(memory("pandas"), arrow_rows().to_pandas(types_mapper=pandas_type)) == expected
    assert run(memory("dataframe"), frame) == expected
    assert run(memory("dataframe", transforms=NOTHING), frame) == expected
    assert run(memory("arrow", transforms=NOTHING), arrow_rows()) == expected


def pandas_type(kind: pa.DataType) -> Any:
    import pandas as pd

    return pd.Int64Dtype() if pa.types.is_int64(kind) else None


def test_transforms_see_input_and_time_and_the_filter_sees_them(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    spec = make_spec(
        json_lines(),
        dimensions=["d", {"name": "hour", "type": "long"}, {"name": "n", "type": "long"}],
        transforms={
            "transforms": [
                {"name": "hour", "expression": "hour(__time)"},
                {"name": "n", "expression": "n * 2"},  # hides the input
                {"name": "d", "expression": "concat(coalesce(d, '-'), n)"},  # sees the input's n
            ],
            "filter": "hour >= 10 AND n < 0",
        },
    )
    result = pipeline.run_ingest(spec, DAY)
    wanted = [row for row in ROWS if int(row["t"][11:13]) >= 10 and row["n"] * 2 < 0]
    assert rows_of(deep_storage, result.segments, "d", "hour", "n") == Counter(
        (f"{'-' if row['d'] is None else row['d']}{row['n']}", int(row["t"][11:13]), row["n"] * 2)
        for row in wanted
    )
    report = result.report
    assert (report.rows_read, report.rows_filtered) == (60, 60 - len(wanted))


@pytest.mark.parametrize(
    "expression",
    [
        "date_trunc('month', __time)",
        {"type": "druid", "expression": "timestamp_floor(__time, 'P1M')"},
    ],
    ids=["spark", "druid"],
)
def test_a_transform_may_make_the_time_of_the_time(
    pipeline: SparkPipeline,
    make_spec: MakeSpec,
    deep_storage: Path,
    spark: SparkSession,
    expression: str | dict[str, str],
) -> None:
    made = expression if isinstance(expression, dict) else {"expression": expression}
    transforms = [{"name": "__time", **made}]
    frame = make_spec(input={"type": "frame", "frame": "dataframe"}, transforms=transforms)
    for spec, rows in (
        (make_spec(json_lines(), transforms=transforms), None),
        (frame, spark.createDataFrame(arrow_rows())),
    ):
        result = pipeline.run_ingest(spec, DAY, rows=rows)
        times = rows_of(deep_storage, result.segments, "__time")
        assert times == Counter({("2024-01-01T00:00:00+00:00",): 60})


def test_what_an_expression_cannot_compute_is_null(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path, spark: SparkSession
) -> None:
    expressions = {
        "q": "1 / (n - n)",
        "c": "cast(concat('z', n) AS INT)",
        "o": "cast(1e30 AS INT) * 0",
    }
    spec = make_spec(
        json_lines(),
        dimensions=[{"name": name, "type": "double"} for name in ("q", "c")],
        transforms=[{"name": n, "expression": e} for n, e in expressions.items()],
    )
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    result = pipeline.run_ingest(spec, DAY)
    assert rows_of(deep_storage, result.segments, "q", "c") == Counter({(None, None): 60})
    assert spark.conf.get("spark.sql.ansi.enabled") == ansi


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"name": "y", "expression": "n +* 2"}, "transform 'y'.*syntax error"),
        ({"name": "y", "expression": "no_such_column + 1"}, "transform 'y'.*no_such_column"),
        ({"name": "y", "expression": "no_such_function(n)"}, "transform 'y'.*no_such_function"),
        ({"name": "y", "expression": "explode(sequence(1, n))"}, "transform 'y'.*generator"),
        ({"name": "y", "expression": "sum(n)"}, "transform 'y'.*aggregate"),
    ],
)
def test_a_wrong_expression_is_one_sentence(
    pipeline: SparkPipeline,
    make_spec: MakeSpec,
    deep_storage: Path,
    transform: dict[str, str],
    message: str,
) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        pipeline.run_ingest(make_spec(json_lines(), transforms=[transform]), DAY)
    assert "\n" not in caught.value.message
    assert files_below(deep_storage) == []


def test_bad_rows_are_found_before_and_after_the_transforms(
    pipeline: SparkPipeline, make_spec: MakeSpec
) -> None:
    spec = make_spec(
        json_lines() + "{broken\n",
        dimensions=[{"name": "m", "type": "long"}],
        transforms=[{"name": "m", "expression": "if(n = 5, 'five', cast(n AS STRING))"}],
    )
    report = pipeline.run_ingest(spec, DAY).report
    assert dict(report.rejected.by_reason) == {"malformed json": 1, "not a long: m": 1}
    assert (report.rows_read, report.rows_written) == (61, 59)


def test_transforms_are_discovered_as_dimensions(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    spec = make_spec(
        json_lines(),
        dimensions={"useSchemaDiscovery": True},
        transforms=[{"name": "twice", "expression": "n * 2"}],
    )
    result = pipeline.run_ingest(spec, DAY)
    assert {c.name: str(c.type) for c in result.segments[0].columns} == {
        "d": "string",
        "n": "long",
        "x": "double",
        "tags": "array<string>",
        "twice": "long",
    }
    assert rows_of(deep_storage, result.segments, "n", "twice") == Counter(
        (row["n"], 2 * row["n"]) for row in ROWS
    )


def test_rows_are_wanted_exactly_where_the_spec_says_so(
    pipeline: SparkPipeline, make_spec: MakeSpec
) -> None:
    frame = make_spec(input={"type": "frame", "frame": "arrow"})
    with pytest.raises(Invalid, match="hand them over"):
        pipeline.run_ingest(frame, DAY)
    with pytest.raises(Invalid, match="use one of them"):
        pipeline.run_ingest(make_spec(json_lines()), DAY, rows=arrow_rows())
    with pytest.raises(Invalid, match="rows of type int cannot be read"):
        pipeline.run_ingest(frame, DAY, rows=7)


def test_a_table_of_types_that_spark_lacks_goes_through_transforms_too(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    values = {
        "b": (pa.uint8(), 2**8 - 1),
        "s": (pa.uint16(), 2**16 - 1),
        "i": (pa.uint32(), 2**32 - 1),
        "l": (pa.uint64(), 2**64 - 1),
        "h": (pa.float16(), 1.5),
        "v": (pa.string_view(), "a text that is longer than twelve bytes"),
        "c": (pa.time32("s"), 3_723),
        "d": (pa.duration("ns"), 1),
    }
    table = pa.table(
        {
            "t": ["2024-01-01T00:00:00Z"],
            **{name: pa.array([value], kind) for name, (kind, value) in values.items()},
        }
    )
    results = [
        pipeline.run_ingest(
            make_spec(
                input={"type": "frame", "frame": "arrow"}, dimensions=list(values), transforms=how
            ),
            DAY,
            rows=table,
        )
        for how in ([], NOTHING)
    ]
    texts = {"c": "01:02:03", "d": "00:00:00.000000001"}
    expected = Counter([tuple(texts.get(name, str(one)) for name, (_, one) in values.items())])
    for result in results:
        assert rows_of(deep_storage, result.segments, *values) == expected
    with pytest.raises(Invalid, match="cannot become a Spark DataFrame"):
        pipeline.run_ingest(
            make_spec(input={"type": "frame", "frame": "arrow"}, transforms=NOTHING),
            DAY,
            rows=pa.table({"t": ["2024-01-01"], "u": pa.array([["x"]], pa.list_view(pa.string()))}),
        )


def test_names_with_dots_and_accents_go_through_transforms(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path, spark: SparkSession
) -> None:
    row = {"t": "2024-01-01T10:30:00Z", "user.id": "u", "a`b": "v", "": "nameless"}
    fields: dict[str, Any] = {
        "dimensions": {"useSchemaDiscovery": True},
        "transforms": [
            {"name": "sum", "expression": "concat(`user.id`, `a``b`)"},
            {"name": "hour.of", "expression": "hour(__time)"},
        ],
    }
    frame = spark.createDataFrame([{name: value for name, value in row.items() if name}])
    for spec, rows in (
        (make_spec(json.dumps(row), **fields), None),
        (make_spec(input={"type": "frame", "frame": "dataframe"}, **fields), frame),
    ):
        result = pipeline.run_ingest(spec, DAY, rows=rows)
        names = ("user.id", "a`b", "sum", "hour.of")
        assert rows_of(deep_storage, result.segments, *names) == Counter([("u", "v", "uv", 10)])


def test_expressions_over_a_data_frame_see_its_time(
    pipeline: SparkPipeline,
    make_spec: MakeSpec,
    deep_storage: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    frame = spark.createDataFrame(arrow_rows()).repartition(2)
    frame = frame.selectExpr("*", "named_struct('user-id', n, 'a b', array(d)) AS parts")
    spec = make_spec(
        input={"type": "frame", "frame": "dataframe"},
        dimensions=[{"name": "hour", "type": "long"}, {"name": "parts", "type": "json"}],
        transforms=[{"name": "hour", "expression": "hour(__time)"}],
    )
    with caplog.at_level("WARNING", "SQLQueryContextLogger"):  # as in a session of the user's
        result = pipeline.run_ingest(spec, DAY, rows=frame)
    assert [one for one in caplog.records if one.name == "SQLQueryContextLogger"] == []
    assert rows_of(deep_storage, result.segments, "hour", "parts") == Counter(
        (int(row["t"][11:13]), _compact({"user-id": row["n"], "a b": [row["d"]]})) for row in ROWS
    )


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(
    "value",
    ["parse_json('{}')", "array(parse_json('1'))", "map('k', named_struct('v', parse_json('1')))"],
)
def test_a_data_frame_with_variants_is_refused_in_a_sentence(
    spark: SparkSession, spark_store: Store, value: str
) -> None:
    sql = f"SELECT timestamp'2024-01-01 00:00:00' AS time, 1 AS n, {value} AS v"
    with pytest.raises(Invalid, match=r"'v' holds values of Spark's type variant.*to_json"):
        spark_store.ingest("variants", spark.sql(sql))
    spark_store.ingest("variants", spark.sql(f"SELECT time, n, to_json(v) AS v FROM ({sql})"))
    assert [row["n"] for row in spark_store.sql("SELECT n FROM variants").rows()] == [1]


@pytest.mark.parametrize("value", ["array()", "map()", "INTERVAL '1' MONTH"])
def test_a_data_frame_with_a_type_that_has_no_other_is_refused_in_a_sentence(
    spark: SparkSession, spark_store: Store, value: str
) -> None:
    frame = spark.sql(f"SELECT timestamp'2024-01-01 00:00:00' AS time, 1 AS n, {value} AS v")
    with pytest.raises(Invalid, match=r"column 'v' .* has no column type here; cast it to another"):
        spark_store.ingest("others", frame)
    spec = {"timestampSpec": {"column": "time"}, "transforms": NOTHING}
    with pytest.raises(Invalid, match=r"column 'v' .* has no column type here; cast it to another"):
        spark_store.ingest({"dataSource": "others", **spec}, frame)


def test_an_empty_data_frame_makes_no_segment(
    pipeline: SparkPipeline, make_spec: MakeSpec, spark: SparkSession
) -> None:
    spec = make_spec(input={"type": "frame", "frame": "dataframe"})
    frame = spark.createDataFrame(arrow_rows()).where("n > 1000")
    result = pipeline.run_ingest(spec, DAY, rows=frame)
    assert (result.segments, result.report.rows_read) == ((), 0)


def test_a_csv_with_several_values_in_a_cell_goes_through_transforms_too(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("t,d,n\n2024-01-01,b|a,1\n2024-01-01,c,2\n")
    files = {
        "type": "files",
        "paths": [str(path)],
        "format": {"type": "csv", "listDelimiter": "|"},
    }
    expected = Counter([(("a", "b"), 1), (("c",), 2)])
    for transforms in ({}, {"transforms": NOTHING}):
        result = pipeline.run_ingest(make_spec(input=files, **transforms), DAY)
        assert rows_of(deep_storage, result.segments, "d", "n") == expected


def test_a_data_frame_without_a_spec_may_hold_a_null_whose_parts_may_not_be_null(
    spark_store: Store, spark: SparkSession
) -> None:
    rows = spark.sql(
        "SELECT timestamp'2024-01-01' AS time, named_struct('x.y', 1, 'z', array(1, 2)) AS `a.b`"
        " UNION ALL SELECT timestamp'2024-01-02', NULL"
    )
    spark_store.ingest("t", rows)
    found = spark_store.sql('SELECT "a.b" AS value FROM t ORDER BY __time').rows()
    assert found == [{"value": '{"x.y":1,"z":[1,2]}'}, {"value": None}]
