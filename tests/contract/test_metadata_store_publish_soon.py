"""One behaviour for every metadata store: publishing without waiting."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

import pytest

from carnac.core.log.commits import Publication
from carnac.errors import Conflict, Invalid, Revoked, Unavailable
from carnac.metadata import open_metadata
from carnac.ports import LeaseKind, Published
from tests.contract.conftest import Store
from tests.logs import append, append_of, day, names, replacement, segment
from tests.support.clock import FakeClock, SequentialIds

PATIENCE_S = 60
MANY = 100
"""More than a transaction takes."""


def batch_of(number: int) -> Publication:
    one = append_of(segment(f"s{number:03}", day(1 + number % 3)))
    return replace(one, writer="w", batch=str(number))


def results(futures: Sequence[Future[Published]]) -> list[Published]:
    return [future.result(PATIENCE_S) for future in futures]


def test_each_is_a_commit_of_its_own_in_the_order_given(store: Store) -> None:
    published = results([store.publish_soon(batch_of(number)) for number in range(MANY)])
    assert [one.revision for one in published] == list(range(1, MANY + 1))
    assert [one.commit for one in published] == list(store.changes(after=0))
    assert [commit.batch for commit in store.changes(after=0)] == [str(n) for n in range(MANY)]
    assert names(store) == [f"s{number:03}" for number in range(MANY)]


def test_it_comes_out_as_publishing_one_by_one(store: Store, memory_store: Store) -> None:
    other = memory_store
    for number in range(MANY):
        other.publish(batch_of(number))
    results([store.publish_soon(batch_of(number)) for number in range(MANY)])
    assert store.changes(after=0) == other.changes(after=0)
    assert store.chunks("events") == other.chunks("events")
    assert store.visible("events") == other.visible("events")


def test_an_error_is_in_its_own_future_and_those_behind_it_go_on(store: Store) -> None:
    append(store, segment("a", day(1)))
    late = replacement(store, day(1), segment("r", day(1)))
    futures = [
        store.publish_soon(replacement(store, day(1))),
        store.publish_soon(late),
        store.publish_soon(append_of(segment("a", day(2)))),
        store.publish_soon(replace(batch_of(1), lease_id="nobody's")),
        store.publish_soon(batch_of(2)),
    ]
    errors = [future.exception(PATIENCE_S) for future in futures]
    assert [type(error) for error in errors] == [type(None), Conflict, Invalid, Revoked, type(None)]
    assert [futures[0].result().revision, futures[4].result().revision] == [2, 3]
    assert names(store) == ["s002"]
    assert store.head().revision == 3


def test_a_batch_that_is_on_its_way_twice_is_published_once(store: Store) -> None:
    again = replace(append_of(segment("again", day(7))), writer="w", batch="1")
    first, second = results([store.publish_soon(batch_of(1)), store.publish_soon(again)])
    assert not first.is_replay
    assert second == replace(first, is_replay=True, commit=None)
    assert names(store) == ["s001"]


def test_a_lease_is_used_up_by_the_first(store: Store) -> None:
    lease = store.acquire_lease(LeaseKind.WRITER, holder="w", ttl_ms=60_000).lease_id
    futures = [store.publish_soon(replace(batch_of(n), lease_id=lease)) for n in range(2)]
    assert futures[0].result(PATIENCE_S).revision == 1
    assert isinstance(futures[1].exception(PATIENCE_S), Revoked)
    assert store.leases() == ()


def test_what_is_published_behind_it_comes_behind_it(store: Store) -> None:
    futures = [store.publish_soon(batch_of(number)) for number in range(MANY)]
    last = store.publish(batch_of(MANY))
    assert last.revision == MANY + 1
    assert [one.revision for one in results(futures)] == list(range(1, MANY + 1))


def test_threads_that_wait_and_one_that_does_not(store: Store) -> None:
    def work(thread: int) -> None:
        for number in range(10):
            one = append_of(segment(f"t{thread}x{number}", day(1)))
            store.publish(replace(one, writer=f"t{thread}", batch=str(number)))

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    results([store.publish_soon(batch_of(number)) for number in range(MANY)])
    for thread in threads:
        thread.join(PATIENCE_S)
    commits = store.changes(after=0)
    assert [commit.revision for commit in commits] == list(range(1, MANY + 41))
    for writer in ("w", "t0", "t1", "t2", "t3"):
        batches = [int(commit.batch or "") for commit in commits if commit.writer == writer]
        assert batches == list(range(MANY if writer == "w" else 10))


def test_a_callback_may_publish_and_wait_for_it(store: Store) -> None:
    found: list[int] = []
    is_told = threading.Event()

    def tell(future: Future[Published]) -> None:
        found.append(future.result().revision)
        found.append(store.publish(batch_of(1)).revision)
        found.append(
            store.publish_soon(batch_of(2)).add_done_callback(lambda _: is_told.set()) or 3
        )

    store.publish_soon(batch_of(0)).add_done_callback(tell)
    assert is_told.wait(PATIENCE_S)
    assert found == [1, 2, 3]
    assert store.head().revision == 3


def test_closing_waits_for_what_is_on_its_way(metadata_url: str, clock: FakeClock) -> None:
    store = open_metadata(metadata_url, clock=clock, ids=SequentialIds())
    futures = [store.publish_soon(batch_of(number)) for number in range(MANY)]
    store.close()
    assert [future.done() for future in futures] == [True] * MANY
    assert [one.revision for one in results(futures)] == list(range(1, MANY + 1))
    store.close()


def test_a_closed_store_refuses(metadata_url: str, clock: FakeClock) -> None:
    store = open_metadata(metadata_url, clock=clock, ids=SequentialIds())
    store.publish_soon(batch_of(0)).result(PATIENCE_S)
    store.close()
    with pytest.raises(Unavailable, match="closed"):
        store.publish_soon(batch_of(1))
