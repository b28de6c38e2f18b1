"""One attempt over a store in memory: its locks, its right to publish, its end."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import pytest

from carnac.core.locks.model import LockGranularity, LockState, LockType
from carnac.core.tasks.events import CancelTask
from carnac.core.tasks.model import AttemptState, Task, TaskState
from carnac.core.time.intervals import IntervalSet
from carnac.errors import Conflict, Invalid, Revoked, Unavailable
from carnac.ports import JobProgress, WriteGuard
from tests.locks import hours, wants
from tests.logs import append_of, segment
from tests.overlords import DELETE, LEASE_MS, Bench

DAY = IntervalSet((hours(0, 24),))
FIRST, SECOND = IntervalSet((hours(0),)), IntervalSet((hours(1),))
ROUNDS_MAX = 500
"""Of two loops that do not wait: each has turned many times by then."""
Tell = Callable[[JobProgress], None]


def work_alone(_: Task, guard: WriteGuard, on_progress: Tell) -> Mapping[str, object]:
    guard.lock_inputs("events", FIRST, partitions={})
    guard.lock_inputs("events", SECOND, partitions={})
    return {}


@pytest.fixture
def bench() -> Iterator[Bench]:
    with closing(Bench()) as bench:
        yield bench


class TestAttempts:
    @pytest.fixture
    def ready(self, bench: Bench) -> Task:
        task = bench.tasks.submit({**DELETE, "id": "a", "context": {"retries": 2}})
        bench.loop.run_round()
        return task

    def test_a_report_is_kept(self, bench: Bench, ready: Task) -> None:
        done = bench.run(lambda *_: {"rows": 3})
        assert done == {"rows": 3}
        assert bench.tasks.report("a") == {"rows": 3}
        assert bench.tasks.get("a").state is TaskState.SUCCEEDED
        with pytest.raises(Revoked, match="attempt 1 of task a is succeeded"):
            bench.run(lambda *_: {})

    @pytest.mark.parametrize(
        ("error", "state"),
        [
            (Conflict("changed"), TaskState.WAITING),
            (Revoked("preempted"), TaskState.WAITING),
            (Unavailable("gone"), TaskState.WAITING),
            (Invalid("wrong"), TaskState.FAILED),
            (ValueError("oops"), TaskState.FAILED),
            (KeyboardInterrupt(), TaskState.WAITING),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_how_it_fails_decides_whether_it_is_tried_again(
        self, bench: Bench, ready: Task, error: BaseException, state: TaskState
    ) -> None:
        def work(*_: object) -> Mapping[str, object]:
            raise error

        with pytest.raises(type(error)):
            bench.run(work)
        assert bench.tasks.get("a").state is state
        assert bench.metadata.locks() == ()

    def test_one_that_would_wait_in_a_circle_starts_anew_once_the_other_is_served(
        self, bench: Bench, ready: Task
    ) -> None:
        def work(_: Task, guard: WriteGuard, on_progress: Tell) -> Mapping[str, object]:
            guard.lock_inputs("events", FIRST, partitions={})
            bench.lockbox.request(wants("other", hours(0)))
            guard.lock_inputs("events", SECOND, partitions={})
            return {}

        bench.lockbox.acquire(wants("other", hours(1)))
        with pytest.raises(Conflict, match="wait for other, then for itself"):
            bench.run(work)
        assert [lock.state for lock in bench.metadata.locks()] == [LockState.HELD] * 2
        again = bench.tasks.get("a")
        assert again.wakes_at_ms == bench.clock.now_ms() + again.retry.pause_ms(1)
        bench.lockbox.release("other")
        bench.clock.sleep_ms(again.retry.pause_ms(1))
        bench.loop.run_round()
        bench.run(work_alone, number=2)
        assert bench.tasks.get("a").state is TaskState.SUCCEEDED

    def test_it_gives_signs_of_life_after_its_clock_was_set_back(
        self, bench: Bench, ready: Task
    ) -> None:
        is_set, has_turned = threading.Event(), threading.Event()
        rounds = itertools.count(1)

        def work(*_: object) -> Mapping[str, object]:
            bench.clock.advance_ms(-2 * 86_400_000)
            is_set.set()
            assert has_turned.wait(60)
            (attempt,) = bench.metadata.attempts("a")
            assert attempt.heartbeat_at_ms == bench.clock.now_ms()
            return {}

        def wait(_: float) -> bool:
            assert is_set.wait(60)
            (attempt,) = bench.metadata.attempts("a")
            has_beaten = attempt.heartbeat_at_ms == bench.clock.now_ms()
            if has_beaten or next(rounds) > ROUNDS_MAX:
                has_turned.set()
            return has_turned.is_set()

        bench.run(work, wait=wait)

    def test_a_replacement_locks_the_segments_that_it_replaces(
        self, bench: Bench, ready: Task
    ) -> None:
        def work(_: Task, guard: WriteGuard, on_progress: Tell) -> Mapping[str, object]:
            guard.lock_inputs("events", DAY, partitions={DAY: (0, 2)})
            (lock,) = bench.metadata.locks()
            assert (lock.task_id, lock.group_id, lock.priority) == ("a/1", "a", 50)
            assert (lock.granularity, lock.type) == (LockGranularity.SEGMENT, LockType.REPLACE)
            assert str(lock.partitions) == "0,2"
            with guard.publishing("events", DAY, is_append=False) as fences:
                assert [one.lock_id for one in fences] == [lock.lock_id]
                assert bench.metadata.locks()[0].is_publishing
            return {}

        bench.run(work)
        assert bench.metadata.locks() == ()

    def test_where_there_is_nothing_to_lock_the_time_chunk_is(
        self, bench: Bench, ready: Task
    ) -> None:
        def work(_: Task, guard: WriteGuard, on_progress: Tell) -> Mapping[str, object]:
            guard.lock_inputs("events", DAY, partitions={})
            (lock,) = bench.metadata.locks()
            assert lock.granularity is LockGranularity.TIME_CHUNK
            return {}

        bench.run(work)

    def test_a_cancelled_attempt_never_publishes(self, bench: Bench, ready: Task) -> None:
        def work(_: Task, guard: WriteGuard, on_progress: Tell) -> Mapping[str, object]:
            guard.lock_inputs("events", DAY, partitions={DAY: (0,)})
            bench.metadata.change_tasks(CancelTask(task_id="a"))
            assert bench.metadata.locks() == ()
            with guard.publishing("events", DAY, is_append=False):
                pytest.fail("it must not get here")
            return {}

        with pytest.raises(Revoked):
            bench.run(work)
        assert bench.tasks.get("a").state is TaskState.CANCELLED

    def test_an_attempt_that_was_given_up_is_refused_at_publish_by_its_fence(
        self, bench: Bench, ready: Task
    ) -> None:
        """It is in its publishing section when it is paused for longer than its lease."""

        def work(_: Task, guard: WriteGuard, on_progress: Tell) -> Mapping[str, object]:
            with guard.publishing("events", DAY, is_append=True) as fences:
                bench.clock.advance_ms(LEASE_MS)
                bench.loop.run_round()
                publication = append_of(segment("s", "1970-01-01/1970-01-02"))
                bench.metadata.publish(replace(publication, requirements=fences))
            return {}

        with pytest.raises(Revoked, match="nothing was published"):
            bench.run(work)
        assert bench.metadata.head().revision == 0
        assert [one.state for one in bench.tasks.attempts("a")] == [AttemptState.LOST]
        assert bench.tasks.get("a").state is TaskState.WAITING

    def test_a_late_success_is_believed_if_nobody_tries_again_yet(
        self, bench: Bench, ready: Task
    ) -> None:
        def work(*_: object) -> Mapping[str, object]:
            bench.clock.advance_ms(LEASE_MS)
            bench.loop.run_round()
            assert bench.tasks.get("a").state is TaskState.WAITING
            return {"slow": True}

        bench.run(work)
        assert bench.tasks.get("a").state is TaskState.SUCCEEDED
        assert bench.tasks.report("a") == {"slow": True}

    def test_progress_and_waiting_for_locks_are_told(self, bench: Bench, ready: Task) -> None:
        def work(_: Task, guard: WriteGuard, on_progress: Tell) -> Mapping[str, object]:
            on_progress(JobProgress(phase="reads", done=1, total=4, rows=10))
            return {}

        bench.run(work)
        (attempt,) = bench.tasks.attempts("a")
        assert json.loads(attempt.progress or "") == {
            "phase": "reads", "done": 1, "total": 4, "rows": 10,
        }  # fmt: skip
