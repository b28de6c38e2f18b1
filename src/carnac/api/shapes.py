"""The shapes of Druid's task API: the names and the values that its clients read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from carnac.core.tasks.model import Attempt, Task, TaskState
from carnac.core.tasks.statuses import (
    RunnerCode,
    StatusCode,
    duration_ms,
    runner_code_of,
    status_of,
)
from carnac.core.time.intervals import format_ms
from carnac.overlord.runners.identity import parse_handle
from carnac.specs.tasks.spec import QUERY_TYPE

NO_PORT = -1

STATES: Mapping[str, tuple[TaskState, ...]] = {
    "pending": (TaskState.PENDING,),
    "waiting": (TaskState.WAITING,),
    "running": (TaskState.RUNNING,),
    "complete": (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED),
}
"""The values of `state=`, and the states that each means."""


class Shape(BaseModel):
    """An object whose fields are written in camel case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Location(Shape):
    """Where a task runs: the host of its process, which listens on no port."""

    host: str | None = None
    port: int = NO_PORT
    tls_port: int = NO_PORT


def sendable(value: Mapping[str, object]) -> dict[str, object]:
    """Return what is stored as it can be sent: half of a surrogate pair, as in an odd file name, becomes `?`."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return cast("dict[str, object]", json.loads(text))


class TaskStatus(Shape):
    """How a task stands, in short."""

    id: str
    status: StatusCode
    duration: int = Field(description="Milliseconds; -1 while it is not over.")
    error_msg: str | None
    location: Location


class TaskStatusPlus(TaskStatus):
    """How a task stands."""

    group_id: str
    type: str
    created_time: str
    queue_insertion_time: str
    status_code: StatusCode
    runner_status_code: RunnerCode
    data_source: str


class TaskStatusResponse(Shape):
    """The answer to a question for one task."""

    task: str
    status: TaskStatusPlus


class TaskPayloadResponse(Shape):
    """A task as it was submitted."""

    task: str
    payload: dict[str, object]


class TaskNamed(Shape):
    """The id of a task."""

    task: str


class DataSourceNamed(Shape):
    """The name of a datasource."""

    data_source: str


class Leading(Shape):
    """Whether this overlord leads."""

    leader: bool


def short_status(task: Task, attempt: Attempt | None) -> TaskStatus:
    """Return how a task stands, in short.

    Args:
        attempt: Its last one, if that is known.
    """
    return TaskStatus(
        id=task.task_id,
        status=status_of(task),
        duration=duration_ms(task),
        error_msg=_error(task),
        location=location_of(attempt),
    )


def full_status(task: Task, attempt: Attempt | None) -> TaskStatusPlus:
    """Return how a task stands; arguments as for `short_status`."""
    created = format_ms(task.created_at_ms)
    return TaskStatusPlus(
        **short_status(task, attempt).model_dump(),
        group_id=task.group_id,
        type=task.type,
        created_time=created,
        queue_insertion_time=created,
        status_code=status_of(task),
        runner_status_code=runner_code_of(task),
        data_source=task.datasource,
    )


def location_of(attempt: Attempt | None) -> Location:
    """Return the host of an attempt's process, if its handle says it."""
    handle = None if attempt is None or attempt.handle is None else parse_handle(attempt.handle)
    return Location() if handle is None else Location(host=handle.host)


def ingestion_report(task: Task, report: Mapping[str, object]) -> dict[str, Any]:
    """Return a report under the name by which Druid's clients find it; Carnac's own report is below `carnac`."""
    stats = report.get("rowStats")
    counts: Mapping[str, int] = stats if isinstance(stats, Mapping) else {}
    thrown_away, unparseable = counts.get("filtered", 0), counts.get("rejected", 0)
    rows = {
        "processed": counts.get("read", 0) - thrown_away - unparseable,
        "processedBytes": report.get("sizeBytes", 0),
        "processedWithError": 0,
        "thrownAway": thrown_away,
        "unparseable": unparseable,
    }
    stages: dict[str, object] = {}
    if task.type == QUERY_TYPE:
        stages["multiStageQuery"] = _stages(task)
    return stages | {
        "ingestionStatsAndErrors": {
            "type": "ingestionStatsAndErrors",
            "taskId": task.task_id,
            "payload": {
                "ingestionState": "COMPLETED" if task.state is TaskState.SUCCEEDED else "FAILED",
                "unparseableEvents": {},
                "rowStats": {"determinePartitions": dict.fromkeys(rows, 0), "buildSegments": rows},
                "errorMsg": _error(task),
                "segmentAvailabilityConfirmed": False,
                "segmentAvailabilityWaitTimeMs": 0,
            },
        },
        "carnac": dict(report),
    }


def _stages(task: Task) -> dict[str, object]:
    """Return the report of a statement as Druid's clients look for it; its stages are Spark's."""
    has_succeeded = task.state is TaskState.SUCCEEDED
    status: dict[str, object] = {
        "status": "SUCCESS" if has_succeeded else "FAILED",
        "startTime": format_ms(task.created_at_ms),
        "durationMs": duration_ms(task),
        "pendingTasks": 0,
        "runningTasks": 0,
    }
    if not has_succeeded:
        error = {"errorCode": "UnknownError", "errorMessage": _error(task)}
        status["errorReport"] = {"taskId": task.task_id, "error": error}
    payload = {"status": status, "stages": [], "counters": {}}
    return {"type": "multiStageQuery", "taskId": task.task_id, "payload": payload}


def no_report(task: Task) -> str:
    """Return why there is no report of a task."""
    if not task.state.is_over:
        return f"task {task.task_id} has no report yet; it is {task.state}"
    return f"task {task.task_id} has no report; it is {task.state}: {_error(task)}"


def _error(task: Task) -> str | None:
    return task.error if task.state.is_over else None
