"""Tasks and attempts for tests of runners."""

from __future__ import annotations

import json

from carnac.core.tasks.model import Attempt, AttemptState, Task, TaskState


def a_task(task_id: str = "task-1", **context: object) -> Task:
    return Task(
        task_id=task_id,
        number=1,
        type="index_parallel",
        datasource="events",
        group_id=task_id,
        digest="",
        context=json.dumps(context),
        priority=50,
        state=TaskState.RUNNING,
        created_at_ms=0,
        changed_at_ms=0,
    )


def an_attempt(task_id: str = "task-1", number: int = 1, *, runner: str = "process") -> Attempt:
    return Attempt(
        task_id=task_id,
        number=number,
        state=AttemptState.STARTING,
        runner=runner,
        created_at_ms=0,
        heartbeat_at_ms=0,
        lease_ms=60_000,
    )
