"""Nothing changes in silence: what a load changes is said in its report, or refused before it is published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import carnac
from carnac import Store
from carnac.errors import Invalid

DAY = {"segmentGranularity": "day"}
AT = "2024-03-04T09:00:00Z"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with carnac.open(tmp_path / "store", create=True) as opened:
        load(opened, [{"t": AT, "page": "Menhir", "n": 1}])
        yield opened


def spec(**more: Any) -> dict[str, Any]:
    block = {
        "dataSource": "edits",
        "timestampSpec": {"column": "t"},
        "dimensions": ["page", {"name": "n", "type": "long"}],
        "granularitySpec": DAY,
    }
    return {**block, **more}


def load(store: Store, rows: list[dict[str, Any]], **more: Any) -> tuple[str, ...]:
    done = store.append("edits", rows, spec=spec(**more))
    assert done.report is not None
    return done.report.notes


def with_n(kind: str) -> list[object]:
    return ["page", {"name": "n", "type": kind}]


def test_a_load_like_the_one_before_says_nothing(store: Store) -> None:
    assert load(store, [{"t": AT, "page": "Dolmen", "n": 2}]) == ()


def test_a_wider_type_is_told(store: Store) -> None:
    (note,) = load(store, [{"t": AT, "page": "a", "n": 0.5}], dimensions=with_n("double"))
    assert note == "column 'n' was long and is double from now on"


def test_a_type_that_breaks_queries_is_refused_and_may_be_allowed(
    store: Store, tmp_path: Path
) -> None:
    rows = [{"t": AT, "page": "a", "n": "many"}]
    with pytest.raises(Invalid, match=r"'n' is long, and would become string.*allow it") as caught:
        load(store, rows, dimensions=with_n("string"))
    assert "nothing was published" in caught.value.message
    assert store.head().revision == 1
    files = list((tmp_path / "store" / "deep-storage" / "segments").rglob("*.parquet"))
    assert len(files) == 1, "what was written for it is gone"
    allowed = {"tuningConfig": {"allowTypeChange": True}}
    (note,) = load(store, rows, dimensions=with_n("string"), **allowed)
    assert "would become string" in note
    assert store.sql("SELECT n FROM edits ORDER BY n").rows() == [{"n": "1"}, {"n": "many"}]


@pytest.mark.slow  # starts Spark
def test_a_column_that_differs_by_case_only_is_refused(store: Store) -> None:
    with pytest.raises(Invalid, match=r"'Page' differs only in case from 'page', .* published"):
        load(store, [{"t": AT, "Page": "a", "n": 1}], dimensions=["Page"])
    with pytest.raises(Invalid, match=r"'N' differs only in case from 'n'"):
        store.ingest(spec(dimensions=["page", "N"]), [{"t": AT, "page": "a", "N": 1}])
    assert store.head().revision == 1
    whole = [{"t": AT, "Page": "a"}]
    store.ingest(spec(mode="replace", intervals=["2024/2025"], dimensions=["Page"]), whole)
    assert store.sql("SELECT page FROM edits").rows() == [{"Page": "a"}]


def test_what_was_allowed_once_is_not_allowed_for_ever(store: Store) -> None:
    allowed = {"tuningConfig": {"allowTypeChange": True}}
    load(store, [{"t": AT, "page": "a", "n": 1}], **allowed)
    kept = store.append("edits", [{"t": AT, "page": "a", "n": 1}]).report
    assert kept is not None
    with pytest.raises(Invalid, match="allow it"):
        load(store, [{"t": AT, "page": "a", "n": "x"}], dimensions=with_n("string"))


def test_numbers_for_a_text_are_told(store: Store) -> None:
    dimensions = [{"name": "page", "type": "long"}, {"name": "n", "type": "long"}]
    (note,) = load(store, [{"t": AT, "page": 3, "n": 1}], dimensions=dimensions)
    assert note == "column 'page' is string, and this load's long is read as that"


@pytest.mark.parametrize("kind", ["table", "json", "nested json", "csv", "parquet", "texts"])
@pytest.mark.parametrize("transforms", [[], [{"name": "page", "expression": "upper(page)"}]])
def test_a_fraction_that_a_long_cuts_off_is_told(
    store: Store, tmp_path: Path, kind: str, transforms: list[dict[str, str]]
) -> None:
    values: list[Any] = [7.25, 7.0, -0.5, 1e3, None, 8]
    if kind in {"texts", "nested json"}:
        values = [None if value is None else f"{value}" for value in values]
    rows = [{"t": AT, "page": "Menhir", "n": value, "m": value} for value in values]
    source: Any = rows
    path = tmp_path / f"rows.{kind.rpartition(' ')[2]}"
    match kind:
        case "json" | "nested json":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "csv":
            pd.DataFrame(rows).to_csv(path, index=False)
        case "parquet":
            pd.DataFrame(rows).to_parquet(path)
    if path.exists():
        source = path
    m = {"name": "m", "type": "long"}
    done = store.append(
        "edits",
        source,
        spec=spec(dimensions=[*with_n("long"), m], transformSpec={"transforms": transforms}),
    )
    assert done.report is not None
    told = [note for note in done.report.notes if "fraction" in note]
    assert told == [
        f"2 rows have a fraction in '{name}', a long: it was cut off (a spec that declares a double keeps it)"
        for name in ("m", "n")
    ]
    kept = store.sql("SELECT n FROM edits WHERE m IS NOT NULL ORDER BY n").rows()
    assert [row["n"] for row in kept] == [0, 7, 7, 8, 1000]


def test_new_and_missing_columns_are_told(store: Store) -> None:
    notes = load(store, [{"t": AT, "page": "a", "who": "ana"}], dimensions=["page", "who"])
    assert notes == ("column 'who' (string) is new", "not filled by this load: n")


@pytest.mark.parametrize("name", ["__rows", "__ROWS", "__in_n", "__at_n", "__carnac_file"])
@pytest.mark.parametrize("is_file", [True, False])
def test_a_field_with_a_name_of_the_store_is_left_out_and_told(
    store: Store, tmp_path: Path, name: str, is_file: bool
) -> None:
    rows: Any = [{"t": AT, "page": "a", "n": 2, name: 3}]
    if is_file:
        (tmp_path / "rows.json").write_text(json.dumps(rows[0]))
        rows = tmp_path / "rows.json"
    for more in ({"spec": spec(dimensions={"useSchemaDiscovery": True})}, {"time": "t"}):
        datasource = "edits" if "spec" in more else "others"
        report = store.append(datasource, rows, **more).report
        assert report is not None
        (note,) = [one for one in report.notes if name in one]
        assert (
            note
            == f"left out, since the name is reserved for the store: {name}; rename it to keep it"
        )
        found = store.sql(f"SELECT * FROM {datasource} WHERE n = 2").rows()
        assert [{**row, "__time": 0} for row in found] == [{"__time": 0, "page": "a", "n": 2}]


KNOWN = {"n": 5, "d": 0.5, "j": {"a": 1}, "s": "x", "l": [1, 2]}
DISCOVERY = {"useSchemaDiscovery": True}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["rows", "file", "auto", "transform", "no spec"])
@pytest.mark.parametrize("empty", [None, []])
def test_a_field_without_values_keeps_the_type_of_its_column_and_makes_none(
    store: Store, tmp_path: Path, way: str, empty: Any
) -> None:
    names = [*KNOWN, "late"] if empty is None else ["j", "s", "l", "late"]
    dimensions: Any = DISCOVERY
    if way == "auto":
        dimensions = [{"name": name, "type": "auto"} for name in KNOWN]
    block = spec(dimensions=dimensions, dataSource="others", tuningConfig={"allowMissing": True})
    more: dict[str, Any] = {"spec": block}
    if way == "transform":
        more["spec"]["transforms"] = [{"name": "twice", "expression": "2"}]
    if way == "no spec":
        more = {}
    loads = [dict.fromkeys(names, empty), KNOWN, dict.fromkeys(names, empty), {**KNOWN, "late": 7}]
    if way == "auto":
        loads = loads[1:]
    for number, row in enumerate(loads):
        rows: Any = [{"t": AT, "page": "a", **row}]
        if way in {"file", "no spec"}:
            rows = tmp_path / f"{number}.json"
            rows.write_text(json.dumps({"t": AT, "page": "a", **row}))
        time = {"time": "t"} if way == "no spec" else {}
        done = store.append("others", rows, **more, **time)
        assert done.report is not None
        assert done.report.rejected.count == 0
    found = store.sql("SELECT * FROM others WHERE n IS NOT NULL").rows()
    expected = {**KNOWN, "j": '{"a":1}'}
    assert [{name: row[name] for name in KNOWN} for row in found] == [expected, expected]
    if way != "auto":
        assert sorted(row["late"] or 0 for row in found) == [0, 7]


def test_a_declared_column_of_nothing_but_nulls_is_told(store: Store) -> None:
    (note,) = load(store, [{"t": AT, "page": None, "n": 1}])
    assert note.startswith("nothing but nulls in page")


def test_another_granularity_is_told(store: Store) -> None:
    rows = [{"t": "2024-05-04", "page": "a", "n": 1}]
    (note,) = load(store, rows, granularitySpec={"segmentGranularity": "month"})
    assert note == "time chunks were made by DAY before, and are by MONTH from now on"


def test_seconds_that_were_read_as_milliseconds_are_told(store: Store) -> None:
    time = {"column": "t", "format": "millis"}
    (note,) = load(store, [{"t": 1_709_542_800, "page": "a", "n": 1}], timestampSpec=time)
    assert "1970" in note
    assert "posix" in note


def test_many_rejected_rows_are_told(store: Store) -> None:
    rows = [{"t": AT, "page": "a", "n": n} for n in range(4)]
    (note,) = load(store, [*rows, {"t": "never", "page": "a", "n": 1}])
    assert note == "1 of 5 rows was rejected, more than 10 %"


def test_rows_that_do_not_fit_a_kept_type_say_how_to_change_it(store: Store) -> None:
    rows = [{"t": AT, "page": "a", "n": "1"}, {"t": AT, "page": "a", "n": "many"}]
    remembered = store.append("edits", rows, allow_type_change=True)
    assert remembered.report is not None
    share, note = remembered.report.notes
    assert note.startswith("the type of n is that of earlier loads")
    assert "give a spec that says so" in note
    assert load(store, rows) == (share,), "who says the type need not be told where it is from"
    bad_time = store.append("edits", [*rows[:1], {"t": "never", "page": "a"}])
    assert bad_time.report is not None
    assert bad_time.report.notes == (share,), "a time is no column's type"
    done = store.append(
        "edits", rows, spec=spec(dimensions=with_n("string")), allow_type_change=True
    )
    assert done.report is not None
    assert done.report.rows_written == 2, "what the note says to do"


def test_a_change_of_type_may_be_allowed_beside_the_spec(store: Store) -> None:
    rows = [{"t": AT, "page": "a", "n": "many"}]
    done = store.append(
        "edits", rows, spec=spec(dimensions=with_n("string")), allow_type_change=True
    )
    assert done.revision == 2
