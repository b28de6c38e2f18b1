"""Rows of a SELECT that are fetched later: pages of so many rows and bytes, or none at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from carnac.bootstrap.store import open_store
from carnac.bootstrap.tasks import load_checked
from carnac.core.tasks.model import SELECTED
from carnac.errors import Invalid, Revoked
from carnac.ports import JobProgress
from carnac.specs.tasks.spec import SelectTask
from carnac.store import Store
from carnac.store.kept_rows import NeedsMore, keep_rows

NUMBERS = "SELECT range AS r FROM range(30000)"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("kept") / "store"
    with open_store(folder, create=True, query_async_bytes=1_000_000) as opened:
        rows = [{"t": f"2024-01-0{n}", "k": "abcde"[n - 1]} for n in range(1, 6)]
        opened.append("t", rows, time="t")
        yield opened


def select(query: str, **more: object) -> SelectTask:
    task = load_checked({"type": "query_controller", "query": query, **more})
    assert isinstance(task, SelectTask)
    return task


def keep(store: Store, task: SelectTask, name: str) -> Mapping[str, Any]:
    return keep_rows(store, task, name, on_progress=lambda _: None)


def rows_of(store: Store, page: Mapping[str, Any]) -> list[dict[str, Any]]:
    with store.deep_storage.open_read(page["path"]) as file, pa.ipc.open_stream(file) as reader:
        return cast("list[dict[str, Any]]", reader.read_all().to_pylist())


def test_pages_hold_the_rows_in_order(store: Store) -> None:
    report = keep(store, select("SELECT k FROM t ORDER BY k DESC", rowsPerPage=2), "a:b/1")
    assert [page["rows"] for page in report["pages"]] == [2, 2, 1]
    found = [row["k"] for page in report["pages"] for row in rows_of(store, page)]
    assert found == ["e", "d", "c", "b", "a"]
    assert report["rowStats"] == {"written": 5}
    assert report["revision"] == 1


def test_parameters_and_an_older_revision(store: Store) -> None:
    given = [{"type": "DATE", "value": "2024-01-02"}]
    task = select("SELECT ? AS d, count(*) AS n FROM t", parameters=given, at=1, maxRows=1)
    (row,) = rows_of(store, keep(store, task, "older/1")["pages"][0])
    assert (str(row["d"]), row["n"]) == ("2024-01-02", 5)


def test_a_page_has_so_many_bytes_at_most_and_a_result_so_many_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carnac.store.kept_rows.PAGE_BYTES", 80_000)
    monkeypatch.setattr("carnac.store.kept_rows.PAGES_MAX", 5)
    report = keep(store, select(NUMBERS, rowsPerPage=1), "bytes/1")
    assert [page["rows"] for page in report["pages"]] == [6_000] * 5
    report = keep(store, select(NUMBERS, rowsPerPage=30_000), "bytes/2")
    assert [page["rows"] for page in report["pages"]] == [10_000] * 3


def test_more_rows_than_may_be_kept_are_refused_and_nothing_stays(store: Store) -> None:
    with pytest.raises(Invalid, match="take more than 1,000,000 bytes; select fewer rows"):
        keep(store, select("SELECT * FROM range(1000000)"), "much/1")
    assert not list(store.deep_storage.list_files("results/much"))


def test_what_needs_more_than_there_is_is_not_tried_again(tmp_path: Path) -> None:
    slow = "SELECT count(*) FROM range(10000000) a, range(1000000) b"
    large = "SELECT list(a.range || 'some text'), list(random()) FROM range(20000000) a"
    with open_store(
        tmp_path / "store", create=True, query_timeout_ms=50, query_memory_limit_bytes=1 << 26
    ) as opened:
        with pytest.raises(NeedsMore, match="took more than the 50 ms") as slowness:
            keep(opened, select(slow), "slow/1")
        assert not slowness.value.retryable
    with (
        open_store(tmp_path / "store", query_memory_limit_bytes=1 << 26) as opened,
        pytest.raises(NeedsMore, match="needs more memory than the query engine may use"),
    ):
        keep(opened, select(large), "large/1")


def test_spark_is_asked_where_statements_may_ask_it(tmp_path: Path) -> None:
    with (
        open_store(tmp_path / "store", create=True, query_spark="never") as opened,
        pytest.raises(Invalid, match="no statement is run on Spark here"),
    ):
        keep(opened, select("SELECT 1", engine="spark"), "spark/1")


def test_an_attempt_that_is_not_wanted_any_more_ends(store: Store) -> None:
    def refuse(_: JobProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keep_rows(store, select(NUMBERS), "ended/1", on_progress=refuse)
    assert not list(store.deep_storage.list_files("results/ended"))


@pytest.mark.slow
def test_a_statement_that_nobody_wants_any_more_is_stopped_before_it_has_rows(
    tmp_path: Path,
) -> None:
    """It ran on in its thread until it was done."""
    phases = []

    def refuse(progress: JobProgress) -> None:
        phases.append(progress.phase)
        raise Revoked("cancelled")

    slow = "SELECT count(*) FROM range(10000000) a, range(1000000) b"
    with (
        open_store(tmp_path / "store", create=True, query_timeout_ms=60_000) as opened,
        pytest.raises(Revoked, match="cancelled"),
    ):
        keep_rows(opened, select(slow), "slow/1", on_progress=refuse)
    assert phases == ["runs the statement"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"query": "SELEC 1"}, "syntax error"),
        ({"query": "EXPLAIN SELECT 1"}, "EXPLAIN is answered at once"),
        ({"query": "SELECT 1", "rowsPerPage": 0}, "rowsPerPage"),
        ({"query": "SELECT ?", "parameters": [{"type": "X"}]}, "parameter 1 is of a type"),
        ({"query": "SELECT 1", "spec": {}}, "unknown field"),
    ],
)
def test_a_wrong_task_is_refused(fields: dict[str, object], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        load_checked({"type": "query_controller", **fields})


def test_it_is_about_no_datasource_and_takes_no_locks() -> None:
    task = select("SELECT 1")
    assert (task.datasource, task.is_append) == (SELECTED, None)
