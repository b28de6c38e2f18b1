"""The queue of processes that write: a turn goes on between commits, and ends. Each queue here stands for a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from carnac.errors import Unavailable
from carnac.metadata.backends import writer_queue
from carnac.metadata.backends.writer_queue import WriterQueue
from tests.waiting import until

LONG_MS, NO_TIME_MS = 60_000, 1


@pytest.fixture
def new_queue(tmp_path: Path) -> Iterator[Callable[[int], WriterQueue]]:
    made: list[WriterQueue] = []

    def new(patience_ms: int) -> WriterQueue:
        made.append(WriterQueue(tmp_path / "lock", patience_ms=patience_ms))
        return made[-1]

    yield new
    for queue in made:
        queue.close()


def wait_for_turn(queue: WriterQueue, first: WriterQueue) -> None:
    """Have a queue enter that had to wait for another one, and leave."""
    first.enter()
    waiting = threading.Thread(target=queue.enter)
    waiting.start()
    until(lambda: queue._waiter is not None, "one who stands in the queue")
    first.leave()
    waiting.join()
    queue.leave()


def is_taken(queue: WriterQueue) -> bool:
    try:
        queue.enter()
    except Unavailable:
        return True
    finally:
        queue.leave()
    return False


def test_who_did_not_wait_keeps_nobody_waiting(new_queue: Callable[[int], WriterQueue]) -> None:
    queue, other = new_queue(LONG_MS), new_queue(NO_TIME_MS)
    for _ in range(3):
        queue.enter()
        queue.leave()
        assert not is_taken(other)


def test_a_turn_that_was_waited_for_goes_on_until_the_file_is_closed(
    new_queue: Callable[[int], WriterQueue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_queue, "TURN_MS", LONG_MS)
    monkeypatch.setattr(writer_queue, "IDLE_MS", LONG_MS)
    other = new_queue(NO_TIME_MS)
    with closing(WriterQueue(tmp_path / "lock", patience_ms=LONG_MS)) as queue:
        wait_for_turn(queue, new_queue(LONG_MS))
        assert is_taken(other), "though it has left"
        queue.enter()
        queue.leave()
        assert is_taken(other)
    until(lambda: not is_taken(other), "a closed queue's turn")


def test_a_turn_that_is_not_used_ends(
    new_queue: Callable[[int], WriterQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_queue, "TURN_MS", 10 * LONG_MS)
    patient = new_queue(LONG_MS)
    wait_for_turn(new_queue(LONG_MS), patient)
    patient.enter()
    patient.leave()


def test_a_turn_ends_with_its_last_commit(
    new_queue: Callable[[int], WriterQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_queue, "TURN_MS", 10 * LONG_MS)
    monkeypatch.setattr(writer_queue, "IDLE_MS", 10 * LONG_MS)
    queue, other = new_queue(LONG_MS), new_queue(NO_TIME_MS)
    wait_for_turn(queue, new_queue(LONG_MS))
    for _ in range(writer_queue.TURN_COMMITS - 1):
        assert is_taken(other)
        queue.enter()
        queue.leave()
    until(lambda: not is_taken(other), "the end of the turn")


def test_a_turn_that_was_not_used_is_not_kept_the_next_time(
    new_queue: Callable[[int], WriterQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, first, other = new_queue(LONG_MS), new_queue(LONG_MS), new_queue(NO_TIME_MS)
    wait_for_turn(queue, first)
    until(lambda: not is_taken(other), "the end of a turn that is not used")
    monkeypatch.setattr(writer_queue, "TURN_MS", 10 * LONG_MS)
    monkeypatch.setattr(writer_queue, "IDLE_MS", 10 * LONG_MS)
    for _ in range(writer_queue.UNKEPT_TURNS):
        wait_for_turn(queue, first)
        until(lambda: not is_taken(other), "the end of a turn that is not kept")
    wait_for_turn(queue, first)
    assert is_taken(other), "it is tried again"


def test_a_turn_ends_though_it_is_used_all_the_time(
    new_queue: Callable[[int], WriterQueue],
) -> None:
    queue, patient = new_queue(LONG_MS), new_queue(LONG_MS)
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
