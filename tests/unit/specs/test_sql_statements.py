"""INSERT and REPLACE as ingestion specs: what stands around the SELECT, external tables, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import carnac
from carnac.core.segments.segment import ColumnType
from carnac.core.time.intervals import ETERNITY, IntervalSet, parse_interval
from carnac.errors import Invalid
from carnac.specs.ingest.inputs import FilesInput, InlineInput, QueryInput
from carnac.specs.load import load_spec
from carnac.specs.sql.bounds import intervals_of
from carnac.specs.sql.external import take_externals
from carnac.specs.sql.statements import is_load_statement
from carnac.specs.sql.tokens import tokens_of
from carnac.specs.tasks.spec import IngestTask, load_task

CSV = '{"type": "csv", "findColumnsFromHeader": true}'
INLINE = f"""TABLE(EXTERN('{{"type": "inline", "data": "a,b\\nx,''1''"}}', '{CSV}'))"""
COLUMNS = 'EXTEND (a VARCHAR, "b c" BIGINT)'
SELECT = (
    f"SELECT TIME_PARSE(a) AS __time, * FROM {INLINE} {COLUMNS} AS e WHERE a <> 'PARTITIONED BY'"
)


def test_an_insert_appends() -> None:
    spec = load_spec(f'-- a comment\ninsert into druid."My edits" {SELECT} partitioned by HOUR;')
    assert (spec.datasource, spec.mode) == ("My edits", "append")
    assert isinstance(spec.input, QueryInput)
    assert spec.input.query == SELECT, "the SELECT is as it was written"
    assert str(spec.granularity.segment_granularity) == "HOUR"
    assert spec.partitions.type == "dynamic"
    assert load_spec(spec.to_json_dict()) == spec, "its own form says the same"


def test_a_replace_takes_the_place_of_all_or_of_bounds() -> None:
    whole = load_spec(f"REPLACE INTO e OVERWRITE ALL {SELECT} PARTITIONED BY ALL TIME")
    assert (whole.mode, whole.replace_scope) == ("replace", "intervals")
    assert whole.granularity.intervals == (ETERNITY,)
    assert whole.timestamp.missing_value is not None, "rows need no time where there is one chunk"
    bounds = "__time >= TIMESTAMP '2024-01-01' AND __time < TIMESTAMP '2024-01-02 00:00:00'"
    part = load_spec(
        f'REPLACE INTO e OVERWRITE WHERE {bounds} {SELECT} PARTITIONED BY DAY CLUSTERED BY a, "b c"'
    )
    assert part.granularity.intervals == (parse_interval("2024-01-01/2024-01-02"),)
    assert part.timestamp.missing_value is None
    assert part.partitions.type == "range"
    assert part.partitions.dimensions == ("a", "b c")


@pytest.mark.parametrize(
    ("text", "granularity"),
    [
        ("DAY", "DAY"),
        ("month", "MONTH"),
        ("'PT6H'", "SIX_HOUR"),
        ("FLOOR(__time TO YEAR)", "YEAR"),
        ("TIME_FLOOR(__time, 'P1D')", "DAY"),
        ("ALL", "ALL"),
    ],
)
def test_granularities(text: str, granularity: str) -> None:
    spec = load_spec(f"INSERT INTO e SELECT __time FROM f PARTITIONED BY {text}")
    assert str(spec.granularity.segment_granularity) == granularity


@pytest.mark.parametrize(
    ("condition", "intervals"),
    [
        ("__time = TIMESTAMP '2024-01-01'", ["2024-01-01T00:00:00Z/PT0.001S"]),
        ("\"__time\" > DATE '2024-01-01' AND (TIME_PARSE('2024-01-02') >= __time)", None),
        (
            "__time < '2024-01-01' AND __time >= '2023-12-31' OR __time >= '2024-02-01' AND __time < '2024-02-02'",
            ["2023-12-31/P1D", "2024-02-01/P1D"],
        ),
        ("__time >= '2024-01-02' AND __time < '2024-01-01'", []),
    ],
)
def test_bounds(condition: str, intervals: list[str] | None) -> None:
    found = intervals_of(tokens_of(condition))
    if intervals is None:
        [one] = found
        assert (one.start_ms, one.end_ms) == (1_704_067_200_001, 1_704_153_600_001)
    else:
        assert found == IntervalSet(tuple(map(parse_interval, intervals)))


def test_external_tables_become_names_where_they_stood() -> None:
    sql = f"SELECT a\nFROM {INLINE}\n {COLUMNS} AS e JOIN {INLINE} (x DOUBLE) USING (a)"
    text, found = take_externals(sql)
    assert len(text.splitlines()) == len(sql.splitlines())
    assert text.index(" AS e") == sql.index(" AS e"), "what follows keeps its place"
    first, second = found
    assert first.columns == {"a": ColumnType.STRING, "b c": ColumnType.LONG}
    assert second.columns == {"x": ColumnType.DOUBLE}
    assert isinstance(first.input, InlineInput)
    assert first.input.data == "a,b\nx,'1'"
    assert text.split()[3] == first.name != second.name


def test_a_signature_says_the_columns_too() -> None:
    signature = '[{"name": "a", "type": "string"}, {"name": "t", "type": "ARRAY<LONG>"}]'
    [found] = take_externals(f"SELECT 1 FROM {INLINE[:-2]}, '{signature}'))")[1]
    assert found.columns == {"a": ColumnType.STRING, "t": ColumnType.LONG_ARRAY}


def test_files_of_a_statement_are_read_below_folders_alone() -> None:
    source = '{"type": "local", "baseDir": "/data", "filter": "*.json"}'
    files = f"""TABLE(EXTERN('{source}', '{{"type": "json"}}')) (a VARCHAR)"""
    [found] = take_externals(f"SELECT 1 FROM {files}", within=["/data/in"])[1]
    assert isinstance(found.input, FilesInput)
    assert found.input.within == ("/data/in",)


def test_types_of_columns() -> None:
    kinds = "a VARCHAR(10), b DOUBLE, c REAL, d BOOLEAN, e VARCHAR ARRAY, f DOUBLE ARRAY, g TYPE('COMPLEX<json>')"
    [found] = take_externals(f"SELECT 1 FROM {INLINE} EXTEND ({kinds})")[1]
    assert [kind.value for kind in found.columns.values()] == [
        *("string", "double", "float", "boolean", "array<string>", "array<double>", "json")
    ]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"SELECT a FROM {INLINE} {COLUMNS}", "only INSERT and REPLACE read"),
        ("INSERT INTO e SELECT 1", "carnac ingest"),
        ("insert into extern (local(exportPath => '/x')) as csv select 1", "carnac sql -o FILE"),
        ("SELECT 'TABLE(EXTERN(' AS a", None),
    ],
)
def test_what_is_no_query_is_told_with_what_does_it(statement: str, said: str | None) -> None:
    with carnac.open("memory://statements", create=True) as store:
        if said is None:
            assert len(store.sql(statement).rows()) == 1
            return
        with pytest.raises(Invalid, match=said):
            store.sql(statement)


def test_a_select_alone_is_told_that_it_loads_nothing() -> None:
    with pytest.raises(Invalid, match="a SELECT alone loads nothing"):
        load_spec(f"-- rows\n{SELECT}")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO e SELECT 1", "needs PARTITIONED BY"),
        ("INSERT INTO e", "needs a SELECT"),
        ("INSERT INTO EXTERN(local(exportPath => '/x')) AS CSV SELECT 1", "carnac sql -o FILE"),
        ("INSERT INTO a.b.c SELECT 1 PARTITIONED BY DAY", "names one datasource"),
        ("INSERT INTO e (a) SELECT 1 PARTITIONED BY DAY", "columns go by their names"),
        ("INSERT INTO e SELECT 1 ORDER BY 1 PARTITIONED BY DAY", "CLUSTERED BY"),
        ("INSERT INTO e SELECT 1 PARTITIONED BY DAY CLUSTERED BY a DESC", "ascending"),
        ("INSERT INTO e SELECT 1 PARTITIONED BY DAY CLUSTERED BY 1", "names of columns"),
        ("INSERT INTO e SELECT 1 PARTITIONED BY 1", "is no granularity"),
        ("INSERT INTO e SELECT 1 PARTITIONED BY DAY; SELECT 1;", "more than one statement"),
        ("INSERT INTO e SELECT 1 PARTITIONED BY eon", "'eon' is not a granularity"),
        ("REPLACE INTO e SELECT 1 PARTITIONED BY DAY", "OVERWRITE ALL"),
        ("REPLACE INTO e OVERWRITE WHERE a = 1 SELECT 1 PARTITIONED BY DAY", "bounds of __time"),
        (
            "REPLACE INTO e OVERWRITE WHERE __time >= SELECT 1 PARTITIONED BY DAY",
            "bounds of __time",
        ),
        (
            "REPLACE INTO e OVERWRITE WHERE __time < '2024-01-01T05:00' SELECT 1 PARTITIONED BY DAY",
            "does not begin and end with a time chunk",
        ),
        (
            "REPLACE INTO e OVERWRITE WHERE __time < '2024' AND __time > '2025' SELECT 1 PARTITIONED BY DAY",
            "holds for no time",
        ),
        ("INSERT INTO e SELECT 'x PARTITIONED BY DAY", "has no end"),
        (f"INSERT INTO e SELECT 1 FROM {INLINE} PARTITIONED BY DAY", "needs its columns"),
        (f"INSERT INTO e SELECT 1 FROM {INLINE} (a) PARTITIONED BY DAY", "names and types"),
        (f"INSERT INTO e SELECT 1 FROM {INLINE} (t TIMESTAMP) PARTITIONED BY DAY", "TIME_PARSE"),
        (
            f"INSERT INTO e SELECT 1 FROM {INLINE} (a VARCHAR, A VARCHAR) PARTITIONED BY DAY",
            "twice",
        ),
        ("INSERT INTO e SELECT 1 FROM TABLE(S3('x')) PARTITIONED BY DAY", "nothing else"),
        ("INSERT INTO e SELECT 1 FROM TABLE(EXTERN('x')) PARTITIONED BY DAY", "two texts of JSON"),
        (
            "INSERT INTO e SELECT 1 FROM TABLE(EXTERN('x', '{}')) (a VARCHAR) PARTITIONED BY DAY",
            "is not JSON",
        ),
        (
            """INSERT INTO e SELECT 1 FROM TABLE(EXTERN('{"type": "http"}', '{"type": "json"}')) (a VARCHAR)
            PARTITIONED BY DAY""",
            "input source 'http' is not supported",
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(statement: str, said: str) -> None:
    with pytest.raises(Invalid, match=said.replace("(", r"\(")):
        load_spec(statement)


def test_a_task_of_a_statement() -> None:
    value: dict[str, Any] = {
        "type": "query_controller",
        "query": "INSERT INTO e SELECT __time FROM f PARTITIONED BY DAY",
        "context": {"rowsPerSegment": 1000, "priority": 3, "finalizeAggregations": False},
    }
    task = load_task(value)
    assert isinstance(task, IngestTask)
    assert (task.type, task.datasource, task.is_append) == ("query_controller", "e", True)
    assert task.spec.partitions.rows_per_segment == 1000
    assert task.context["priority"] == 3
    with pytest.raises(Invalid, match="query: is required"):
        load_task({"type": "query_controller"})
    with pytest.raises(Invalid, match="sql: unknown field"):
        load_task(value | {"sql": "SELECT 1"})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("insert into e", True),
        ("/* x */ REPLACE\nINTO e", True),
        ("dataSource: insert into", False),
        ("insert", False),
        ("", False),
        ("REPLACE INTO e SELECT '" + "x" * 500, True),
        ("it's: yaml", False),
    ],
)
def test_which_texts_are_statements(text: str, wanted: bool) -> None:
    assert is_load_statement(text) is wanted
