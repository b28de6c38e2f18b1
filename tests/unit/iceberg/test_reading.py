"""PyIceberg reads what SQL reads, at each revision: by the catalog, filters and snapshots included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from carnac import open as open_real
from carnac.clock import RandomIds, SystemClock
from carnac.core.iceberg import groups
from carnac.store import Store
from tests.support.stores import open_local_store
from tests.support.tables import Catalog, as_texts, open_catalog, rows_by_sql
from tests.unit.store.events import fast_folder

DAYS = {"segmentGranularity": "day", "queryGranularity": "none"}
EVENTS = ("druid", "events")
Append = Callable[..., int]


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as name:
        with open_local_store(Path(name), clock=SystemClock(), ids=RandomIds()):
            pass
        yield Path(name)


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with open_real(folder) as opened:
        yield opened


@pytest.fixture
def catalog(folder: Path, store: Store) -> Iterator[Catalog]:
    with open_catalog(folder) as found:
        yield found


@pytest.fixture
def append(store: Store) -> Append:
    def append_rows(*rows: dict[str, Any], datasource: str = "events", **how: Any) -> int:
        revision = store.append(datasource, list(rows), time=how.pop("time", "t"), **how).revision
        assert revision is not None
        return revision

    return append_rows


def compact(folder: Path, datasource: str = "events") -> None:
    """Compact all of a datasource; files are written in this process."""
    with open_local_store(folder, clock=SystemClock(), ids=RandomIds()) as opened:
        assert opened.compact_interval(datasource).groups


def files_read(table: Table, where: Any) -> int:
    return len(list(table.scan(row_filter=where).plan_files()))


def assert_alike(table: Table, store: Store, datasource: str = "events") -> None:
    """The newest state and each snapshot have the rows that SQL has, under the same names."""
    assert as_texts(table.scan().to_arrow()) == rows_by_sql(store, datasource)
    for one in table.snapshots():
        found = table.scan(snapshot_id=one.snapshot_id).to_arrow()
        assert as_texts(found) == rows_by_sql(store, datasource, one.snapshot_id)


TYPES = {
    "t": "2024-01-01T00:30:00.123Z", "text": "é", "number": -5, "part": 2.5, "flag": True,
    "words": ["a", None, "b"], "numbers": [1, 2], "parts": [0.5],
}  # fmt: skip


def test_all_types_as_the_files_have_them(append: Append, store: Store, catalog: Catalog) -> None:
    append(TYPES, {"t": "2024-01-01T00:31:00Z"})
    table = catalog.load_table(EVENTS)
    assert_alike(table, store)
    kinds = {one.name: str(one.field_type) for one in table.schema().fields}
    assert kinds == {
        "__time": "timestamptz", "text": "string", "number": "long", "part": "double",
        "flag": "boolean", "words": "list<string>", "numbers": "list<long>", "parts": "list<double>",
    }  # fmt: skip


def test_sketches_are_bytes_and_columns_of_metrics_alone_are_not_shown(
    append: Append, store: Store, catalog: Catalog
) -> None:
    spec = {
        "timestampSpec": {"column": "t"},
        "dimensionsSpec": {"dimensions": ["a"]},
        "metricsSpec": [
            {"type": "thetaSketch", "name": "users", "fieldName": "u"},
            {"type": "longLast", "name": "last", "fieldName": "n"},
            {"type": "count", "name": "count"},
        ],
        "granularitySpec": {"queryGranularity": "hour", "rollup": True},
    }
    rows = [{"t": f"2024-01-01T00:0{n}:00Z", "a": "x", "u": f"u{n}", "n": n} for n in range(5)]
    append(*rows, spec=spec, time=None)
    table = catalog.load_table(EVENTS)
    assert_alike(table, store)
    assert str(table.schema().find_type("users")) == "binary"
    assert [one.name for one in table.schema().fields if one.name.startswith("__at_")] == []


def test_a_float_that_becomes_a_double_is_read_as_one(
    append: Append, store: Store, catalog: Catalog
) -> None:
    for kind, value in (("float", 0.1), ("double", 0.3)):
        dimensions = {"dimensions": [{"type": kind, "name": "f"}]}
        spec = {"timestampSpec": {"column": "t"}, "dimensionsSpec": dimensions}
        append({"t": "2024-01-01T00:00:00Z", "f": value}, spec=spec, time=None)
    table = catalog.load_table(EVENTS)
    assert_alike(table, store)
    assert [str(one.field_type) for one in table.schema().fields] == ["timestamptz", "double"]
    assert files_read(table, EqualTo("f", 0.3)) == 1


@pytest.mark.parametrize("wanted", [0.0, -0.0])
def test_both_zeros_are_within_the_bounds(append: Append, catalog: Catalog, wanted: float) -> None:
    for value in (0.0, -0.0):
        append({"t": "2024-01-01T00:00:00Z", "f": value})
    assert files_read(catalog.load_table(EVENTS), EqualTo("f", wanted)) == 2


def test_columns_that_come(append: Append, store: Store, catalog: Catalog) -> None:
    first = append({"t": "2024-01-01T00:00:00Z", "a": "x"})
    append({"t": "2024-01-01T01:00:00Z", "b": 1, "a": "y"}, {"t": "2024-02-01T01:00:00Z", "c": 1.5})
    table = catalog.load_table(EVENTS)
    assert_alike(table, store)
    assert [one.name for one in table.schema().fields] == ["__time", "a", "b", "c"]
    before = table.scan(snapshot_id=first).projection()
    assert isinstance(before, Schema)
    assert [one.name for one in before.fields] == ["__time", "a"]


def test_a_type_that_iceberg_does_not_widen_is_refused_and_history_ends_there(
    append: Append, store: Store, catalog: Catalog
) -> None:
    append({"t": "2024-01-01T00:00:00Z", "a": 1})
    texts = {"timestampSpec": {"column": "t"}, "dimensionsSpec": {"dimensions": ["a"]}}
    append({"t": "2024-01-02T00:00:00Z", "a": "y"}, spec=texts, time=None, allow_type_change=True)
    with pytest.raises(RESTError, match="column 'a' is long in some segments and string"):
        catalog.load_table(EVENTS)
    newest = store.delete("events", interval="2024-01-01/P1D").revision
    table = catalog.load_table(EVENTS)
    assert [one.snapshot_id for one in table.snapshots()] == [newest]
    assert_alike(table, store)


@pytest.mark.slow
def test_replaced_compacted_deleted_and_clipped(
    append: Append, store: Store, catalog: Catalog, folder: Path
) -> None:
    for day in (1, 1, 2):
        append(*({"t": f"2024-01-0{day}T{hour:02}:30:00Z", "n": hour} for hour in range(0, 24, 3)))
    store.delete("events", interval="2024-01-01T05:00Z/2024-01-01T11:00Z")
    clipped = catalog.load_table(EVENTS)
    assert_alike(clipped, store)
    assert [len(one.delete_files) for one in clipped.scan().plan_files()].count(1) == 2
    compact(folder)
    deleted = store.delete("events", interval="2024-01-02/P1D").revision
    assert deleted is not None
    store.revert(deleted)
    append({"t": "2024-01-02T00:00:00Z", "n": 77})
    whole = catalog.load_table(EVENTS)
    assert_alike(whole, store)
    assert len(whole.snapshots()) == store.head().revision


def test_a_clip_that_hides_no_row_and_one_that_hides_all(
    append: Append, store: Store, catalog: Catalog
) -> None:
    append({"t": "2024-01-01T00:00:00Z", "n": 1}, {"t": "2024-01-01T12:00:00Z", "n": 2})
    store.delete("events", interval="2024-01-01T05:00Z/PT1H")
    table = catalog.load_table(EVENTS)
    assert_alike(table, store)
    assert [one.delete_files for one in table.scan().plan_files()] == [set()]


@pytest.mark.parametrize("granularity", ["hour", "day", "month", "all"])
def test_granularities_are_partitions_where_they_can_be(
    append: Append, store: Store, catalog: Catalog, granularity: str
) -> None:
    spec = {"granularitySpec": {"segmentGranularity": granularity, "queryGranularity": "none"}}
    rows = [{"t": f"2024-0{1 + n % 3}-0{1 + n % 7}T0{n % 4}:00:00Z", "n": n} for n in range(9)]
    append(*rows, spec={**spec, "timestampSpec": {"column": "t"}}, time=None)
    table = catalog.load_table(EVENTS)
    assert_alike(table, store)
    specs = {one.file.spec_id for one in table.scan().plan_files()}
    assert specs == {{"hour": 2, "day": 1}.get(granularity, 0)}
    late = GreaterThanOrEqual("__time", "2024-03-01T00:00:00+00:00")
    found = table.scan(row_filter=late).to_arrow()
    where = "SELECT * FROM events WHERE __time >= TIMESTAMP '2024-03-01'"
    assert as_texts(found) == as_texts(store.sql(where).arrow())
    if granularity != "all":
        assert files_read(table, late) < len(store.segments("events"))


def test_bounds_of_columns_prune_files(append: Append, catalog: Catalog) -> None:
    for n in range(4):
        append({"t": "2024-01-01T00:00:00Z", "n": n, "a": f"k{n}", "f": n / 2, "b": n > 1})
    table = catalog.load_table(EVENTS)
    for where, files in (("n", 2), ("a", "k2"), ("f", 1.0)):
        assert files_read(table, EqualTo(where, files)) == 1
    assert files_read(table, EqualTo("b", True)) == 2
    assert table.scan(row_filter=EqualTo("n", 3)).to_arrow()["a"].to_pylist() == ["k3"]


def test_a_tag_is_a_tag_and_the_newest_changes_are_snapshots(
    append: Append, store: Store, catalog: Catalog
) -> None:
    first = append({"t": "2024-01-01T00:00:00Z", "n": 1})
    append({"t": "2024-01-01T00:00:00Z", "n": 1}, datasource="other")
    store.tag("audit")
    store.tag("before", at=0)
    second = append({"t": "2024-01-01T00:00:00Z", "n": 2})
    table = catalog.load_table(EVENTS)
    assert {name: one.snapshot_id for name, one in table.refs().items()} == {
        "audit": first,
        "main": second,
    }
    assert [one.snapshot_id for one in table.history()] == [first, second]
    answer = catalog.client.get("/iceberg/v1/namespaces/druid/tables/events?snapshots=refs").json()
    ids = [one["snapshot-id"] for one in answer["metadata"]["snapshots"]]
    assert ids == [first, second]


def test_a_datasource_without_rows_is_no_table_and_has_none_where_it_had_none(
    append: Append, store: Store, catalog: Catalog
) -> None:
    append({"t": "2024-01-01T00:00:00Z", "n": 1}, datasource="my.events")
    empty = store.delete("my.events", interval="2024-01-01/P1D").revision
    assert catalog.list_tables("druid") == []
    assert not catalog.table_exists(("druid", "my.events"))
    with pytest.raises(NoSuchTableError, match="there is no datasource"):
        catalog.load_table(("druid", "my.events"))
    append({"t": "2024-01-02T00:00:00Z", "n": 2}, datasource="my.events")
    table = catalog.load_table(("druid", "my.events"))
    assert_alike(table, store, "my.events")
    assert table.scan(snapshot_id=empty).to_arrow().num_rows == 0
    assert catalog.list_tables("druid") == [("druid", "my.events")]


def test_a_column_that_is_called_as_the_elements_of_a_list_is_refused(
    append: Append, catalog: Catalog
) -> None:
    append({"t": "2024-01-01", "tags": ["a", "b"], "tags.of": "x"})
    assert catalog.load_table(EVENTS).scan().to_arrow().num_rows == 1
    append({"t": "2024-01-01", "tags.element": "a"}, allow_missing=True)
    with pytest.raises(RESTError, match=r"column 'tags.element' is called as Iceberg's clients"):
        catalog.load_table(EVENTS)


def test_columns_of_one_field_id_are_refused(
    append: Append, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append({"t": "2024-01-01T00:00:00Z", "a": 1, "b": 2})
    monkeypatch.setattr("carnac.core.segments.sql_columns._field_id", len)
    with pytest.raises(RESTError, match="columns a and b have one field id"):
        catalog.load_table(EVENTS)


def test_what_commits_leave_alone_keeps_its_manifests(
    append: Append, catalog: Catalog, folder: Path
) -> None:
    how = {"spec": {"timestampSpec": {"column": "t"}, "granularitySpec": DAYS}, "time": None}
    rows = [{"t": f"2024-0{month}-01T00:00:00Z", "n": month} for month in range(1, 7)]
    append(*rows, **how)
    catalog.load_table(EVENTS)
    before = _manifests(folder)
    append({"t": "2024-06-02T00:00:00Z", "n": 9}, **how)
    catalog.load_table(EVENTS)
    assert len(before) == 6
    assert len(_manifests(folder) - before) == 1


@pytest.mark.slow
def test_files_that_are_missing_are_written_again(
    append: Append, store: Store, catalog: Catalog, folder: Path
) -> None:
    append({"t": "2024-01-01T00:00:00Z", "n": 1}, {"t": "2024-01-01T12:00:00Z", "n": 2})
    store.delete("events", interval="2024-01-01T11:00Z/PT3H")
    catalog.load_table(EVENTS)
    place = folder / "deep-storage" / groups.folder_of("events")
    files = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    for path, data in files.items():
        path.unlink()
        assert_alike(catalog.load_table(EVENTS), store)
        assert path.read_bytes() == data


def _manifests(folder: Path) -> set[str]:
    place = folder / "deep-storage" / groups.folder_of("events") / groups.MANIFESTS
    return {path.name for path in place.iterdir()}


@pytest.mark.parametrize(
    "name", ["entries", "files", "manifests", "partitions", "snapshots", "history", "all_files"]
)
def test_pyiceberg_shows_what_a_table_is_made_of(
    catalog: Catalog, store: Store, append: Append, name: str
) -> None:
    """It wants sizes of columns, which the specification leaves open."""
    append(TYPES, {**TYPES, "t": "2024-01-01T12:00:00Z"}, {**TYPES, "t": "2024-01-02T12:00:00Z"})
    store.delete("events", interval="2024-01-01T10/2024-01-01T13")
    found = getattr(catalog.load_table(EVENTS).inspect, name)()
    assert found.num_rows
