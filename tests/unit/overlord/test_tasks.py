"""The task service over a store in memory: submit, wait, cancel, forget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest

from carnac.core.tasks.model import Task, TaskState
from carnac.errors import Conflict, Invalid, NotFound
from carnac.overlord.tasks import TRIM_PAGE
from tests.overlords import DELETE, Bench


def append_task() -> dict[str, object]:
    spec = {
        "datasource": "e",
        "input": {"type": "inline", "data": "{}"},
        "timestamp": {"column": "t"},
        "dimensions": ["d"],
    }
    return {"type": "index_parallel", "spec": spec}


@pytest.fixture
def bench() -> Iterator[Bench]:
    with closing(Bench()) as bench:
        yield bench


class TestService:
    def test_a_task_gets_an_id_as_druid_makes_them(self, bench: Bench) -> None:
        task = bench.tasks.submit(DELETE)
        kind, datasource, letters, at = task.task_id.split("_")
        assert (kind, datasource, at) == ("delete", "events", "2014-01-01T00:00:00.000Z")
        assert letters.isalpha()
        assert len(letters) == 8
        assert bench.tasks.submit(DELETE).task_id != task.task_id
        assert bench.tasks.payload(task.task_id) == {**DELETE, "id": task.task_id}

    def test_the_context_decides_priority_slots_and_retries(self, bench: Bench) -> None:
        task = bench.tasks.submit(
            {**DELETE, "context": {"priority": 7, "slots": 2, "retries": 5, "retryDelayMs": 10}}
        )
        assert (task.priority, task.slots) == (7, 2)
        assert (task.retry.limit, task.retry.delay_ms) == (5, 10)
        assert bench.tasks.submit(DELETE).priority == 50
        assert bench.tasks.submit({"type": "compact", "dataSource": "e"}).priority == 25
        assert bench.tasks.submit({"type": "kill", "dataSource": "e"}).priority == 0

    @pytest.mark.parametrize(
        "context",
        [
            {"retries": -1},
            {"slots": 0},
            {"priority": "high"},
            {"taskLockType": "mine"},
            {"sparkConf": "spark.task.cpus=2"},
            {"sparkConf": {"spark.task.cpus": 2}},
        ],
        ids=str,
    )
    def test_a_wrong_context_is_refused_when_it_is_submitted(
        self, bench: Bench, context: Mapping[str, object]
    ) -> None:
        with pytest.raises(Invalid, match=next(iter(context))):
            bench.tasks.submit({**DELETE, "context": context})
        assert bench.tasks.list() == ()

    @pytest.mark.parametrize(
        ("task", "kind"),
        [
            (DELETE, "APPEND"),
            (DELETE, "SHARED"),
            ({"type": "compact", "dataSource": "e"}, "APPEND"),
            (append_task(), "REPLACE"),
        ],
        ids=str,
    )
    def test_a_lock_type_that_does_not_fit_is_refused_when_it_is_submitted(
        self, bench: Bench, task: Mapping[str, object], kind: str
    ) -> None:
        with pytest.raises(Invalid, match=f"cannot take a.* lock .*{kind}|cannot take a {kind}"):
            bench.tasks.submit({**task, "context": {"taskLockType": kind}})
        assert bench.tasks.list() == ()
        bench.tasks.submit({**task, "context": {"taskLockType": "EXCLUSIVE"}})

    def test_who_takes_no_lock_may_say_what_it_likes(self, bench: Bench) -> None:
        bench.tasks.submit(
            {"type": "kill", "dataSource": "e", "context": {"taskLockType": "APPEND"}}
        )

    def test_the_same_id_is_one_task(self, bench: Bench) -> None:
        first = bench.tasks.submit({**DELETE, "id": "mine"})
        assert bench.tasks.submit({"id": "mine", **DELETE}) == first
        with pytest.raises(Conflict, match="there is a task mine already"):
            bench.tasks.submit({**DELETE, "id": "mine", "where": "x > 1"})

    def test_what_is_not_there_is_not_found(self, bench: Bench) -> None:
        for ask in (
            bench.tasks.get,
            bench.tasks.attempts,
            bench.tasks.payload,
            bench.tasks.report,
            bench.tasks.log,
        ):
            with pytest.raises(NotFound, match="there is no task x"):
                ask("x")
        for act in (bench.tasks.cancel, bench.tasks.retry, bench.tasks.wait):
            with pytest.raises(NotFound, match="there is no task x"):
                act("x")

    def test_waiting_ends_with_the_task_or_with_the_time(self, bench: Bench) -> None:
        task = bench.tasks.submit(DELETE)
        assert bench.tasks.wait(task.task_id, timeout_ms=3_000).state is TaskState.PENDING
        assert bench.clock.slept_ms == [50, 100, 200, 400, 800, 1_000, 450]
        looks: list[TaskState] = []

        def look(now: Task) -> None:
            looks.append(now.state)
            if len(looks) == 3:
                bench.tasks.cancel(task.task_id)

        assert bench.tasks.wait(task.task_id, on_look=look).state is TaskState.CANCELLED
        assert looks == [TaskState.PENDING] * 3 + [TaskState.CANCELLED]

    def test_trimming_forgets_old_tasks_and_their_logs(self, bench: Bench) -> None:
        old, young, alive = (bench.tasks.submit({**DELETE, "id": name}) for name in ("a", "b", "c"))
        bench.loop.run_round()
        bench.tasks.cancel(old.task_id)
        bench.clock.advance_ms(10_000)
        bench.tasks.cancel(young.task_id)
        assert [task.task_id for task in bench.tasks.trim(retention_ms=10_000, dry_run=True)] == [
            "a"
        ]
        assert [task.task_id for task in bench.tasks.trim(retention_ms=10_000)] == ["a"]
        assert [task.task_id for task in bench.tasks.list()] == ["c", "b"]
        assert bench.runner.forgotten == ["a/1"]
        assert bench.tasks.get(alive.task_id).state is TaskState.PENDING

    @pytest.mark.slow
    def test_a_dry_run_tells_all_that_trimming_would_forget(self, bench: Bench) -> None:
        for number in range(TRIM_PAGE + 1):
            bench.tasks.cancel(bench.tasks.submit({**DELETE, "id": f"a{number}"}).task_id)
        would = bench.tasks.trim(retention_ms=0, dry_run=True)
        assert len(would) == TRIM_PAGE + 1
        forgotten = bench.tasks.trim(retention_ms=0)
        assert {task.task_id for task in forgotten} == {task.task_id for task in would}
        assert bench.tasks.list() == ()
