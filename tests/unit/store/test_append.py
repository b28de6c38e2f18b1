"""`append`: few rows in the caller's process, as an ingestion would have them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import carnac
from carnac import Store
from carnac.core.segments.segment import Segment
from carnac.core.texts import NAME_MAX
from carnac.errors import Invalid, NotFound
from carnac.ports import jobs
from carnac.sketches import estimate_hll
from tests.support.frames import polars

SPEC = {
    "dataSource": "edits",
    "timestampSpec": {"column": "time"},
    "dimensions": ["page", {"name": "added", "type": "long"}],
    "granularitySpec": {"segmentGranularity": "day"},
}
ROWS = [
    {"time": "2024-03-04T09:00:00Z", "page": "Menhir", "added": 120},
    {"time": "2024-03-05T10:00:00Z", "page": "Dolmen", "added": 7},
]


class Column(str, Enum):  # noqa: UP042 - what users have whose names are to be texts of their own
    TIME = "time"
    PAGE = "page"
    ADDED = "added"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with carnac.open(tmp_path / "store", create=True) as opened:
        yield opened


def pages(store: Store, order: str = "__time, page") -> list[tuple[object, ...]]:
    table = store.sql(f"SELECT page, added FROM edits ORDER BY {order}").arrow()
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize(
    "make",
    [
        list,
        lambda rows: [{Column(name): value for name, value in row.items()} for row in rows],
        pa.Table.from_pylist,
        pa.RecordBatch.from_pylist,
        pd.DataFrame,
        lambda rows: polars().DataFrame(rows),
    ],
    ids=["dicts", "dicts by an enumeration", "table", "batch", "pandas", "polars"],
)
def test_rows_of_every_kind_are_appended(store: Store, make: Callable[..., Any]) -> None:
    done = store.append("edits", make(ROWS), spec=SPEC)
    assert (done.revision, done.segments_added) == (1, 2), "a segment for each day"
    assert pages(store) == [("Menhir", 120), ("Dolmen", 7)]


def test_the_next_append_reads_rows_as_the_datasource_was_loaded(store: Store) -> None:
    store.append("edits", ROWS, spec=SPEC)
    at = datetime(2024, 3, 6, tzinfo=UTC)
    store.append("edits", [{"time": at, "page": "Cairn"}, {"added": 1, "time": at, "page": "C"}])
    assert pages(store)[2:] == [("C", 1), ("Cairn", None)]


def test_files_are_appended_by_path(store: Store, tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    bad = '{"time": "2024-03-04T09:00:00Z", "page": "Menhir", "added": "x"}\n' * 2
    lines.write_text(bad + '{"time": "2024-03-04T09:00:00Z", "page": "Cairn", "added": 1}\n')
    cells = tmp_path / "b.csv"
    cells.write_text("time,page,added\n2024-03-04T09:00:00Z,Dolmen,3\n")
    first = store.append("edits", lines, spec=SPEC)
    assert first.report is not None
    assert first.report.rejected.by_reason == {"not a long: added": 2}, "kept, with the reason"
    assert store.append("edits", [cells], spec=SPEC).segments_added == 1
    assert pages(store) == [("Cairn", 1), ("Dolmen", 3)]


@pytest.mark.parametrize(
    "names",
    [
        ("x[1].parquet", "x1.parquet"),
        ("year=2013/x.parquet", "y.parquet"),
        ("x*.parquet", "x?.parquet"),
    ],
)
def test_a_path_is_one_file_whatever_its_characters_mean_to_an_engine(
    store: Store, tmp_path: Path, names: tuple[str, str]
) -> None:
    for at, name in enumerate(names):
        path = tmp_path / "input" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {"page": ["p"], "year": [at], "file_row_number": [7 + at], "File_Index": [9]}
        pq.write_table(pa.table({"time": [ROWS[at]["time"]], **columns}), path)
        store.append("years", path)
    assert store.sql("SELECT * EXCLUDE (__time) FROM years ORDER BY __time").rows() == [
        {"page": "p", "year": at, "file_row_number": 7 + at, "File_Index": 9} for at in range(2)
    ]


@pytest.mark.slow
def test_appends_of_one_process_know_nothing_of_each_other(store: Store) -> None:
    other = {
        **SPEC,
        "dataSource": "other",
        "dimensions": ["page", {"name": "added", "type": "double"}],
    }
    at = "2024-03-04T09:00:00Z"
    for added in ("1", "bad", "3"):
        row = {"time": at, "page": "C", "added": added}
        store.append("edits", [row, {**row, "added": "2"}], spec=SPEC)
        done = store.append("other", [{**row, "added": 0.5}], spec=other)
        assert done.report is not None
        assert done.report.rejected.count == 0
    assert sorted(pages(store)) == [("C", 1), ("C", 2), ("C", 2), ("C", 2), ("C", 3)]
    found = store.sql("SELECT added FROM other").arrow()
    assert found.column("added").to_pylist() == [0.5] * 3


def test_a_batch_is_appended_once(store: Store) -> None:
    first = store.append("edits", ROWS, spec=SPEC, writer="w", batch="1")
    again = store.append("edits", ROWS, writer="w", batch="1")
    assert (again.revision, again.is_replay) == (first.revision, True)
    assert len(pages(store)) == 2


def test_appends_share_a_folder_and_one_that_fails_leaves_the_files_of_others(
    store: Store, tmp_path: Path
) -> None:
    def files() -> set[Path]:
        return set((tmp_path / "store").glob("**/segments/edits/*/*"))

    store.append("edits", ROWS, spec=SPEC)
    store.append("edits", ROWS, spec=SPEC)
    kept = files()
    assert (len(kept), len({one.parent for one in kept})) == (4, 1)
    with pytest.raises(Invalid, match="declared column 'added'"):
        store.append("edits", [{"time": ROWS[0]["time"], "page": "Cairn"}], spec=SPEC)
    assert files() == kept


def test_a_spec_that_was_changed_in_place_is_read_again(store: Store) -> None:
    spec = {**SPEC, "dimensions": ["page"]}
    store.append("edits", ROWS, spec=spec)
    spec["dimensions"].append({"name": "added", "type": "long"})
    store.append("edits", ROWS, spec=spec)
    assert sorted(pages(store), key=str) == [
        ("Dolmen", 7),
        ("Dolmen", None),
        ("Menhir", 120),
        ("Menhir", None),
    ]
    store.append("edits", [{"time": "2024-03-07T00:00:00Z", "page": "C", "added": 1}])
    assert ("C", 1) in pages(store), "the second one is declared"


def test_rolled_up_rows_are_one_row(store: Store) -> None:
    spec = {
        **SPEC,
        "dimensions": ["page"],
        "metrics": [{"type": "longSum", "name": "added", "fieldName": "added"}],
        "granularitySpec": {"segmentGranularity": "day", "queryGranularity": "hour"},
    }
    done = store.append("edits", [ROWS[0], ROWS[0]], spec=spec)
    assert done.report is not None
    assert (done.report.rows_read, done.report.rows_written) == (2, 1)
    assert pages(store) == [("Menhir", 240)]


FIRST, LAST = 1_704_067_200_000, 1_704_067_201_000


@pytest.mark.parametrize("column", ["t", "__time"])
@pytest.mark.parametrize("more", [{}, {"filter": "page = 'Menhir'"}])
@pytest.mark.parametrize("condition", [None, "page = 'Menhir'"])
def test_a_metric_over_the_time_is_made_of_what_was_parsed(
    store: Store, tmp_path: Path, column: str, more: Any, condition: str | None
) -> None:
    kinds = ["longMax", "doubleMin", "stringLast", "HLLSketchBuild"]
    spec = {
        "timestampSpec": {"column": column, "format": "millis"},
        "dimensions": ["page"],
        "transformSpec": more,
        "metrics": [
            {"type": kind, "name": kind, "fieldName": "__time", "filter": condition}
            for kind in kinds
        ],
        "granularitySpec": {"segmentGranularity": "day", "queryGranularity": "day"},
    }
    rows = [{column: at, "page": "Menhir"} for at in (FIRST, LAST)]
    (tmp_path / "rows.json").write_text("\n".join(map(json.dumps, rows)))
    for name, source in (("rows", rows), ("file", tmp_path / "rows.json")):
        store.append(name, source, spec={"dataSource": name, **spec})
        [found] = store.sql(f"SELECT * FROM {name}").rows()
        assert [found[kind] for kind in kinds[:3]] == [LAST, float(FIRST), str(LAST)]
        assert round(estimate_hll(found["HLLSketchBuild"])) == 2


def test_late_rows_are_in_the_ledger(store: Store) -> None:
    store.append("edits", ROWS, spec=SPEC)
    done = store.append("edits", ROWS[:1])
    assert done.report is not None
    assert done.report.rows_late == 1
    assert store.late("edits").total.rows == 1


def test_a_list_without_rows_changes_nothing_and_is_a_batch(store: Store) -> None:
    """A loop that appends what has arrived may have nothing."""
    store.append("edits", ROWS, spec=SPEC)
    assert store.append("edits", []).revision is None
    assert store.append("others", [], spec=SPEC | {"dataSource": "others"}).revision is None
    assert store.append("edits", [], writer="w", batch="1").is_replay is False
    again = store.append("edits", ROWS, writer="w", batch="1")
    assert again.is_replay is True
    assert store.sql("SELECT count(*) AS n FROM edits").rows() == [{"n": len(ROWS)}]


def test_a_spec_need_not_repeat_the_datasource_of_the_call(store: Store) -> None:
    spec = {name: value for name, value in SPEC.items() if name != "dataSource"}
    store.append("edits", ROWS, spec=spec)
    store.append("texts", ROWS, spec=json.dumps(spec))
    (row,) = store.sql("SELECT (SELECT count(*) FROM edits) AS a, count(*) AS b FROM texts").rows()
    assert row == {"a": len(ROWS), "b": len(ROWS)}


@pytest.mark.parametrize(
    ("rows", "spec", "says"),
    [
        ([{"a": 1}], None, "name one with --time"),
        ([7], SPEC, "row 1 is of type int, not a dict"),
        ([], None, "show no columns"),
        ([{}], SPEC, "show no columns"),
        (7, SPEC, "list of dicts"),
        (ROWS, {**SPEC, "dataSource": "others"}, "the spec is for datasource others"),
        (ROWS, {**SPEC, "mode": "replace"}, "use ingest"),
        (
            ROWS,
            {**SPEC, "transforms": [{"name": "x", "expression": "page rlike 'x'"}]},
            "use ingest",
        ),
        (ROWS, {**SPEC, "transforms": [{"name": "x", "expression": "added || 1.5"}]}, "use ingest"),
        (ROWS, {**SPEC, "transformSpec": {"filter": "pag = 'x'"}}, "did you mean 'page'"),
        (ROWS, {**SPEC, "filter": 1}, "filter"),
        ([{"page": "soon"}], SPEC, "no column 'time'"),
    ],
)
def test_what_cannot_be_appended_is_refused(
    store: Store, rows: object, spec: dict[str, object] | None, says: str
) -> None:
    with pytest.raises(Invalid, match=says):
        store.append("edits", rows, spec=spec)
    assert store.head().revision == 0


def test_a_missing_file_is_named(store: Store) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        store.append("edits", "nowhere.csv", spec=SPEC)


def test_more_than_an_append_takes_is_for_ingest(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from carnac.jobs.ingest import here

    assert here.APPEND_ROWS_MAX is jobs.APPEND_ROWS_MAX
    monkeypatch.setattr(here, "APPEND_ROWS_MAX", 1)
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"time": "2024-03-04T09:00:00Z"}\n' * 2)
    for rows in (ROWS, lines):
        with pytest.raises(
            Invalid, match="2 rows are more than the 1 that append takes; use ingest"
        ):
            store.append("edits", rows, spec=SPEC)
    monkeypatch.setattr(here, "APPEND_BYTES_MAX", 10)
    for rows in (ROWS, lines):
        with pytest.raises(Invalid, match=r"MB is more than the .* use ingest"):
            store.append("edits", rows, spec=SPEC)
    assert store.head().revision == 0
    files = list((tmp_path / "store" / "deep-storage").rglob("*.parquet"))
    assert files == []


def test_appends_start_no_java(store: Store) -> None:
    import sys

    loaded = set(sys.modules)
    store.append("edits", ROWS, spec=SPEC)
    assert not {name for name in set(sys.modules) - loaded if name.startswith(("pyspark", "py4j"))}


COMPUTED = {
    **SPEC,
    "dimensions": ["who", {"name": "twice", "type": "long"}],
    "transformSpec": {
        "transforms": [
            {"name": "who", "expression": "concat(upper(trim(page)), '-', hour(__time))"},
            {"name": "twice", "expression": "added * 2"},
        ],
        "filter": "added > 0 AND who <> 'X-0'",
    },
    "metrics": [{"type": "count", "name": "large", "filter": "added > 100"}],
}


@pytest.mark.parametrize("name", [None, "rows.jsonl", "rows.parquet"])
def test_transforms_and_filters_that_mean_the_same_are_computed(
    store: Store, tmp_path: Path, name: str | None
) -> None:
    table = pa.Table.from_pylist([*ROWS, {"time": "2024-03-05", "page": "x", "added": -1}])
    rows: object = table
    if name is not None:
        path = tmp_path / name
        if name.endswith("jsonl"):
            table.to_pandas().to_json(path, orient="records", lines=True)
        else:
            pq.write_table(table, path)
        rows = path
    done = store.append("edits", rows, spec=COMPUTED)
    assert done.report is not None
    assert (done.report.rows_read, done.report.rows_filtered) == (3, 1)
    found = store.sql("SELECT who, twice, large FROM edits ORDER BY who").rows()
    assert found == [
        {"who": "DOLMEN-10", "twice": 14, "large": 0},
        {"who": "MENHIR-9", "twice": 240, "large": 1},
    ]


@pytest.mark.parametrize("name", [None, "rows.parquet"])
def test_a_transform_of_the_time_sees_the_time(
    store: Store, tmp_path: Path, name: str | None
) -> None:
    rows: object = ROWS
    if name is not None:
        rows = tmp_path / name
        pq.write_table(pa.Table.from_pylist(ROWS), rows)
    made = [{"name": "__time", "expression": "date_trunc('MONTH', __time)"}]
    store.append("edits", rows, spec={**SPEC, "transformSpec": {"transforms": made}})
    assert store.sql("SELECT __time AS t, count(*) AS n FROM edits GROUP BY 1").rows() == [
        {"t": datetime(2024, 3, 1, tzinfo=UTC), "n": 2}
    ]


def test_a_value_that_only_spark_computes_ends_the_append(store: Store) -> None:
    rows = [*ROWS, {"time": "2024-03-05T00:00:00Z", "page": "Straße", "added": 1}]
    with pytest.raises(Invalid, match="otherwise than Spark: 'Straße'; use ingest"):
        store.append("edits", rows, spec=COMPUTED)
    assert store.head().revision == 0


def test_rows_that_cannot_be_read_go_to_quarantine_beside_transforms(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"time": "2024-03-04T09:00:00Z", "page": "Menhir", "added": 1}\n{no json\n'
        '{"time": "2024-03-04T09:00:00Z", "page": "Menhir", "added": "x"}\n'
    )
    done = store.append(
        "edits", path, spec={**COMPUTED, "dimensions": ["who", {"name": "added", "type": "long"}]}
    )
    assert done.report is not None
    assert done.report.rejected.by_reason == {"malformed json": 1, "not a long: added": 1}
    assert (done.report.rows_read, done.report.rows_written) == (3, 1)


def test_typed_rows_make_the_same_segments_as_their_text(store: Store) -> None:
    """The engine reads text; typed rows need none, on time and late."""
    at = [datetime(2024, 3, day, 9, second=day, tzinfo=UTC) for day in (4, 6, 5, 5)]
    typed = pa.table({"time": at, "page": ["b", None, "a", "a"], "added": [1, 2, None, 3]})
    text = typed.set_column(0, "time", pa.array([one.isoformat() for one in at]))
    found = []
    for name, rows in (("typed", typed), ("text", text)):
        spec = {**SPEC, "dataSource": name}
        for _ in range(2):
            store.append(name, rows, spec=spec)
        segments = [item.segment for item in store.segments(name)]
        found.append([(*_facts(one), one.late) for one in segments])
    assert found[0] == found[1]
    assert any(late for *_, late in found[0])


def _facts(segment: Segment) -> tuple[object, ...]:
    """What a segment says of its file."""
    return (
        segment.chunk,
        segment.rows,
        segment.checksum,
        segment.columns,
        segment.row_hash,
        segment.min_time_ms,
        segment.max_time_ms,
    )


@pytest.mark.parametrize("letter", ["x", "é", "日", "😀", "."])
def test_a_datasource_may_have_the_longest_name(store: Store, letter: str) -> None:
    """Where its files are, a letter may take twelve."""
    names = [letter * NAME_MAX, letter * (NAME_MAX - 1) + "z"]
    for name in names:
        store.append(name, [*ROWS, {"time": "never"}], spec={**SPEC, "dataSource": name})
    for name in names:
        assert store.sql(f'SELECT count(*) AS n FROM "{name}"').rows() == [{"n": 2}]
    assert not list(store.verify())
