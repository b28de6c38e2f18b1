"""A cancel meets what its attempt asks for: one waits for the other, and nothing is left either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from carnac.core.log.allocation import Denied, PendingSegment
from carnac.core.tasks.events import CancelTask, ClaimAttempt
from carnac.errors import Revoked
from carnac.metadata import open_metadata
from tests import tasks
from tests.contract.conftest import Store
from tests.contract.test_metadata_store_allocation import DAY, SEGMENT_LOCK, asks
from tests.locks import wants
from tests.support.clock import FakeClock, SequentialIds
from tests.tasks import candidacy
from tests.waiting import PATIENCE_S, until

CANCEL = CancelTask(task_id="work", error="cancelled")
OWNER = "work/1"
Ask = Callable[[Store], object]
ASKS: list[Ask] = [
    lambda store: store.allocate([asks(owner=OWNER)]),
    lambda store: store.allocate([asks(owner=OWNER, lock=SEGMENT_LOCK)]),
    lambda store: store.change_locks(wants(OWNER, DAY)),
]


class Meeting:
    """Two connections: what `first` does is written and not committed yet when `second` begins, and waits."""

    def __init__(self, url: str, second: Store) -> None:
        self.url, self.second = url, second
        self.first = open_metadata(
            url, clock=FakeClock(), ids=SequentialIds("first-"), on_statement=self._at
        )
        self._then: Ask | None = None
        self._found: Future[object] | None = None
        self._pool = ThreadPoolExecutor(1)

    def close(self) -> None:
        self._pool.shutdown()
        self.first.close()

    def of(self, before: Ask, after: Ask) -> tuple[object, object]:
        """Return what both found; the one after it has begun before the one before it is there."""
        self._then = after
        found = before(self.first)
        assert self._found is not None
        return found, self._found.result(PATIENCE_S)

    def _at(self, statement: str) -> None:
        if statement != "COMMIT" or self._then is None:
            return
        then, self._then = self._then, None
        self._found = self._pool.submit(then, self.second)
        until(self._is_awaited, "a writer that waits for this one")

    def _is_awaited(self) -> bool:
        if self.url.startswith("sqlite"):
            return self.second._database._queue._waiter is not None
        with psycopg.connect(self.url) as link:
            waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            return link.execute(waits).fetchone() != (0,)


@pytest.fixture
def meeting(metadata_url: str, store: Store) -> Iterator[Meeting]:
    store.lead(candidacy())
    store.change_tasks(tasks.wants("work", retries=1))
    store.change_tasks(tasks.dispatch())
    store.change_tasks(ClaimAttempt(task_id="work", number=1, holder="process 17"))
    with closing(Meeting(metadata_url, store)) as one:
        yield one


@pytest.mark.parametrize("ask", ASKS, ids=["place", "place and lock", "lock"])
def test_a_cancel_that_commits_before_the_transaction_of_who_asks(
    meeting: Meeting, store: Store, ask: Ask
) -> None:
    def told(store: Store) -> object:
        try:
            return ask(store)
        except Revoked as error:
            return [Denied(error=error)]

    _, replies = meeting.of(lambda store: store.change_tasks(CANCEL), told)
    assert isinstance(replies, list | tuple)
    [reply] = replies
    assert isinstance(reply, Denied)
    assert isinstance(reply.error, Revoked)
    assert store.pending_segments() == ()
    assert store.locks() == ()


@pytest.mark.parametrize("ask", ASKS, ids=["place", "place and lock", "lock"])
def test_a_cancel_that_waits_for_it_takes_back_what_it_gave(
    meeting: Meeting, store: Store, ask: Ask
) -> None:
    got, _ = meeting.of(ask, lambda store: store.change_tasks(CANCEL))
    if isinstance(got, tuple):
        assert isinstance(got[0], PendingSegment)
    assert store.pending_segments() == ()
    assert store.locks() == ()
