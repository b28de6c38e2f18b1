"""Publishing for others: what whoever holds the writers' lock does for those who wait, and when it dies of it."""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.core.log.commits import Publication
from carnac.errors import Invalid, Revoked, Unavailable
from carnac.metadata import open_metadata
from carnac.metadata.mailboxes import _NOTICE
from carnac.metadata.store import SqlMetadataStore
from carnac.ports import LeaseKind, Published
from tests.forking import FORK
from tests.integration import metadata_children as children
from tests.logs import append_of, day, segment
from tests.support.postgresql import PostgreSQLServer
from tests.waiting import until

GUESTS = 3
STATEMENTS_LIMIT = 60


class Host:
    """A store that holds the writers' lock for as long as it is told to, in a thread."""

    def __init__(self, url: str) -> None:
        self.store = open_meeting(url)
        self._may_go_on = threading.Event()
        self._is_inside = threading.Event()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Hold the lock inside; at the end, do what others asked for meanwhile."""

        def work(_session: object) -> None:
            self._is_inside.set()
            assert self._may_go_on.wait(60)

        thread = threading.Thread(target=self.store._write, args=[work])
        thread.start()
        assert self._is_inside.wait(60)
        try:
            yield
        finally:
            self._may_go_on.set()
            thread.join(60)


def open_store(url: str, on_statement: Callable[[str], None] | None = None) -> SqlMetadataStore:
    store = open_metadata(url, clock=SystemClock(), ids=RandomIds(), on_statement=on_statement)
    assert isinstance(store, SqlMetadataStore)
    return store


def open_meeting(url: str, on_statement: Callable[[str], None] | None = None) -> SqlMetadataStore:
    """Open a store that others meet: on PostgreSQL it must have written before."""
    store = open_store(url, on_statement)
    children.meet_others(store)
    return store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.sql)])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return the URL of another new store at each call."""
    if request.param == "sqlite":
        numbers = itertools.count()
        return lambda: f"sqlite:///{tmp_path}/{next(numbers)}.db"
    server: PostgreSQLServer = request.getfixturevalue("postgresql_server")
    return lambda: server.create_database("combining")


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


@pytest.fixture
def host(url: str) -> Iterator[Host]:
    host = Host(url)
    yield host
    host.store.close()


class Guests:
    """Stores of their own, each with a thread; `statements` are those that they ran by themselves."""

    def __init__(self, url: str) -> None:
        self.statements: list[str] = []
        self.stores = [open_meeting(url, self.statements.append) for _ in range(GUESTS)]
        self.statements.clear()
        boxes = self.stores[0]._database.mailboxes
        assert boxes is not None
        self._folder = boxes.folder
        self._threads = ThreadPoolExecutor(GUESTS)

    def publish(self, publications: list[Publication]) -> list[Future[Published]]:
        """Have each guest publish one; return when all have asked the holder of the lock."""
        found = []
        for store, one in zip(self.stores, publications, strict=False):
            found.append(self._threads.submit(store.publish, one))
            until(lambda: self._waiting() == len(found), f"{len(found)} requests", period_s=0.001)
        return found

    def _waiting(self) -> int:
        """Count the notices that nobody has taken out of the inbox yet."""
        try:
            inbox = os.open(self._folder / "inbox", os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:  # who asks first makes it
            return 0
        try:
            held = bytearray(4)
            fcntl.ioctl(inbox, termios.FIONREAD, held)
        finally:
            os.close(inbox)
        return int.from_bytes(held, sys.byteorder) // _NOTICE.size

    def close(self) -> None:
        self._threads.shutdown()
        for store in self.stores:
            store.close()


@pytest.fixture
def guests(url: str) -> Iterator[Guests]:
    open_store(url).close()
    guests = Guests(url)
    yield guests
    guests.close()


def batch_of(number: int, *, again: int | None = None) -> Publication:
    """An append of one segment; `again` gives it the id of another one's."""
    one = append_of(segment(f"s{number if again is None else again}", day(1 + number % 2)))
    return replace(one, writer=f"guest{number}", batch="1", message=f"of {number}")


def test_the_holder_of_the_lock_publishes_for_those_who_wait(host: Host, guests: Guests) -> None:
    with host.busy():
        futures = guests.publish([batch_of(number) for number in range(GUESTS)])
    answers = [future.result(60) for future in futures]
    assert guests.statements == [], "they wrote nothing themselves"
    assert sorted(one.revision for one in answers) == [1, 2, 3]
    for number, answer in enumerate(answers):
        assert not answer.is_replay
        assert answer.commit == host.store.commit(answer.revision)
        assert answer.commit is not None
        assert (answer.commit.writer, answer.commit.message) == (f"guest{number}", f"of {number}")
    assert host.store.check() == ()


def test_a_batch_that_was_published_before_is_a_replay_for_others_too(
    host: Host, guests: Guests
) -> None:
    first = guests.stores[0].publish(batch_of(0))
    with host.busy():
        futures = guests.publish([batch_of(0), batch_of(1)])
    again, new = (future.result(60) for future in futures)
    assert (again.revision, again.is_replay, again.commit) == (first.revision, True, None)
    assert not new.is_replay
    assert host.store.head().revision == 2


def test_one_that_cannot_be_published_meets_its_error_and_its_neighbours_none(
    host: Host, guests: Guests
) -> None:
    host.store.publish(append_of(segment("s0", day(1))))
    without_lease = replace(batch_of(2), lease_id="nobody's")
    with host.busy():
        futures = guests.publish([batch_of(0, again=0), batch_of(1), without_lease])
    with pytest.raises(Invalid, match="the store has already"):
        futures[0].result(60)
    assert not futures[1].result(60).is_replay
    with pytest.raises(Revoked, match="lease"):
        futures[2].result(60)
    assert [one.segment.segment_id for one in host.store.visible("events")] == ["s0", "s1"]
    assert host.store.check() == ()


def test_a_lease_is_used_up_once_in_a_group(host: Host, guests: Guests) -> None:
    lease = host.store.acquire_lease(LeaseKind.WRITER, holder="test", ttl_ms=60_000).lease_id
    with host.busy():
        futures = guests.publish([replace(batch_of(n), lease_id=lease) for n in range(2)])
    outcomes = [future.exception(60) for future in futures]
    assert [type(one) for one in outcomes].count(Revoked) == 1, "the second found it released"
    assert host.store.head().revision == 1


def test_who_hears_nothing_takes_the_lock_and_does_it(host: Host, guests: Guests) -> None:
    """As when the holder dies after it took the request: nobody answers, and the lock is free."""
    with host.busy():
        futures = guests.publish([batch_of(0)])
        boxes = host.store._database.mailboxes
        assert boxes is not None
        until(lambda: len(boxes.collect(1)) == 1, "the notice, which nobody will answer now")
    assert not futures[0].result(60).is_replay
    assert "COMMIT" in guests.statements
    assert host.store.head().revision == 1


def test_a_request_for_an_older_store_of_the_same_file_is_left_alone(
    host: Host, guests: Guests
) -> None:
    """A store was removed and another made in its place, and a process has the old one open still."""
    host.store._queue._run_group.__self__.__dict__["_origin_ms"] = -1  # type: ignore[attr-defined]
    with host.busy():
        futures = guests.publish([batch_of(0)])
    assert not futures[0].result(60).is_replay
    assert "COMMIT" in guests.statements, "it was not done for it"


def test_those_on_their_way_travel_together_to_whoever_holds_the_lock(
    host: Host, guests: Guests
) -> None:
    guest = guests.stores[0]
    with host.busy():
        (first,) = guests.publish([batch_of(0)])
        others = [guest.publish_soon(batch_of(number)) for number in range(1, 4)]
    assert first.result(60).revision == 1
    assert [one.result(60).revision for one in others] == [2, 3, 4]
    assert [one.result().commit for one in others] == list(host.store.changes(after=1))


@pytest.mark.parametrize("publish", [SqlMetadataStore.publish, SqlMetadataStore.publish_soon])
def test_a_forked_child_may_not_write(
    host: Host, publish: Callable[[SqlMetadataStore, Publication], object]
) -> None:
    """Whatever the parent's threads are at when it is forked; nor does it close what is its parent's."""
    host.store.publish(append_of(segment("parent", day(1))))
    with host.busy():
        pid = os.fork()
        if pid == 0:
            try:
                publish(host.store, append_of(segment("child", day(1))))
            except Unavailable as error:
                host.store.close()
                os._exit(17 if "forked" in error.message else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
    assert host.store.head().revision == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_when_the_holder_is_killed_at_any_statement_each_waiting_append_is_there_once(
    url: str,
) -> None:
    """A child holds the lock until all guests have asked it, and dies before its n-th statement.

    Each is about a datasource of its own, which the child makes.
    """
    open_store(url).close()
    guests = Guests(url)
    published_by_the_dead = 0
    for statement in range(1, STATEMENTS_LIMIT):
        guests.statements.clear()
        entered, may_go_on = FORK.Event(), FORK.Event()
        child = FORK.Process(
            target=children.lead_and_die, args=(url, statement, entered, may_go_on)
        )
        child.start()
        assert entered.wait(60)
        names = [f"s{statement}x{number}" for number in range(GUESTS)]
        futures = guests.publish(
            [children.append_to(statement, name, number) for number, name in enumerate(names)]
        )
        may_go_on.set()
        answers: list[Any] = [future.result(60) for future in futures]
        child.join(60)
        published_by_the_dead += not guests.statements
        store = guests.stores[0]
        assert store.check() == ()
        visible = {one.segment.segment_id for one in store.visible(f"of{statement}")}
        is_over = child.exitcode == children.KILLED_NOWHERE
        assert visible == {*names, *([f"host{statement}"] if is_over else [])}
        for answer in answers:
            assert not answer.is_replay
            assert answer.commit == store.commit(answer.revision)
        if is_over:
            break
        assert child.exitcode == -signal.SIGKILL
    guests.close()
    assert statement > 8, "a group of this size has many statements"
    assert published_by_the_dead == 1, "the last child was not killed, and did it for all"
