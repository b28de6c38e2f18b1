"""A declared column that no row has is an error, and a load of which no row can be read is one, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import carnac
from carnac import Store
from carnac.errors import AllRejected, Invalid

AT = "2024-03-04T09:00:00Z"
SPEC: dict[str, Any] = {
    "dataSource": "edits",
    "timestampSpec": {"column": "t"},
    "dimensions": ["page", {"name": "added", "type": "long"}],
    "granularitySpec": {"segmentGranularity": "day"},
}
ROWS = [{"t": AT, "Page": "Menhir", "added": 1}]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with carnac.open(tmp_path / "store", create=True) as opened:
        yield opened


def as_json(folder: Path) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def as_csv(folder: Path) -> Path:
    path = folder / "rows.csv"
    path.write_text(f"t,Page,added\n{AT},Menhir,1\n")
    return path


def as_parquet(folder: Path) -> Path:
    path = folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize("make", [as_json, as_csv, as_parquet, lambda _: ROWS])
def test_a_declared_column_that_no_row_has_is_refused(
    store: Store, tmp_path: Path, make: Any
) -> None:
    rows = make(tmp_path)
    with pytest.raises(Invalid) as caught:
        store.append("edits", rows, spec=SPEC)
    assert caught.value.message == (
        "no row has the declared column 'page' (did you mean 'Page'?); nothing was published: correct the name, or"
        " take it as null (--allow-missing, tuningConfig.allowMissing)"
    )
    assert store.head().revision == 0
    files = list((tmp_path / "store" / "deep-storage").rglob("*.parquet"))
    assert files == [], "what was written for it is gone"
    done = store.append("edits", rows, spec=SPEC, allow_missing=True)
    assert done.report is not None
    assert done.report.notes == (
        "no row has the declared column 'page' (did you mean 'Page'?); it is null",
    )


@pytest.mark.parametrize(
    "allowed", [{"tuningConfig": {"allowMissing": True}}, {"context": {"allowMissing": True}}]
)
def test_a_spec_and_its_context_may_allow_it(store: Store, allowed: dict[str, Any]) -> None:
    assert store.append("edits", ROWS, spec={**SPEC, **allowed}).revision == 1
    with pytest.raises(Invalid, match="no row has the declared column 'page'"):
        store.append("edits", ROWS, spec=SPEC)


def test_what_an_earlier_load_declared_may_be_missing_and_is_told(store: Store) -> None:
    store.append("edits", [{"t": AT, "page": "Menhir", "added": 1}], spec=SPEC)
    done = store.append("edits", [{"t": AT, "added": 2}])
    assert done.report is not None
    assert done.report.notes == ("no row has the declared column 'page'; it is null",)


def test_one_row_with_the_field_is_enough_though_it_is_null(store: Store) -> None:
    done = store.append("edits", [{"t": AT, "page": None, "added": 1}], spec=SPEC)
    assert done.report is not None
    assert [note[:25] for note in done.report.notes] == ["nothing but nulls in page"]


METRICS: list[dict[str, Any]] = [
    {"type": "longSum", "name": "total", "fieldName": "Added"},
    {"type": "longLast", "name": "newest", "fieldName": "added", "timeColumn": "when"},
    {"type": "HLLSketchBuild", "name": "users", "fieldName": "user"},
]


@pytest.mark.parametrize(
    ("metric", "field", "rollup"),
    [
        (METRICS[0], "Added", True),
        (METRICS[0], "Added", False),
        (METRICS[1], "when", True),
        (METRICS[2], "user", True),
        (METRICS[2], "user", False),
    ],
)
def test_the_input_of_a_metric_is_declared_too(
    store: Store, metric: dict[str, Any], field: str, rollup: bool
) -> None:
    granularity = {"segmentGranularity": "day", "queryGranularity": "hour", "rollup": rollup}
    spec = {**SPEC, "dimensions": ["Page"], "metrics": [metric], "granularitySpec": granularity}
    with pytest.raises(Invalid, match=f"no row has the declared column '{field}'"):
        store.append("edits", ROWS, spec=spec)


def test_a_flattened_field_is_looked_for_at_its_path(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"t": AT, "user": {"name": None}}) + "\n")

    def spec(expr: str) -> dict[str, Any]:
        fields = [{"type": "path", "name": "who", "expr": expr}]
        shape = {"type": "json", "flattenSpec": {"fields": fields}}
        return {**SPEC, "dimensions": ["who"], "input": {"paths": ["?"], "inputFormat": shape}}

    with pytest.raises(Invalid, match="no row has the declared column 'who'"):
        store.append("edits", path, spec=spec("$.user.nam"))
    assert store.append("edits", path, spec=spec("$.user.name")).revision == 1


def test_no_row_at_all_lacks_nothing(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("t,Page,added\n")
    assert store.append("edits", path, spec=SPEC).revision is None


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"t": AT, "page": "a", "added": "x"}], "the only row was rejected: not a long: added;"),
        (
            [{"t": AT, "page": "a", "added": "x"}, {"t": "?", "page": "a", "added": "1"}] * 2,
            "all 4 rows were rejected: not a long: added (2), ",
        ),
    ],
)
def test_a_load_of_which_no_row_can_be_read_is_an_error(
    store: Store, tmp_path: Path, rows: list[dict[str, Any]], says: str
) -> None:
    with pytest.raises(AllRejected) as caught:
        store.append("edits", rows, spec=SPEC)
    assert caught.value.message.startswith(says)
    assert "nothing was published" in caught.value.message
    assert caught.value.exit_code == 9
    assert store.head().revision == 0
    kept = tmp_path / "store" / "deep-storage" / str(caught.value.ids["path"])
    assert pq.read_table(kept).num_rows == len(rows)


def test_a_row_that_is_filtered_out_is_not_rejected(store: Store) -> None:
    rows = [{"t": AT, "page": "a", "added": "x"}, {"t": AT, "page": "a", "added": "1"}]
    late = {**SPEC, "intervals": ["2030/2031"]}
    assert store.append("edits", rows, spec=late).revision is None
