"""Opening a store: cheap when it is up to date, careful when it is not."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from carnac.errors import Invalid, Unavailable
from carnac.metadata import open_metadata
from carnac.metadata.publish.queue import GROUP_LIMIT
from carnac.metadata.schema import migrate
from carnac.metadata.schema.layout import layout
from carnac.metadata.session import POSTGRESQL, SQLITE
from carnac.metadata.sql.dialects import statement
from carnac.metadata.store import MetadataStore
from tests.logs import append, append_of, day, names, segment
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import edited


def open_store(url: str) -> MetadataStore:
    store = open_metadata(url, clock=FakeClock(), ids=SequentialIds())
    assert isinstance(store, MetadataStore)
    return store


def test_an_up_to_date_store_opens_without_what_is_heavy(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/metadata.db"
    open_store(url).close()
    code = (
        "import sys\n"
        "from carnac.metadata import open_metadata\n"
        "from carnac.clock import RandomIds, SystemClock\n"
        f"store = open_metadata({url!r}, clock=SystemClock(), ids=RandomIds())\n"
        "assert store.head().revision == 0\n"
        "store.close()\n"
        "loaded = {'pyspark', 'duckdb', 'psycopg', 'pyarrow'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


LAYOUT = "0113 52f634e821b79464"


def test_tables_that_change_have_another_version() -> None:
    """Else a store that was made before the change is opened, and the first statement that needs it fails."""
    stated = layout(SQLITE) + layout(POSTGRESQL)
    found = f"{migrate.head_version()} {hashlib.sha256(stated.encode()).hexdigest()[:16]}"
    assert found == LAYOUT, "raise the version in STEPS, then LAYOUT"


@pytest.mark.sql
@pytest.mark.parametrize(
    ("path", "advice"),
    [("postgres@/missing?", "make it with createdb"), ("nobody@/postgres?", "correct the role")],
)
def test_what_the_server_refuses_says_what_to_do(
    path: str, advice: str, postgresql_url: str
) -> None:
    where = postgresql_url.partition("?")[2]
    with pytest.raises(Unavailable, match=advice):
        open_store(f"postgresql://{path}{where}")


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.sql)])
def test_an_older_store_goes_through_the_steps_that_it_lacks(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/metadata.db"
    if kind == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    store = open_store(url)
    append(store, segment("a", day(1)))
    store.close()
    later = [("9001", "CREATE TABLE new (id BIGINT);"), ("9002", "INSERT INTO new VALUES (7);")]
    steps = tuple((version, lambda _, stated=stated: stated) for version, stated in later)
    monkeypatch.setattr(migrate, "STEPS", migrate.STEPS + steps)
    for number in range(2):  # the second time there is nothing to do
        store = open_store(url)
        append(store, segment(f"b{number}", day(1)))
        with store._read() as session:
            found = session.rows(statement("SELECT id, version_num FROM new, carnac_version"))
            assert [tuple(row) for row in found] == [(7, "9002")]
        store.close()
    store = open_store(url)
    assert names(store) == ["a", "b0", "b1"]
    assert store.check() == ()
    store.close()


@pytest.mark.parametrize("version", ["0005", "9999"])
def test_a_store_of_another_layout_is_refused_and_stays_as_it_is(
    version: str, tmp_path: Path
) -> None:
    path = tmp_path / "metadata.db"
    open_store(f"sqlite:///{path}").close()
    with edited(path) as link:
        link.execute("UPDATE carnac_version SET version_num = ?", [version])
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(Invalid, match=f"^the metadata store has format {version}, of a newer "):
            open_store(f"sqlite:///{path}")
    assert path.read_bytes() == before


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
