"""Tasks of compaction that an overlord runs, with locks, retries and runners."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from carnac.core.compaction.plan.group_records import group_from_json, group_to_json
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.tasks.model import Task, TaskState
from carnac.errors import NotFound
from carnac.ports import IdSource, JobProgress
from carnac.ports.compaction import GroupEnd, LiveRun, RunEnd, RunTerms
from carnac.ports.tasks import TaskFilter

if TYPE_CHECKING:
    from carnac.overlord.tasks import TaskService

ID_PREFIX = "compaction-"
LIVE_STATES = tuple(state for state in TaskState if not state.is_over)
LIVE_TASKS_MAX = 1_000
RETRIES = 1
RETRY_DELAY_MS = 0
"""An attempt that died or was preempted is followed by another one at once; then the controller plans anew, for what
has failed may not be what should be done next."""

_WAITS = {
    TaskState.PENDING: "waits for a slot of the overlord",
    TaskState.WAITING: "waits for its next attempt",
}


class OverlordRunner:
    """Submits tasks, and asks what became of them."""

    def __init__(self, tasks: TaskService, ids: IdSource) -> None:
        self._tasks = tasks
        self._ids = ids
        self._live: dict[str, LiveRun] | None = None

    def start(self, task: CompactionTask, terms: RunTerms) -> str:
        """Submit a task; return its id."""
        run_id = ID_PREFIX + self._ids.new_id()
        submitted = self._tasks.submit(
            {
                "type": "compact",
                "id": run_id,
                "dataSource": task.datasource,
                "groups": [group_to_json(group) for group in task.groups],
                "context": {
                    "retries": RETRIES,
                    "retryDelayMs": RETRY_DELAY_MS,
                    "priority": terms.priority,
                    **terms.context,
                },
            }
        )
        self._known()[run_id] = LiveRun(
            run_id=run_id,
            datasource=task.datasource,
            groups=task.groups,
            started_ms=submitted.created_at_ms,
        )
        return run_id

    def take_ended(self) -> Sequence[RunEnd]:
        """Return the tasks that are over since the last call, each once."""
        ended = []
        for run_id in list(self._known()):
            end = self._end_of(run_id)
            if end is not None:
                del self._known()[run_id]
                ended.append(end)
        return ended

    def live(self) -> Sequence[LiveRun]:
        """Return the tasks that are not over, also those of a controller that is no more."""
        return [
            replace(run, progress=self._progress_of(run.run_id)) for run in self._known().values()
        ]

    def close(self) -> None:
        """Nothing to release: the overlord goes on with what was submitted."""

    def _known(self) -> dict[str, LiveRun]:
        if self._live is None:
            which = TaskFilter(states=LIVE_STATES, type="compact")
            found = self._tasks.list(which, limit=LIVE_TASKS_MAX)
            self._live = {
                task.task_id: self._adopted(task)
                for task in found
                if task.task_id.startswith(ID_PREFIX)
            }
        return self._live

    def _adopted(self, task: Task) -> LiveRun:
        groups: Any = self._tasks.payload(task.task_id).get("groups") or ()
        return LiveRun(
            run_id=task.task_id,
            datasource=task.datasource,
            groups=tuple(group_from_json(group) for group in groups),
            started_ms=task.created_at_ms,
        )

    def _progress_of(self, run_id: str) -> JobProgress | None:
        try:
            phase = _WAITS.get(self._tasks.get(run_id).state)
            attempts = self._tasks.attempts(run_id)
        except NotFound:  # trimmed
            return None
        if phase is not None:
            return JobProgress(phase=phase, done=0, total=0)
        text = attempts[-1].progress if attempts else None
        if text is None:
            return None
        told = json.loads(text)
        return JobProgress(
            phase=str(told.get("phase", "")),
            done=int(told.get("done", 0)),
            total=int(told.get("total", 0)),
            rows=told.get("rows"),
            eta_ms=told.get("eta_ms"),
        )

    def _end_of(self, run_id: str) -> RunEnd | None:
        try:
            task = self._tasks.get(run_id)
        except NotFound:  # trimmed
            return RunEnd(run_id=run_id)
        if not task.state.is_over:
            return None
        report: Any = self._tasks.report(run_id) or {}
        groups = tuple(
            GroupEnd(
                group_id=one["id"],
                outcome=one["outcome"],
                error=one.get("error"),
                bytes_wasted=one.get("bytesWasted", 0),
            )
            for one in report.get("groups", ())
        )
        error = None
        if task.state is TaskState.CANCELLED:
            error = f"task {run_id} was cancelled"
        elif task.state is TaskState.FAILED:
            error = task.error or f"task {run_id} failed"
        wasted = sum(self._wasted(run_id, one.number) for one in self._tasks.attempts(run_id))
        return RunEnd(run_id=run_id, groups=groups, error=error, bytes_wasted=wasted)

    def _wasted(self, run_id: str, number: int) -> int:
        report: Any = self._tasks.report(run_id, number) or {}
        return int(report.get("bytesWasted", 0))
