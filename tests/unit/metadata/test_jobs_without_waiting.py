"""The queue's jobs that nobody waits for: their thread, their futures, room, taking back, Ctrl-C beside them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

import pytest

from carnac.errors import Unavailable
from carnac.metadata.publish import queue as group_commit
from carnac.metadata.publish.queue import GROUP_LIMIT, CommitQueue
from tests.unit.metadata.test_group_commit import Groups, start, waiting
from tests.waiting import until

PATIENCE_S = 60


def held_up() -> tuple[Groups, CommitQueue, Future[None]]:
    """Return a queue whose thread is at its first job."""
    groups = Groups()
    queue = CommitQueue(groups.run, lambda: None)
    first = queue.submit_soon(lambda _session: None)
    assert groups.has_begun.wait(PATIENCE_S)
    return groups, queue, first


def serving() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "carnac-commits"]


def test_they_share_transactions_in_order_and_their_thread_ends_with_them() -> None:
    groups, queue, first = held_up()
    done: list[int] = []
    futures = [
        queue.submit_soon(lambda _session, n=number: done.append(n))
        for number in range(GROUP_LIMIT + 3)
    ]
    assert len(serving()) == 1
    assert not first.done()
    groups.may_go_on.set()
    for future in futures:
        future.result(PATIENCE_S)
    assert done == list(range(GROUP_LIMIT + 3))
    assert groups.sizes == [1, GROUP_LIMIT, 3]
    until(lambda: not serving(), "the end of the thread", period_s=0.001)


def test_a_thread_that_waits_and_jobs_that_do_not_keep_their_order() -> None:
    groups, queue, _ = held_up()
    done: list[str] = []
    thread = start(queue, lambda _session: done.append("waited for"))
    waiting(queue, 1)
    last = queue.submit_soon(lambda _session: done.append("not waited for"))
    groups.may_go_on.set()
    last.result(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert done == ["waited for", "not waited for"]


def test_who_waited_leads_those_behind_it_and_gives_them_a_thread_at_its_end() -> None:
    groups = Groups()
    queue = CommitQueue(groups.run, lambda: None)
    done: list[int] = []
    thread = start(queue, lambda _session: done.append(-1))
    assert groups.has_begun.wait(PATIENCE_S)
    futures = [queue.submit_soon(lambda _session, n=number: done.append(n)) for number in range(3)]
    assert serving() == []
    groups.may_go_on.set()
    for future in futures:
        future.result(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert done == [-1, 0, 1, 2]


def test_those_who_were_told_together_are_waited_for_until_half_are_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "GATHER_MS", PATIENCE_S * 1000)
    groups, queue, _ = held_up()
    together = [queue.submit_soon(lambda _session: None) for _ in range(4)]
    groups.may_go_on.set()
    for future in together:
        future.result(PATIENCE_S)
    first = queue.submit_soon(lambda _session: None)
    second = start(queue, lambda _session: None)
    first.result(PATIENCE_S)
    second.join(PATIENCE_S)
    queue.submit(lambda _session: None)
    assert groups.sizes == [1, 4, 2, 1]


def test_an_interrupted_leader_takes_its_job_back(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Ctrl-C while the main thread waits for others to come back."""
    monkeypatch.setattr(group_commit, "GATHER_MS", PATIENCE_S * 1000)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs us may ignore it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    groups, queue, _ = held_up()
    together = [queue.submit_soon(lambda _session: None) for _ in range(8)]
    groups.may_go_on.set()
    for future in together:
        future.result(PATIENCE_S)
    until(lambda: not serving(), "the end of the thread", period_s=0.001)

    def interrupt() -> None:
        until(lambda: queue._awaited, "one that waits for others", period_s=0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        queue.submit(lambda _session: done.append(1))
    helper.join(PATIENCE_S)
    monkeypatch.setattr(group_commit, "GATHER_MS", 0)
    queue.submit(lambda _session: done.append(2))
    assert done == [2]


def test_one_that_was_taken_back_is_not_done() -> None:
    groups, queue, first = held_up()
    done: list[str] = []
    taken_back = queue.submit_soon(lambda _session: done.append("taken back"))
    other = queue.submit_soon(lambda _session: done.append("other"))
    assert taken_back.cancel()
    assert not first.cancel(), "it has begun"
    groups.may_go_on.set()
    other.result(PATIENCE_S)
    with pytest.raises(CancelledError):
        taken_back.result(PATIENCE_S)
    assert done == ["other"]


def test_whoever_asks_for_too_much_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "WAITING_MAX", 5)
    groups, queue, _ = held_up()
    asked: list[Future[None]] = []

    def ask() -> None:
        asked.extend(queue.submit_soon(lambda _session: None) for _ in range(50))

    def count() -> int:
        return len(queue._waiting)

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: count() == 5, "a full queue", period_s=0.001)
    groups.may_go_on.set()
    thread.join(PATIENCE_S)
    for future in asked:
        future.result(PATIENCE_S)
    assert sum(groups.sizes) == 51
    assert max(groups.sizes) <= 5


def test_a_callback_does_what_it_waits_for_itself() -> None:
    """Its thread leads: if it waited for another to do it, it would wait for ever."""
    groups, queue, first = held_up()
    done: list[int] = []

    def submit(_future: Future[None]) -> None:
        done.append(queue.submit(lambda _session: 1))
        queue.drain()
        done.append(2)

    first.add_done_callback(submit)
    behind = queue.submit_soon(lambda _session: done.append(0))
    groups.may_go_on.set()
    behind.result(PATIENCE_S)
    until(lambda: len(done) == 3, "the callback's end", period_s=0.001)
    assert done == [0, 1, 2]
    assert queue.submit(lambda _session: 3) == 3


def test_draining_ends_after_the_futures_of_all_that_was_submitted_before_are_told() -> None:
    """Who waits for a job hears of it before futures of the same transaction do."""
    groups, queue, _ = held_up()
    told: list[str] = []

    def tell(_future: Future[None]) -> None:
        threading.Event().wait(0.1)
        told.append("future")

    def drain() -> None:
        queue.drain()
        told.append("who drains")

    queue.submit_soon(lambda _session: None).add_done_callback(tell)
    thread = threading.Thread(target=drain)
    thread.start()
    waiting(queue, 2)
    groups.may_go_on.set()
    thread.join(PATIENCE_S)
    assert told == ["future", "who drains"]
    assert groups.sizes == [1, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_ends_its_thread_leaves_the_queue_at_work() -> None:
    groups, queue, _ = held_up()

    def fail(_future: Future[None]) -> None:
        raise SystemExit

    futures = [queue.submit_soon(lambda _session: 4) for _ in range(GROUP_LIMIT)]
    futures[0].add_done_callback(fail)
    behind = queue.submit_soon(lambda _session: 5)
    groups.may_go_on.set()
    assert behind.result(PATIENCE_S) == 5
    assert [future.result(PATIENCE_S) for future in futures] == [4] * GROUP_LIMIT
    until(lambda: not serving(), "the end of both threads", period_s=0.001)
    assert queue.submit(lambda _session: 6) == 6


@pytest.mark.parametrize("submit", [CommitQueue.submit, CommitQueue.submit_soon])
def test_what_may_not_be_written_is_refused_at_once(submit: Callable[..., object]) -> None:
    def refuse() -> None:
        raise Unavailable("closed")

    groups = Groups()
    with pytest.raises(Unavailable):
        submit(CommitQueue(groups.run, refuse), lambda _session: None)
    assert groups.sizes == []
