"""Supervisors as Druid shows them: states, offsets, lag, what tasks have read. Source: Druid's supervisor API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carnac.core.redaction import show_submitted
from carnac.core.streams.partitions import Partition, group_of, lag_of
from carnac.core.streams.supervisors import Standing, SupervisorVersion
from carnac.core.tasks.model import Task, TaskState
from carnac.core.time.intervals import format_ms
from carnac.overlord.supervisors.stream import StreamState
from carnac.specs.supervisors.kafka import KafkaSupervisor

ERRORS_SHOWN_MAX = 10
_WAITS = {
    TaskState.PENDING: "a free slot of the overlord",
    TaskState.WAITING: "the time of its next attempt",
}
"""What a task that has no attempt waits for."""
_TOTALS = ("processed", "processedBytes", "processedWithError", "thrownAway", "unparseable")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorView:
    """A supervisor with its tasks, position and stream.

    Attributes:
        groups: The tasks of each of its groups, newest first.
        counts: Counts of rows that running tasks have read so far, by task and Druid's names.
        position: Offset to read next, by partition, from the log.
        stream: State of the stream in Kafka.
    """

    version: SupervisorVersion
    supervisor: KafkaSupervisor
    groups: Mapping[str, Sequence[Task]]
    counts: Mapping[str, Mapping[str, int]]
    position: Mapping[Partition, int]
    stream: StreamState
    standing: Standing

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec, as it was posted."""
        found: Mapping[str, Any] = json.loads(self.version.spec)
        return found

    @property
    def live(self) -> Sequence[tuple[int, Task]]:
        """The tasks that are not over, each with its group."""
        newest = [(group, tasks[0]) for group, tasks in enumerate(self.groups.values()) if tasks]
        return [(group, task) for group, task in newest if not task.state.is_over]


def partition_key(name: str, topic: str) -> str:
    """Return the source of the log that a partition's name in Druid's answers means: `0`, or `topic:0`."""
    at, _, number = name.rpartition(":")
    return f"{at or topic}/{number}"


def _key(partition: Partition, *, is_pattern: bool) -> str:
    return f"{partition.topic}:{partition.number}" if is_pattern else str(partition.number)


def state_shown(view: SupervisorView) -> dict[str, Any]:
    """Return how a supervisor stands, in a line of a list."""
    return {
        "id": view.version.supervisor_id,
        "state": str(view.standing.state),
        "detailedState": view.standing.detailed,
        "healthy": view.standing.state.is_healthy,
        "suspended": view.supervisor.is_suspended,
    }


def status_shown(view: SupervisorView) -> dict[str, Any]:
    """Return how a supervisor stands, whole."""
    supervisor, stream = view.supervisor, view.stream
    lag = lag_of(view.position, stream.bounds, use_earliest=supervisor.use_earliest_offset)
    payload = {
        "dataSource": supervisor.datasource,
        "stream": supervisor.topic,
        "partitions": len(stream.bounds),
        "replicas": 1,
        "durationSeconds": supervisor.task_ms // 1000,
        "activeTasks": [_task(view, group, task, lag) for group, task in view.live],
        "publishingTasks": [],
        "latestOffsets": _keyed(view, {one: found.latest for one, found in stream.bounds.items()}),
        "currentOffsets": _keyed(view, view.position),
        "minimumLag": _keyed(view, lag),
        "aggregateLag": sum(lag.values()),
        "offsetsLastUpdated": format_ms(stream.asked_at_ms) if stream.asked_at_ms else None,
        "suspended": supervisor.is_suspended,
        "healthy": view.standing.state.is_healthy,
        "state": str(view.standing.state),
        "detailedState": view.standing.detailed,
        "recentErrors": list(_errors(view)),
        "ignored": [{"path": path, "reason": reason} for path, reason in supervisor.ignored],
    }
    return {
        "id": view.version.supervisor_id,
        "generationTime": format_ms(max(stream.asked_at_ms, view.version.at_ms)),
        "payload": payload,
    }


def stats_shown(view: SupervisorView) -> dict[str, Any]:
    """Return what the running tasks have read, by group and task."""
    found: dict[str, Any] = {}
    for group, task in view.live:
        counts = view.counts[task.task_id]
        totals = {name: counts.get(name, 0) for name in _TOTALS}
        found[str(group)] = {
            task.task_id: {"movingAverages": {}, "totals": {"buildSegments": totals}}
        }
    return found


def history_shown(versions: Iterable[SupervisorVersion]) -> list[Any]:
    """Return specs as Druid lists them; of a supervisor that ended, its spec of type Noop."""
    return [
        {
            "spec": {"type": "NoopSupervisorSpec", "id": one.supervisor_id}
            if one.is_terminated
            else show_submitted(json.loads(one.spec)),
            "version": format_ms(one.at_ms),
        }
        for one in versions
    ]


def _task(
    view: SupervisorView,
    group: int,
    task: Task,
    lag: Mapping[Partition, int],
) -> dict[str, Any]:
    supervisor = view.supervisor
    mine = [
        one
        for one in view.stream.bounds
        if group_of(one, supervisor.tasks, is_pattern=supervisor.is_pattern) == group
    ]
    return {
        "id": task.task_id,
        "type": "ACTIVE",
        "status": str(task.state),
        "waitsFor": _WAITS.get(task.state),
        "startTime": None if task.started_at_ms is None else format_ms(task.started_at_ms),
        "startingOffsets": {},
        "currentOffsets": _keyed(
            view, {one: view.position[one] for one in mine if one in view.position}
        ),
        "lag": _keyed(view, {one: lag[one] for one in mine if one in lag}),
        "counts": dict(view.counts[task.task_id]),
    }


def _keyed(view: SupervisorView, values: Mapping[Partition, int]) -> dict[str, int]:
    is_pattern = view.supervisor.is_pattern
    return {_key(one, is_pattern=is_pattern): value for one, value in sorted(values.items())}


def _errors(view: SupervisorView) -> Iterable[dict[str, Any]]:
    """Yield what went wrong last, the newest first."""
    if view.stream.error is not None:
        yield _error(view.stream.asked_at_ms, "Unavailable", view.stream.error, is_stream=True)
    found: list[Task] = [task for tasks in view.groups.values() for task in _failed(tasks)]
    found.sort(key=lambda task: -task.number)
    for task in found[:ERRORS_SHOWN_MAX]:
        at_ms = task.finished_at_ms or task.changed_at_ms
        yield _error(at_ms, "TaskFailed", f"task {task.task_id}: {task.error}", is_stream=False)


def _failed(tasks: Sequence[Task]) -> list[Task]:
    return [
        task
        for task in tasks
        if task.error and task.state not in {TaskState.CANCELLED, TaskState.SUCCEEDED}
    ]


def _error(at_ms: int, kind: str, message: str, *, is_stream: bool) -> dict[str, Any]:
    return {
        "timestamp": format_ms(at_ms),
        "exceptionClass": kind,
        "message": message,
        "streamException": is_stream,
    }
