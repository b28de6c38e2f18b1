"""Places for many threads at once: few transactions, nobody's question lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

from carnac.core.log.allocation import AllocationReply, AllocationRequest, Denied, PendingSegment
from carnac.errors import Conflict, Invalid, Unavailable
from carnac.metadata.store import SqlMetadataStore
from carnac.metadata.temporary import TemporarySqliteDatabase
from carnac.overlord import allocation
from carnac.overlord.allocation import BATCH_LIMIT, QUEUE_LIMIT, AllocationService
from tests.support.clock import FakeClock, SequentialIds


class Slow(SqlMetadataStore):
    """A store whose transactions wait for a word; remembers how many requests each had."""

    def __init__(self) -> None:
        super().__init__(
            TemporarySqliteDatabase(created_at_ms=0), clock=FakeClock(), ids=SequentialIds()
        )
        self.batches: list[int] = []
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.error: Exception | None = None

    def allocate(self, requests: Sequence[AllocationRequest]) -> tuple[AllocationReply, ...]:
        self.entered.release()
        self.go_on.acquire()
        self.batches.append(len(requests))
        if self.error is not None:
            raise self.error
        return super().allocate(requests)


@pytest.fixture
def store() -> Iterator[Slow]:
    with closing(Slow()) as store:
        yield store


def asks(sequence: str, granularity: str = "day", at_ms: int = 0) -> AllocationRequest:
    return AllocationRequest(
        datasource="events",
        at_ms=at_ms,
        segment_granularity=granularity,
        sequence=sequence,
        owner="task",
    )


def in_threads(
    store: Slow, service: AllocationService, requests: Sequence[AllocationRequest], turns: int
) -> dict[str, object]:
    """Ask each from a thread of its own; the first waits in its transaction until all others are in the queue."""
    ends: dict[str, object] = {}

    def ask(request: AllocationRequest) -> None:
        try:
            (ends[request.sequence],) = service.allocate([request])
        except Exception as error:
            ends[request.sequence] = error

    threads = [threading.Thread(target=ask, args=(one,)) for one in requests]
    threads[0].start()
    store.entered.acquire()
    for count, thread in enumerate(threads[1:], start=1):
        thread.start()
        while service._queued < count:
            pass
    for _ in range(turns):
        store.go_on.release()
    for thread in threads:
        thread.join(30)
    return ends


def test_who_comes_while_others_are_served_shares_the_next_transaction(store: Slow) -> None:
    ends = in_threads(store, AllocationService(store), [asks(f"s{n}") for n in range(9)], 2)
    assert store.batches == [1, 8]
    numbers = [one.partition_id for one in ends.values() if isinstance(one, PendingSegment)]
    assert sorted(numbers) == list(range(9))


def test_those_who_shared_a_transaction_wait_for_each_other(
    store: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "COMPANY_S", 30)
    requests = [asks(name) for name in "abc"]
    service = AllocationService(store)
    service._shared_by = 3
    for _ in requests:
        store.go_on.release()
    threads = [threading.Thread(target=service.allocate, args=([one],)) for one in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert store.batches == [3]


def test_but_only_a_moment(store: Slow) -> None:
    service = AllocationService(store)
    service._shared_by = 3
    store.go_on.release()
    service.allocate([asks("a")])
    assert (store.batches, service._shared_by) == ([1], 1)


def test_nonsense_of_one_does_not_hit_the_others(store: Slow) -> None:
    requests = [asks("a"), asks("b"), asks("c", "no such granularity"), asks("d")]
    ends = in_threads(store, AllocationService(store), requests, 5)
    assert isinstance(ends["c"], Invalid)
    assert all(isinstance(ends[name], PendingSegment) for name in "abd")


def test_a_database_that_is_gone_is_gone_for_all(store: Slow) -> None:
    store.error = Unavailable("gone")
    ends = in_threads(store, AllocationService(store), [asks(name) for name in "abc"], 2)
    assert [type(end) for end in ends.values()] == [Unavailable] * 3
    store.error = None
    store.go_on.release()
    assert isinstance(AllocationService(store).allocate([asks("a")])[0], PendingSegment)


def test_too_much_is_refused(store: Slow) -> None:
    service = AllocationService(store)
    with pytest.raises(Invalid, match="at most 500"):
        service.allocate([asks(f"{n}") for n in range(BATCH_LIMIT + 1)])
    service._queued = QUEUE_LIMIT
    with pytest.raises(Unavailable, match="later"):
        service.allocate([asks("a")])


def test_a_denied_one_is_an_answer(memory_store: SqlMetadataStore) -> None:
    service = AllocationService(memory_store)
    service.allocate([asks("a")])
    (denied,) = service.allocate([asks("a", at_ms=10**11)])
    assert isinstance(denied, Denied)
    assert isinstance(denied.error, Conflict)
    assert [one.sequence for one in service.pending(owner="task")] == ["a"]
    assert service.release("task") == 1
