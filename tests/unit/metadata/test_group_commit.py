"""The queue of jobs in one process: order, groups, leaders that fail, waiters that are interrupted."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence

import pytest

from carnac.errors import Unavailable
from carnac.metadata.publish import queue as group_commit
from carnac.metadata.publish.queue import GROUP_LIMIT, CommitQueue, Job
from carnac.metadata.session import SQLITE, Session
from tests.waiting import until

NOTHING = Session(None, SQLITE)
"""Jobs of these tests run no statement."""


class Groups:
    """Runs groups; holds the first up until it is told to go on."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()

    def run(self, jobs: Sequence[Job]) -> None:
        self.sizes.append(len(jobs))
        self.has_begun.set()
        assert self.may_go_on.wait(30)
        for job in jobs:
            try:
                job.result = job.work(NOTHING)
            except BaseException as error:
                job.error = error


def waiting(queue: CommitQueue, count: int) -> None:
    """Return when so many jobs wait."""
    while len(queue._waiting) < count:
        threading.Event().wait(0.001)


def start(queue: CommitQueue, work: Callable[[Session], object]) -> threading.Thread:
    thread = threading.Thread(target=queue.submit, args=[work], daemon=True)
    thread.start()
    return thread


def test_jobs_that_wait_together_run_together_and_in_order() -> None:
    groups = Groups()
    queue = CommitQueue(groups.run, lambda: None)
    done: list[int] = []
    threads = [start(queue, lambda _session: done.append(-1))]
    assert groups.has_begun.wait(30)
    for number in range(GROUP_LIMIT + 3):
        threads.append(start(queue, lambda _session, n=number: done.append(n)))
        waiting(queue, number + 1)
    groups.may_go_on.set()
    for thread in threads:
        thread.join(30)
    assert done == [-1, *range(GROUP_LIMIT + 3)]
    assert groups.sizes == [1, GROUP_LIMIT, 3]


def test_a_job_raises_to_its_own_caller_only() -> None:
    groups = Groups()
    groups.may_go_on.set()
    queue = CommitQueue(groups.run, lambda: None)

    def fail(_session: Session) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        queue.submit(fail)
    assert queue.submit(lambda _session: 5) == 5


@pytest.mark.parametrize("others", [0, 1])
def test_an_interrupted_waiter_takes_its_job_back(
    others: int, request: pytest.FixtureRequest
) -> None:
    """Ctrl-C while the main thread waits behind another thread must not leave the queue without a leader."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs us may ignore it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    groups = Groups()
    queue = CommitQueue(groups.run, lambda: None)
    done: list[str] = []
    threads = [start(queue, lambda _session: done.append("first"))]
    assert groups.has_begun.wait(30)

    def interrupt() -> None:
        waiting(queue, 1)
        threads.extend(start(queue, lambda _session: done.append("other")) for _ in range(others))
        waiting(queue, 1 + others)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        queue.submit(lambda _session: done.append("interrupted"))
    helper.join(30)
    groups.may_go_on.set()
    for thread in threads:
        thread.join(30)
    queue.submit(lambda _session: done.append("last"))
    assert done == ["first", *["other"] * others, "last"]


def come_together(queue: CommitQueue, groups: Groups, count: int) -> None:
    """Let so many jobs share a transaction, and be done."""
    threads = [start(queue, lambda _session: None)]
    assert groups.has_begun.wait(30)
    threads += [start(queue, lambda _session: None) for _ in range(count)]
    waiting(queue, count)
    groups.may_go_on.set()
    for thread in threads:
        thread.join(30)


def test_those_who_were_told_together_are_waited_for_until_half_are_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "GATHER_MS", 30_000)
    groups = Groups()
    queue = CommitQueue(groups.run, lambda: None)
    come_together(queue, groups, 4)
    for thread in [start(queue, lambda _session: None) for _ in range(2)]:
        thread.join(30)
    queue.submit(lambda _session: None)
    assert groups.sizes == [1, 4, 2, 1]


def test_an_interrupted_leader_takes_its_job_back(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Ctrl-C while the main thread waits for others to come back."""
    monkeypatch.setattr(group_commit, "GATHER_MS", 30_000)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs us may ignore it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    groups = Groups()
    queue = CommitQueue(groups.run, lambda: None)
    come_together(queue, groups, 8)

    def interrupt() -> None:
        until(lambda: queue._awaited, "one that waits for others", period_s=0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        queue.submit(lambda _session: done.append(1))
    helper.join(30)
    monkeypatch.setattr(group_commit, "GATHER_MS", 0)
    queue.submit(lambda _session: done.append(2))
    assert done == [2]


def test_draining_ends_after_all_that_was_submitted_before() -> None:
    groups = Groups()
    queue = CommitQueue(groups.run, lambda: None)
    done: list[str] = []
    threads = [start(queue, lambda _session: done.append("at work"))]
    assert groups.has_begun.wait(30)
    threads.append(start(queue, lambda _session: done.append("waits")))
    waiting(queue, 1)
    threads.append(threading.Thread(target=lambda: (queue.drain(), done.append("drained"))))
    threads[-1].start()
    waiting(queue, 2)
    groups.may_go_on.set()
    for thread in threads:
        thread.join(30)
    assert done == ["at work", "waits", "drained"]


def test_what_may_not_be_written_is_refused_at_once() -> None:
    def refuse() -> None:
        raise Unavailable("closed")

    groups = Groups()
    with pytest.raises(Unavailable):
        CommitQueue(groups.run, refuse).submit(lambda _session: None)
    assert groups.sizes == []


class Interrupting(deque[Job]):
    """Ctrl-C arrives once, when a job has come into the queue."""

    has_interrupted = False

    def append(self, job: Job, /) -> None:
        super().append(job)
        if not self.has_interrupted:
            self.has_interrupted = True
            raise KeyboardInterrupt


@pytest.mark.timeout(60)
def test_one_that_is_interrupted_as_it_comes_keeps_nobody_waiting() -> None:
    groups = Groups()
    groups.may_go_on.set()
    queue = CommitQueue(groups.run, lambda: None)
    queue._waiting = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        queue.submit(lambda _: None)
    queue.drain()
    assert queue.submit(lambda _: 7) == 7
    assert groups.sizes == [1]
