"""The metadata store under many processes, and under processes that die at any moment."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import pytest

from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from tests.contract.conftest import Store
from tests.forking import FORK
from tests.integration import metadata_children as children
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import edited, table_counts

pytestmark = pytest.mark.slow
WRITERS = 16
APPENDS = 12
STATEMENTS_LIMIT = 60
"""More than a publish runs."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.sql)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/metadata.db"
    return cast("str", request.getfixturevalue("postgresql_url"))


def run_all(work: Callable[..., None], arguments: list[tuple[object, ...]]) -> list[int | None]:
    """Run `work` once for each tuple of arguments, all at the same time; return the exit codes."""
    processes = [FORK.Process(target=work, args=one) for one in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


def open_store(url: str) -> MetadataStore:
    store = open_metadata(url, clock=FakeClock(), ids=SequentialIds())
    assert isinstance(store, MetadataStore)
    return store


def picture(store: Store) -> tuple[object, ...]:
    """All that can be read of a store."""
    head = store.head().revision
    return (
        store.changes(after=0),
        [
            (info.name, tuple(store.visible(info.name)), store.chunks(info.name))
            for info in store.datasources()
        ],
        [store.datasources(revision) for revision in range(head + 1)],
        store.lookups(),
        store.leases(),
        store.find_batch("w", "1"),
        store.known_paths(),
        table_counts(store),
    )


def test_sixteen_processes_append_and_nothing_is_lost_or_doubled(database_url: str) -> None:
    assert (
        run_all(children.append_many, [(database_url, f"w{n}", APPENDS) for n in range(WRITERS)])
        == [0] * WRITERS
    )
    store = open_store(database_url)
    expected = {(f"w{n}", str(k)) for n, k in itertools.product(range(WRITERS), range(APPENDS))}
    commits = store.changes(after=0)
    assert [commit.revision for commit in commits] == list(range(1, len(expected) + 1))
    assert {(commit.writer, commit.batch) for commit in commits} == expected
    assert [commit.at_ms for commit in commits] == sorted(commit.at_ms for commit in commits)
    visible = [one.segment.segment_id for one in store.visible("events")]
    assert sorted(visible) == sorted(f"{writer}x{batch}" for writer, batch in expected)
    places = {
        (one.entry.chunk, one.entry.version, one.entry.partition_id)
        for one in store.visible("events")
    }
    assert len(places) == len(visible), "SG-1"
    assert store.check() == ()
    store.close()


def test_many_processes_create_one_store(database_url: str) -> None:
    assert run_all(children.open_once, [(database_url,)] * 6) == [0] * 6
    store = open_store(database_url)
    assert table_counts(store)["origin"] == 1
    store.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_any_statement_a_publish_is_there_wholly_or_not(
    database_url: str, memory_store: MetadataStore
) -> None:
    children.write_base(memory_store)
    store = open_store(database_url)
    children.write_base(store)
    before = picture(store)
    store.close()
    outcomes: list[bool] = []
    for statement in range(1, STATEMENTS_LIMIT):
        (code,) = run_all(children.publish_and_die, [(database_url, statement)])
        store = open_store(database_url)
        assert store.check() == ()
        is_there = store.head().revision == 4
        if not is_there:
            assert picture(store) == before, f"killed before statement {statement}"
        store.close()
        outcomes.append(is_there)
        if code == children.KILLED_NOWHERE:
            break
        assert code == -signal.SIGKILL
        assert not is_there, "what was killed before its COMMIT left something behind"
    assert outcomes[-1], "the last child was not killed, so its commit is there"
    assert len(outcomes) > 15, "a publish of this size has many statements"
    memory_store.publish(children.big_publication(memory_store))
    store = open_store(database_url)
    assert picture(store) == picture(memory_store)
    again = store.publish(children.replay())
    assert again.is_replay
    store.close()


@pytest.mark.timeout(600)
def test_killed_at_any_statement_each_that_shares_a_transaction_is_there_wholly_or_not(
    database_url: str,
) -> None:
    """What is there is the first so many, and all that were said to be done."""
    open_store(database_url).close()
    counts: list[int] = []
    for statement in range(1, STATEMENTS_LIMIT):
        ours, theirs = FORK.Pipe(duplex=False)
        child = FORK.Process(
            target=children.publish_together_and_die, args=(database_url, statement, theirs)
        )
        child.start()
        theirs.close()
        told = list(iter(partial(receive, ours), None))
        child.join(120)
        store = open_store(database_url)
        assert store.check() == ()
        found = [one for one in store.changes(after=0) if one.writer == f"w{statement}"]
        store.close()
        assert [one.batch for one in found] == [str(number) for number in range(len(found))]
        assert set(told) <= {(int(one.batch or ""), one.revision) for one in found}
        counts.append(len(found))
        if child.exitcode == children.KILLED_NOWHERE:
            break
        assert child.exitcode == -signal.SIGKILL
    assert counts[-1] == children.TOGETHER, "the last child was not killed"
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, children.TOGETHER}, "the first was alone in its transaction"


def receive(told: Connection) -> tuple[int, int] | None:
    """Return what a child says; None when it is gone."""
    try:
        found: tuple[int, int] = told.recv()
    except EOFError:
        return None
    return found


def test_a_file_that_is_no_database_is_corrupt(tmp_path: Path) -> None:
    from carnac.errors import Corrupt

    (tmp_path / "metadata.db").write_bytes(
        b"this is not a database, however long one looks at it" * 99
    )
    with pytest.raises(Corrupt):
        open_store(f"sqlite:///{tmp_path}/metadata.db")


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    from carnac.errors import Invalid

    url = f"sqlite:///{tmp_path}/metadata.db"
    open_store(url).close()
    with edited(tmp_path / "metadata.db") as link:
        link.execute("UPDATE carnac_version SET version_num = '9999'")
    with pytest.raises(Invalid, match="9999"):
        open_store(url)
