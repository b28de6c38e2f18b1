"""Opening a store: cheap when it is up to date, careful when it is not."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from carnac.core.locks.events import Granted
from carnac.errors import Invalid, Unavailable
from carnac.metadata import migrate, open_metadata, tables
from carnac.metadata.group_commit import GROUP_LIMIT
from carnac.metadata.store import SqlMetadataStore
from tests.locks import hours, wants
from tests.logs import append, append_of, day, names, replacement, segment
from tests.support.clock import FakeClock, SequentialIds


def open_store(url: str) -> SqlMetadataStore:
    store = open_metadata(url, clock=FakeClock(), ids=SequentialIds())
    assert isinstance(store, SqlMetadataStore)
    return store


def test_an_up_to_date_store_opens_without_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/metadata.db"
    open_store(url).close()
    code = (
        "import sys\n"
        "from carnac.metadata import open_metadata\n"
        "from carnac.clock import RandomIds, SystemClock\n"
        f"store = open_metadata({url!r}, clock=SystemClock(), ids=RandomIds())\n"
        "assert store.head().revision == 0\n"
        "store.close()\n"
        "loaded = {'alembic', 'pyspark', 'duckdb', 'psycopg', 'pyarrow'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_newest_migration_is_the_one_that_opening_looks_for() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).with_name("migrations")))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == migrate.HEAD_VERSION


def make_old_store(path: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a store as it was at a version: its tables, with what today's would hold after the same history."""
    today, url = path.with_name("today.db"), f"sqlite:///{path}"
    store = open_store(f"sqlite:///{today}")
    append(store, segment("a", day(1)), segment("b", day(2)))
    store.publish(replacement(store, day(1), segment("c", day(1))))
    store.put_tag("release", 1)
    store.close()
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "HEAD_VERSION", version)
        open_store(url).close()
    with contextlib.closing(sqlite3.connect(path)) as link:
        link.execute("ATTACH ? AS today", [str(today)])
        old = {
            name
            for (name,) in link.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")
        }
        for table in sorted(old - {tables.VERSION_TABLE}):
            kept = {row[1] for row in link.execute(f"PRAGMA today.table_info({table})")}
            mine = [row[1] for row in link.execute(f"PRAGMA main.table_info({table})")]
            columns = ", ".join(name for name in mine if name in kept)
            link.execute(f"DELETE FROM main.{table}")
            link.execute(
                f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM today.{table}"
            )
        link.commit()


@pytest.mark.parametrize(
    "version", [f"{number:04}" for number in range(1, int(migrate.HEAD_VERSION))]
)
def test_an_older_store_is_brought_up_to_date_and_keeps_what_it_has(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old_store(tmp_path / "metadata.db", version, monkeypatch)
    store = open_store(f"sqlite:///{tmp_path}/metadata.db")
    assert store.head().revision == 2
    assert names(store) == ["b", "c"]
    assert names(store, revision=store.resolve("release").revision) == ["a", "b"]
    append(store, segment("d", day(1)))
    assert names(store) == ["b", "c", "d"]
    granted = store.change_locks(wants("task", hours(0, 24)))
    assert isinstance(granted, Granted)
    assert store.locks() == (granted.lock,)
    assert set(store.table_counts()) == set(tables.METADATA.tables)
    assert store.check() == ()
    store.close()


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.sql)])
def test_migrations_make_the_tables_that_the_statements_name(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    url = f"sqlite:///{tmp_path}/metadata.db"
    if kind == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    open_store(url).close()
    engine = create_engine(url)
    with engine.connect() as link:
        context = MigrationContext.configure(link, opts={"version_table": tables.VERSION_TABLE})
        assert compare_metadata(context, tables.METADATA) == []
    engine.dispose()


def test_every_table_says_what_bounds_it() -> None:
    assert migrate.table_names().keys() == tables.METADATA.tables.keys()


@pytest.mark.parametrize("url", ["", "mysql://x/y", "sqlite:///", "/tmp/metadata.db", "postgres"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(Invalid, match="not the URL"):
        open_store(url)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot be opened"):
        open_store(f"sqlite:///{tmp_path}/file/metadata.db")


@pytest.mark.sql
def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        open_store(f"postgresql://nobody@/carnac?host={tmp_path}")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/metadata.db")
    store.close()
    with pytest.raises(Unavailable, match="closed"):
        store.head()
    with pytest.raises(Unavailable, match="closed"):
        append(store, segment("a", day(1)))


def test_many_threads_share_transactions_and_fail_alone(tmp_path: Path) -> None:
    """Of 4 threads for each place in a group, every third publishes what is invalid."""
    commits: list[str] = []
    store = open_metadata(
        f"sqlite:///{tmp_path}/metadata.db",
        clock=FakeClock(),
        ids=SequentialIds(),
        on_statement=lambda text: commits.append(text) if text == "COMMIT" else None,
    )
    count = GROUP_LIMIT * 4
    barrier = threading.Barrier(count)
    refused: list[int] = []

    def publish(number: int) -> None:
        one = append_of(segment(f"s{number}", day(1 + number % 3)))
        barrier.wait()
        try:
            store.publish(one if number % 3 else replace(one, base_revision=10**6))
        except Invalid:
            refused.append(number)

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(refused) == list(range(0, count, 3))
    assert names(store) == sorted(f"s{number}" for number in range(count) if number % 3)
    assert store.head().revision == count - len(refused)
    assert len(commits) < store.head().revision, "threads that wait together commit together"
    assert store.check() == ()
    store.close()


def test_a_group_that_breaks_is_repeated_one_by_one(tmp_path: Path) -> None:
    """A database error in one job (a segment id used twice) must not take the others with it."""
    store = open_store(f"sqlite:///{tmp_path}/metadata.db")
    append(store, segment("taken", day(1)))
    barrier = threading.Barrier(12)
    refused: list[str] = []

    def publish(name: str) -> None:
        barrier.wait()
        try:
            append(store, segment(name, day(1)))
        except Invalid:
            refused.append(name)

    wanted = [f"s{number}" for number in range(9)] + ["taken"] * 3
    threads = [threading.Thread(target=publish, args=(name,)) for name in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["taken"] * 3
    assert store.head().revision == 10
    assert names(store) == sorted({*wanted})
    assert store.check() == ()
    store.close()
