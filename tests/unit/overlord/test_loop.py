"""The overlord's loop over a store in memory: starts, gives up, stops, takes over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from carnac.core.tasks.events import ClaimAttempt, Current, FinishAttempt
from carnac.core.tasks.machine import OVERLORD
from carnac.core.tasks.model import Attempt, AttemptState, TaskState
from carnac.errors import Invalid, Unavailable
from carnac.overlord.clearing import note_waste
from carnac.overlord.loop import LEAVING_MS
from tests.overlords import DELETE, LEASE_MS, Bench
from tests.support.faulty import Crash, Faults, faulty_metadata, unavailable
from tests.support.tasks import FakeRunner
from tests.waiting import until

GONE = "the process of attempt 1 ended without a word; carnac task log says what it wrote"


@pytest.fixture
def bench() -> Iterator[Bench]:
    with closing(Bench()) as bench:
        yield bench


class TestLoop:
    def test_what_is_submitted_is_started_in_order(self, bench: Bench) -> None:
        for name, priority in (("a", 1), ("b", 9), ("c", 5)):
            bench.tasks.submit({**DELETE, "id": name, "context": {"priority": priority}})
        assert bench.loop.run_round() == ("b", "c")
        assert bench.runner.started == ["b/1", "c/1"]
        assert [one.handle for one in bench.tasks.attempts("b")] == ["fake:b/1"]
        assert bench.loop.run_round() == ()

    def test_a_process_that_is_gone_is_noticed_at_once(self, bench: Bench) -> None:
        bench.tasks.submit({**DELETE, "id": "a", "context": {"retries": 1}})
        bench.loop.run_round()
        bench.runner.alive["fake:a/1"] = False
        bench.loop.run_round()
        task = bench.tasks.get("a")
        assert task.state is TaskState.WAITING
        assert task.error == GONE
        bench.clock.advance_ms(1_000)
        assert bench.loop.run_round() == ("a",)
        bench.runner.alive["fake:a/2"] = False
        bench.loop.run_round()
        assert bench.tasks.get("a").state is TaskState.FAILED
        assert [one.state for one in bench.tasks.attempts("a")] == [AttemptState.LOST] * 2

    def test_the_end_of_every_attempt_is_logged_with_its_reason(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is its own process that says so, to the database and not to the overlord."""
        with caplog.at_level("INFO", logger="carnac.overlord.loop"):
            for name, error in (("a", None), ("b", "no such column")):
                bench.tasks.submit({**DELETE, "id": name})
                bench.loop.run_round()
                claim = ClaimAttempt(task_id=name, number=1, holder="elsewhere", lease_ms=LEASE_MS)
                bench.metadata.change_tasks(claim)
                bench.metadata.change_tasks(FinishAttempt(task_id=name, number=1, error=error))
            bench.loop.run_round()
            bench.loop.run_round()
        ends = [text for text in caplog.messages if "ended" in text]
        assert sorted(ends) == [
            "task a, attempt 1, ended: succeeded",
            "task b, attempt 1, ended: failed: no such column",
        ]

    def test_a_process_that_has_said_how_it_ended_is_seen_out(self, bench: Bench) -> None:
        """Else it stays as a zombie, and one that hangs at its end would stay for good."""
        bench.tasks.submit({**DELETE, "id": "a"})
        bench.loop.run_round()
        claim = ClaimAttempt(task_id="a", number=1, holder="elsewhere", lease_ms=LEASE_MS)
        bench.metadata.change_tasks(claim)
        bench.loop.run_round()
        bench.metadata.change_tasks(FinishAttempt(task_id="a", number=1))
        bench.loop.run_round()
        bench.runner.asked.clear()
        bench.clock.advance_ms(LEAVING_MS - 1)
        bench.loop.run_round()
        assert (bench.runner.asked, bench.runner.stopped) == (["fake:a/1"], [])
        bench.clock.advance_ms(1)
        bench.loop.run_round()
        assert bench.runner.stopped == ["fake:a/1"]
        bench.loop.run_round()
        bench.runner.asked.clear()
        bench.loop.run_round()
        assert bench.runner.asked == [], "it is gone"

    def test_of_a_process_that_is_gone_it_is_said_also_after_its_lease(self, bench: Bench) -> None:
        bench.tasks.submit({**DELETE, "id": "a"})
        bench.loop.run_round()
        bench.runner.alive["fake:a/1"] = False
        bench.clock.advance_ms(LEASE_MS)
        bench.loop.run_round()
        assert bench.tasks.get("a").error == GONE

    def test_who_cannot_be_asked_is_judged_by_the_lease(self, bench: Bench) -> None:
        bench.tasks.submit({**DELETE, "id": "a", "context": {"retries": 0}})
        bench.loop.run_round()
        bench.runner.alive.clear()
        bench.clock.advance_ms(LEASE_MS - 1)
        bench.loop.run_round()
        assert bench.tasks.get("a").state is TaskState.RUNNING
        bench.clock.advance_ms(1)
        bench.loop.run_round()
        assert bench.tasks.get("a").state is TaskState.FAILED
        assert bench.tasks.get("a").error == f"attempt 1 was not heard of for {LEASE_MS} ms"
        assert bench.runner.stopped == ["fake:a/1"]

    def test_what_is_cancelled_is_stopped_until_it_is_gone(self, bench: Bench) -> None:
        bench.tasks.submit({**DELETE, "id": "a"})
        bench.loop.run_round()
        bench.tasks.cancel("a")
        bench.loop.run_round()
        assert bench.runner.stopped == ["fake:a/1"]
        assert [one.lock_owner for one in bench.metadata.live_attempts()] == ["a/1"]
        bench.loop.run_round()
        assert bench.runner.stopped == ["fake:a/1"]
        assert bench.metadata.live_attempts() == ()

    def test_what_dead_attempts_left_behind_is_removed_beside_the_rounds(
        self, bench: Bench
    ) -> None:
        cleared, go_on = [], threading.Event()

        def clear_up(attempt: Attempt) -> None:
            assert go_on.wait(30)
            cleared.append(attempt.lock_owner)
            if attempt.task_id == "b":
                raise Unavailable("deep storage does not answer")

        loop = bench.make_loop("clearing", clear_up=clear_up)
        for name in "ab":
            bench.tasks.submit({**DELETE, "id": name, "context": {"retries": 0}})
        loop.run_round()
        for name in "ab":
            bench.runner.alive[f"fake:{name}/1"] = False
        for _ in range(3):
            loop.run_round()
        assert [bench.tasks.get(name).state for name in "ab"] == [TaskState.FAILED] * 2
        assert len(bench.metadata.live_attempts()) == 2, "not settled before it is cleared up"
        go_on.set()
        loop.close()
        assert cleared == ["a/1", "b/1"]
        assert bench.metadata.live_attempts() == ()

    @pytest.mark.slow
    def test_upkeep_that_takes_long_is_told_when_the_overlord_ends(self, bench: Bench) -> None:
        begun, ended = threading.Event(), threading.Event()

        def upkeep(is_stopping: Callable[[], bool]) -> None:
            begun.set()
            until(is_stopping, "the end of the overlord")
            ended.set()

        loop = bench.make_loop("keeping", upkeep=upkeep)
        loop.start()
        assert begun.wait(30)
        loop.close()
        assert ended.is_set()

    def test_what_a_killed_compaction_had_written_is_in_its_report(self, bench: Bench) -> None:
        loop = bench.make_loop(
            "clearing", clear_up=lambda attempt: note_waste(bench.metadata, attempt, 700)
        )
        bench.tasks.submit(
            {"type": "compact", "dataSource": "events", "id": "a", "context": {"retries": 1}}
        )
        loop.run_round()
        bench.runner.alive["fake:a/1"] = False
        loop.run_round()
        loop.close()
        assert bench.tasks.report("a", 1) == {
            "type": "compact",
            "dataSource": "events",
            "bytesWasted": 700,
        }
        assert bench.tasks.get("a").state is TaskState.WAITING, "another attempt follows"
        assert bench.metadata.live_attempts() == ()
        (attempt,) = bench.tasks.attempts("a")
        note_waste(bench.metadata, attempt, 50)
        assert (bench.tasks.report("a", 1) or {})["bytesWasted"] == 750

    @pytest.mark.parametrize(
        ("error", "state"),
        [
            (Unavailable("no room"), TaskState.WAITING),
            (Invalid("no such cluster"), TaskState.FAILED),
        ],
        ids=str,
    )
    def test_what_cannot_be_started_is_tried_again_or_fails(
        self, bench: Bench, error: Unavailable | Invalid, state: TaskState
    ) -> None:
        bench.tasks.submit({**DELETE, "id": "a"})
        bench.runner.refuses = error
        bench.loop.run_round()
        assert (bench.tasks.get("a").state, bench.tasks.get("a").error) == (state, error.message)

    def test_one_of_two_leads_and_the_other_takes_over_within_a_lease(self, bench: Bench) -> None:
        other = bench.make_loop("two")
        bench.loop.run_round()
        other.run_round()
        assert (bench.loop.is_leader, other.is_leader) == (True, False)
        assert bench.tasks.leader() == bench.metadata.leader(OVERLORD)
        bench.tasks.submit({**DELETE, "id": "a"})
        assert other.run_round() == ()
        bench.clock.advance_ms(LEASE_MS)
        assert not bench.loop.is_leader
        assert bench.tasks.leader() is None
        assert other.run_round() == ("a",)
        assert bench.loop.run_round() == ()
        assert (bench.loop.is_leader, other.is_leader) == (False, True)

    def test_after_its_clock_was_set_nobody_leads_until_the_next_round(self, bench: Bench) -> None:
        other = bench.make_loop("two")
        bench.loop.run_round()
        bench.clock.advance_ms(-LEASE_MS)
        assert not bench.loop.is_leader
        assert bench.tasks.leader() is None
        other.run_round()
        bench.loop.run_round()
        assert (bench.loop.is_leader, other.is_leader) == (False, True)

    def test_killed_anywhere_the_next_one_goes_on(self, bench: Bench) -> None:
        """Whatever call is the last of an overlord: the task runs once, and no slot is lost."""
        crashes = 0
        for nth, is_after in ((nth, after) for nth in range(1, 10) for after in (False, True)):
            name = f"{nth}{is_after}"
            faults, runner = Faults(), FakeRunner()
            doomed = bench.make_loop(
                f"doomed{name}", metadata=faulty_metadata(bench.metadata, faults), runner=runner
            )
            bench.tasks.submit({**DELETE, "id": name})
            faults.arm(nth, after=is_after, dies=True)
            try:
                doomed.run_round()
            except Crash:
                crashes += 1
            bench.clock.advance_ms(LEASE_MS)
            heir = bench.make_loop(f"heir{name}", runner=runner)
            for _ in range(3):
                heir.run_round()
                bench.clock.advance_ms(1_000)
            (attempt,) = bench.tasks.live_attempts()
            assert attempt.task_id == name
            claim = ClaimAttempt(task_id=name, number=attempt.number, holder="here")
            assert isinstance(bench.metadata.change_tasks(claim), Current)
            bench.metadata.change_tasks(FinishAttempt(task_id=name, number=attempt.number))
            assert bench.tasks.get(name).state is TaskState.SUCCEEDED
            bench.metadata.resign(OVERLORD, f"heir{name}")
        assert crashes >= 10

    def test_it_goes_on_when_the_database_does_not_answer_and_resigns_at_the_end(
        self, bench: Bench
    ) -> None:
        faults = Faults(unavailable)
        waits: list[float] = []

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            return len(waits) == 3

        loop = bench.make_loop("one", metadata=faulty_metadata(bench.metadata, faults), wait=wait)
        bench.tasks.submit({**DELETE, "id": "a"})
        faults.arm(1)
        loop.run()
        assert waits == [1.0] * 3
        assert bench.runner.started == ["a/1"]
        assert bench.tasks.leader() is None

    def test_who_starts_slowly_is_waited_for_longer_than_who_works(self, bench: Bench) -> None:
        slow = 10 * LEASE_MS
        loop = bench.make_loop("one", start_lease_ms=slow)
        bench.tasks.submit({**DELETE, "id": "a"})
        loop.run_round()
        bench.runner.alive.clear()
        bench.clock.advance_ms(slow - 1)
        loop.run_round()
        assert bench.tasks.get("a").state is TaskState.RUNNING
        claim = ClaimAttempt(task_id="a", number=1, holder="here", lease_ms=LEASE_MS)
        assert isinstance(bench.metadata.change_tasks(claim), Current)
        bench.clock.advance_ms(LEASE_MS)
        loop.run_round()
        assert bench.tasks.get("a").state is TaskState.WAITING
