"""The queue of jobs in one process: order, groups, leaders that fail, waiters that are interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence

import pytest

from carnac.metadata.publish.queue import GROUP_LIMIT, CommitQueue, Job
from carnac.metadata.session import SQLITE, Session

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
