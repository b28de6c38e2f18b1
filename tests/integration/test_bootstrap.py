"""Opening stores: where they are, what they remember, what is made late and closed once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import carnac
from carnac.bootstrap.store import Once, _driver_host, locate_store, open_store, process_name
from carnac.config import Settings
from carnac.errors import Conflict, Invalid, NotFound, Unavailable
from carnac.ports.storage import METADATA_FILE
from tests.e2e.cli import append_rows
from tests.support.clock import FakeClock, SequentialIds

ROWS = [{"__time": "2013-01-01T00:00:00Z", "n": 1}, {"__time": "2013-01-01T05:00:00Z", "n": 2}]


def count(place: object) -> int:
    with carnac.open(str(place)) as store:
        return int(str(store.sql("SELECT sum(n) AS n FROM flights").rows()[0]["n"]))


def test_a_directory_holds_everything_and_may_be_moved(tmp_path: Path) -> None:
    append_rows(tmp_path / "a", ROWS)
    (tmp_path / "a").rename(tmp_path / "b c?#%")
    assert count(tmp_path / "b c?#%") == 3
    assert not (tmp_path / "a").exists()


def test_a_sqlite_url_keeps_its_files_beside_it_or_where_they_were_put(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/meta.db"
    with carnac.open(url, create=True) as store:
        assert store.deep_storage.url == (tmp_path / "deep-storage").as_uri()
    elsewhere = f"sqlite:///{tmp_path}/other.db"
    with carnac.open(elsewhere, create=True, deep_storage=str(tmp_path / "files")) as store:
        assert store.deep_storage.url == (tmp_path / "files").as_uri()
    with carnac.open(elsewhere) as store:
        assert store.deep_storage.url == (tmp_path / "files").as_uri()


def test_a_store_whose_metadata_are_lost_is_not_made_anew_over_its_files(tmp_path: Path) -> None:
    """Its files would be garbage to the new one."""
    append_rows(tmp_path / "a", ROWS)
    saved = (tmp_path / "a" / METADATA_FILE).rename(tmp_path / "saved")
    for name in (tmp_path / "a", tmp_path / "b"):
        with pytest.raises(Invalid, match="holds segment files already: put their metadata back"):
            carnac.open(name, create=True, deep_storage=str(tmp_path / "a" / "deep-storage"))
    with pytest.raises(NotFound):
        carnac.open(tmp_path / "a")
    saved.rename(tmp_path / "a" / METADATA_FILE)
    assert count(tmp_path / "a") == 3


def test_a_deep_storage_is_one_stores(tmp_path: Path) -> None:
    """The files of the other would be garbage to each of two."""
    carnac.open(tmp_path / "a", create=True, deep_storage=str(tmp_path / "files")).close()
    with pytest.raises(Invalid, match=r"belongs to store \w+, and this is store \w+: give each"):
        carnac.open(tmp_path / "b", create=True, deep_storage=str(tmp_path / "files"))
    carnac.open(f"sqlite:///{tmp_path}/web.db", create=True).close()
    with pytest.raises(Invalid, match="delete its file carnac-store if that store is gone"):
        carnac.open(f"sqlite:///{tmp_path}/app.db", create=True)
    (tmp_path / "deep-storage" / "carnac-store").unlink()
    carnac.open(f"sqlite:///{tmp_path}/app.db", create=True).close()


def test_what_may_be_another_stores_is_no_garbage(tmp_path: Path) -> None:
    append_rows(tmp_path / "a", ROWS)
    owner = tmp_path / "a" / "deep-storage" / "carnac-store"
    mine = owner.read_text()
    with carnac.open(tmp_path / "a", safety_period_ms=0) as store:
        store.deep_storage.write("segments/events/append/theirs.parquet", b"rows")
        theirs = store.deep_storage.local_path("segments/events/append/theirs.parquet")
        assert theirs is not None
        os.utime(theirs, (0, 0))
        owner.write_text("another")
        for dry_run in (True, False):
            with pytest.raises(Invalid, match="belongs to store another"):
                store.gc(dry_run=dry_run)
        owner.write_text(mine)
        [gone] = store.gc().actions
        assert (gone.action, gone.path) == ("delete", "segments/events/append/theirs.parquet")


def test_where_deep_storage_is_not_mounted_nothing_is_written_collected_or_called_damaged(
    tmp_path: Path,
) -> None:
    files, away = tmp_path / "disk", tmp_path / "away"
    place = tmp_path / "events"
    carnac.open(place, create=True, deep_storage=str(files)).close()
    append_rows(place, ROWS)
    with carnac.open(place) as store:
        files.rename(away)
        files.mkdir()  # the folder at which it would be mounted
        for work in (
            lambda: store.append("events", [{"t": "2024-01-01T00:00:00Z", "id": 1}]),
            store.gc,
            lambda: list(store.verify()),
        ):
            with pytest.raises(Unavailable, match="has no file 'carnac-store', as if it were not"):
                work()
        assert list(files.iterdir()) == []
        files.rmdir()
        away.rename(files)
        assert list(store.verify()) == []
        assert store.head().revision == 1


def test_a_store_that_is_not_there_is_not_made_by_looking(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="carnac init"):
        carnac.open(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "  ", "mysql://host/db", "sqlite://", "ftp://x"])
def test_names_of_no_store(name: str) -> None:
    with pytest.raises(Invalid):
        locate_store(name)


def test_a_password_is_for_the_database_only() -> None:
    place = locate_store("postgresql://me:se:cret@db.example:5432/events")
    assert place.name == "postgresql://me:***@db.example:5432/events"
    assert place.metadata_url.get_secret_value() == "postgresql://me:se:cret@db.example:5432/events"
    assert "se:cret" not in f"{place} {place!r}"
    with pytest.raises(Invalid) as caught:
        locate_store("mysql://me:secret@db/events")
    assert "secret" not in f"{caught.value.message} {caught.value.ids}"


def test_relative_names_are_places_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate_store("events").file == tmp_path / "events" / METADATA_FILE
    assert locate_store("sqlite:///meta.db").file == tmp_path / "meta.db"
    assert locate_store(f"sqlite:///{tmp_path}/meta.db").file == tmp_path / "meta.db"
    assert locate_store("postgres://h/d").file is None


def test_rows_of_a_store_in_memory_are_read_again() -> None:
    """They were written where nobody looked for them."""
    with carnac.open("memory://") as store:
        store.append("events", [{"time": "2020-01-01", "n": 1}, {"time": "2020-01-02", "n": 2}])
        assert store.sql("SELECT sum(n) AS n FROM events").arrow().to_pylist() == [{"n": 3}]


def test_memory_stores_are_empty_and_apart() -> None:
    with carnac.open("memory://") as first, carnac.open("memory://") as second:
        first.set_lookup("a", {"x": "y"})
        assert first.head().revision == 1
        assert second.head().revision == 0


def test_settings_clock_and_ids_are_arguments(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(
        tmp_path / "s",
        create=True,
        settings=Settings(retention_count=7),
        clock=clock,
        ids=SequentialIds(),
        retention_daily=3,
    ) as store:
        assert (store.settings.retention_count, store.settings.retention_daily) == (7, 3)
        assert store.set_lookup("a", {"x": "y"}).at_ms == clock.now_ms()
    with pytest.raises(Invalid, match="no setting 'retention'"):
        carnac.open(tmp_path / "s", retention=3)


def test_what_is_made_late_is_made_once_and_closed_once() -> None:
    events: list[str] = []

    class Thing:
        def __init__(self) -> None:
            events.append("made")

        def close(self) -> None:
            events.append("closed")

    once = Once(Thing)
    once.close()
    assert events == []
    assert once() is once()
    once.close()
    once.close()
    assert events == ["made", "closed"]


@pytest.mark.slow
def test_opening_and_reading_metadata_imports_no_engine(tmp_path: Path) -> None:
    append_rows(tmp_path / "a", ROWS)
    probe = (
        "import sys, carnac\n"
        f"with carnac.open({str(tmp_path / 'a')!r}) as s: s.log(); s.datasources(); s.segments('flights')\n"
        "print([n for n in ('pyspark', 'duckdb', 'pyarrow', 'pandas', 'typer') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.sql
def test_a_store_on_postgresql_says_where_its_files_go_once(
    postgresql_url: str, tmp_path: Path
) -> None:
    with pytest.raises(NotFound, match="carnac init"):
        carnac.open(postgresql_url)
    with psycopg.connect(postgresql_url.replace("+psycopg", "")) as link:
        assert link.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchone() == (0,)
    with pytest.raises(Invalid, match="deep_storage"):
        carnac.open(postgresql_url, create=True)
    files = tmp_path / "files"
    with carnac.open(postgresql_url, create=True, deep_storage=str(files)) as store:
        assert store.set_lookup("a", {"x": "y"}).revision == 1
    with carnac.open(postgresql_url) as store:
        assert store.deep_storage.url == files.as_uri()
        assert store.lookups() == {"a": {"x": "y"}}
        store.revert(1)
        with pytest.raises(Conflict):
            store.revert(1)


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({"spark_master": "local[2]"}, "127.0.0.1"),
        ({"spark_master": "spark://127.0.0.1:7077"}, "127.0.0.1"),
        (
            {"spark_master": "yarn", "spark_conf": {"spark.driver.host": "driver.example"}},
            "driver.example",
        ),
    ],
)
def test_executors_ask_for_places_where_they_reach_the_driver(
    settings: dict[str, object], host: str
) -> None:
    assert _driver_host(Settings.model_validate(settings)) == host


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["/opt/bin/carnac", "serve"], "carnac"),
        (["/opt/lib/carnac/__main__.py", "overlord"], "carnac"),
        (["load.py"], "load.py"),
        ([""], "python"),
    ],
)
def test_a_process_is_named_by_its_command(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], command: str
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    assert process_name().startswith(f"{command}, process ")
