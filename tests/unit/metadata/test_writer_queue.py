"""The queue of processes that write: a turn goes on between commits, and ends. Each queue here stands for a process."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from carnac.metadata.backends import writer_queue
from carnac.metadata.backends.writer_queue import WriterQueue
from tests.support.clock import FakeClock
from tests.waiting import until

LONG_MS = 60_000


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(LONG_MS)


@pytest.fixture
def new_queue(lock: Path, clock: FakeClock) -> Iterator[Callable[[], WriterQueue]]:
    made: list[WriterQueue] = []

    def new() -> WriterQueue:
        made.append(WriterQueue(lock, patience_ms=LONG_MS, now_ms=clock.now_ms))
        return made[-1]

    yield new
    for queue in made:
        queue.close()


def commit_at_once(queue: WriterQueue) -> None:
    """Enter and leave as often as one does who is expected to come again."""
    for _ in range(writer_queue.FOLLOWED_MIN):
        queue.enter()
        queue.leave()


def wait_for_turn(queue: WriterQueue, first: WriterQueue) -> None:
    """Have a queue enter that had to wait for another one, and leave."""
    first.enter()
    waiting = threading.Thread(target=queue.enter)
    waiting.start()
    until(lambda: queue._waiter is not None, "one who stands in the queue")
    first.leave()
    waiting.join()
    queue.leave()


def is_taken(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_who_did_not_wait_keeps_nobody_waiting(
    new_queue: Callable[[], WriterQueue], lock: Path
) -> None:
    queue = new_queue()
    for _ in range(3):
        queue.enter()
        queue.leave()
        assert not is_taken(lock)


def test_a_turn_that_was_waited_for_goes_on_until_the_file_is_closed(
    new_queue: Callable[[], WriterQueue], lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_queue, "TURN_MS", LONG_MS)
    with closing(WriterQueue(lock, patience_ms=LONG_MS, now_ms=lambda: LONG_MS)) as queue:
        commit_at_once(queue)
        wait_for_turn(queue, new_queue())
        assert is_taken(lock), "though it has left"
        queue.enter()
        queue.leave()
        assert is_taken(lock)
    until(lambda: not is_taken(lock), "a closed queue's turn")


def test_a_turn_that_is_not_used_ends(
    new_queue: Callable[[], WriterQueue],
) -> None:
    queue, patient = new_queue(), new_queue()
    commit_at_once(queue)
    wait_for_turn(queue, patient)
    patient.enter()
    patient.leave()


def test_a_turn_ends_with_its_last_commit(
    new_queue: Callable[[], WriterQueue], lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_queue, "TURN_MS", 10 * LONG_MS)
    queue = new_queue()
    commit_at_once(queue)
    wait_for_turn(queue, new_queue())
    for _ in range(writer_queue.TURN_COMMITS - 1):
        assert is_taken(lock)
        queue.enter()
        queue.leave()
    until(lambda: not is_taken(lock), "the end of the turn")


def test_a_process_gets_one_turn_after_another(
    new_queue: Callable[[], WriterQueue], lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_queue, "TURN_MS", 10 * LONG_MS)
    queue, first = new_queue(), new_queue()
    commit_at_once(queue)
    for _ in range(3):
        wait_for_turn(queue, first)
        assert is_taken(lock)
        for _ in range(writer_queue.TURN_COMMITS - 1):
            queue.enter()
            queue.leave()
        assert not is_taken(lock)


def test_one_who_does_not_come_back_at_once_keeps_nobody_waiting(
    new_queue: Callable[[], WriterQueue],
    lock: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An append writes a file between its two commits; the next append's first commit follows the second at once."""
    monkeypatch.setattr(writer_queue, "TURN_MS", 10 * LONG_MS)
    queue, first = new_queue(), new_queue()
    for _ in range(5):
        for waits_ms in (0, writer_queue.AT_ONCE_MS + 1):
            clock.advance_ms(waits_ms)
            wait_for_turn(queue, first)
            assert not is_taken(lock)
    for _ in range(writer_queue.FOLLOWED_MIN):
        assert not is_taken(lock)
        wait_for_turn(queue, first)
    assert is_taken(lock), "it is expected again"


def test_a_turn_ends_though_it_is_used_all_the_time(
    new_queue: Callable[[], WriterQueue],
) -> None:
    queue, patient = new_queue(), new_queue()
    commit_at_once(queue)
    wait_for_turn(queue, patient)
    is_over = threading.Event()

    def commit_all_the_time() -> None:
        while not is_over.is_set():
            queue.enter()
            queue.leave()

    busy = threading.Thread(target=commit_all_the_time)
    busy.start()
    try:
        for _ in range(5):
            patient.enter()
            patient.leave()
    finally:
        is_over.set()
        busy.join()
