"""Which task a supervisor gets next, and how it stands."""

from __future__ import annotations

import pytest

from carnac.core.streams.supervisors import (
    LONGEST_PAUSE_MS,
    NextTask,
    State,
    SupervisorVersion,
    failures_in_a_row,
    group_ids,
    judge,
    plan_next,
)
from carnac.core.tasks.model import Task, TaskState

NOW_MS = 10_000_000


def task(state: TaskState, number: int = 1, *, failures: int = 0, ago_ms: int = 0) -> Task:
    at_ms = NOW_MS - ago_ms
    return Task(
        task_id=f"t{number}",
        number=number,
        type="index_kafka",
        datasource="d",
        group_id="g",
        digest="",
        priority=75,
        state=state,
        failures=failures,
        created_at_ms=at_ms,
        changed_at_ms=at_ms,
        finished_at_ms=at_ms if state.is_over else None,
    )


def test_groups_are_named_by_supervisor_and_version() -> None:
    version = SupervisorVersion(number=7, supervisor_id="s", spec="{}", at_ms=1)
    assert group_ids(version, 2) == ("index_kafka_s_7_0", "index_kafka_s_7_1")
    assert NextTask(group=0, group_id="index_kafka_s_7_0", after=3).task_id == (
        "index_kafka_s_7_0_3"
    )


@pytest.mark.parametrize(
    ("tasks", "after"),
    [
        ((), 0),
        ((task(TaskState.RUNNING),), None),
        ((task(TaskState.WAITING),), None),
        ((task(TaskState.SUCCEEDED, 4),), 4),
        ((task(TaskState.CANCELLED, 4),), 4),
        ((task(TaskState.FAILED, 4),), None),
        ((task(TaskState.FAILED, 4, ago_ms=LONGEST_PAUSE_MS),), 4),
    ],
)
def test_a_task_follows_the_one_before(tasks: tuple[Task, ...], after: int | None) -> None:
    found = plan_next("g", 0, tasks, NOW_MS)
    assert found == (None if after is None else NextTask(group=0, group_id="g", after=after))


def test_the_pause_grows_with_each_failure_and_has_an_end() -> None:
    failed = [task(TaskState.FAILED, number, ago_ms=5_000) for number in (3, 2, 1)]
    assert plan_next("g", 0, failed[:1], NOW_MS) is not None
    assert plan_next("g", 0, failed, NOW_MS) is None
    many = [task(TaskState.FAILED, number, ago_ms=LONGEST_PAUSE_MS) for number in range(20)]
    assert plan_next("g", 0, many, NOW_MS) is not None


def state_of(*tasks: Task, error: str | None = None, is_suspended: bool = False) -> str:
    standing = judge(
        is_suspended=is_suspended, groups={"g": tasks}, stream_error=error, now_ms=NOW_MS
    )
    assert standing.state.is_healthy == (not standing.state.startswith("UNHEALTHY"))
    return f"{standing.state} {standing.detailed}"


def test_states_are_those_of_druid() -> None:
    running, done = task(TaskState.RUNNING), task(TaskState.SUCCEEDED)
    assert state_of() == "PENDING PENDING"
    assert state_of(task(TaskState.PENDING)) == "RUNNING CREATING_TASKS"
    assert state_of(running) == "RUNNING RUNNING"
    assert state_of(running, is_suspended=True) == "SUSPENDED SUSPENDED"
    assert state_of(error="no") == "UNHEALTHY_SUPERVISOR UNABLE_TO_CONNECT_TO_STREAM"
    assert state_of(done, error="no") == "UNHEALTHY_SUPERVISOR LOST_CONTACT_WITH_STREAM"


def test_three_failures_in_a_row_are_too_many_until_an_attempt_is_steady() -> None:
    shaky = task(TaskState.RUNNING, 2, failures=2)
    failed = task(TaskState.FAILED, 1, failures=1)
    assert failures_in_a_row((shaky, failed)) == 3
    assert failures_in_a_row((shaky, task(TaskState.SUCCEEDED), failed)) == 2
    assert state_of(shaky, failed).startswith(State.UNHEALTHY_TASKS)
    steady = task(TaskState.RUNNING, 2, failures=2, ago_ms=60_000)
    assert state_of(steady, failed) == "RUNNING RUNNING"
