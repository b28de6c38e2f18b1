"""What a process knows of its last transaction holds until another has written."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.metadata import open_metadata
from carnac.metadata.sql import statements
from carnac.metadata.store import MetadataStore
from tests.logs import append, names, segment

SPAN = "2013-01-01T05/2013-01-01T06"


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[MetadataStore, MetadataStore]]:
    url = f"sqlite:///{tmp_path}/metadata.db"
    with (
        closing(open_metadata(url, clock=SystemClock(), ids=RandomIds())) as one,
        closing(open_metadata(url, clock=SystemClock(), ids=RandomIds())) as other,
    ):
        yield one, other


def test_each_commit_follows_the_one_that_another_has_made(
    stores: tuple[MetadataStore, MetadataStore],
) -> None:
    turns = [0, 1, 0, 0, 1, 1, 1, 0, 1]
    revisions = [
        append(stores[at], segment(f"s{number}", SPAN)).revision for number, at in enumerate(turns)
    ]
    assert revisions == [*range(1, len(turns) + 1)]
    for store in stores:
        assert names(store) == [f"s{number}" for number in range(len(turns))]
        assert store.check() == ()


@pytest.mark.slow
def test_a_reader_at_an_old_state_keeps_no_writer_waiting_while_the_file_is_written_anew(
    stores: tuple[MetadataStore, MetadataStore],
) -> None:
    one, other = stores
    append(one, segment("a", SPAN))
    with other.one_state(), ThreadPoolExecutor() as threads:
        assert other.head().revision == 1
        append(one, segment("b", SPAN))
        assert not threads.submit(one.purge).result(30)
        append(one, segment("c", SPAN))
    assert one.purge()
    assert names(other) == ["a", "b", "c"]


def test_the_head_is_read_once_while_nobody_else_writes(tmp_path: Path) -> None:
    asked: list[str] = []
    url = f"sqlite:///{tmp_path}/metadata.db"
    clock, ids = SystemClock(), RandomIds()
    with (
        closing(open_metadata(url, clock=clock, ids=ids, on_statement=asked.append)) as store,
        closing(open_metadata(url, clock=clock, ids=ids)) as other,
    ):
        for number in range(3):
            append(store, segment(f"a{number}", SPAN))
        assert asked.count(statements.HEAD.sqlite.text) == 1
        append(other, segment("b", SPAN))
        append(store, segment("c", SPAN))
        assert asked.count(statements.HEAD.sqlite.text) == 2
