"""The work of each type of task on a store. It is done once, however often it is tried.

A task publishes as batch `task id#arrival number` of the writer `task`, unless its spec names its own. If an attempt
dies after its publication, the next one finds the work done. Another task does not, even if it has the id of one that
was forgotten.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carnac.core.tasks.model import Task
from carnac.errors import Conflict, Corrupt, DiskFull, NotFound, gravest
from carnac.ports import Clock, JobProgress, WriteGuard
from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.tasks.admission import confine
from carnac.specs.tasks.spec import (
    AnyTask,
    CleanTask,
    CompactTask,
    DeleteTask,
    IngestTask,
    KafkaTask,
    KillTask,
    SelectTask,
    load_task,
)
from carnac.store.compacting.reports import CompactionReport, GroupOutcome, GroupReport
from carnac.store.kept_rows import keep_rows
from carnac.store.store import Store
from carnac.store.streaming.reading import StreamReading
from carnac.store.upkeep.maintenance import GcReport
from carnac.store.writing.outcome import WriteOutcome

WRITER = "task"
GROUPS_SHOWN_MAX = 1_000
"""Most groups that the report of a compaction names."""

_log = logging.getLogger(__name__)


class OutdatedPlan(Conflict):
    """The segments that a task was given are gone. Its planner plans anew, since another try would fail, too."""

    retryable = False


class PlanWithoutRoom(DiskFull):
    """There is no room for the segments that a task was given. Its planner lets their time chunks rest first."""

    retryable = False


class StoreJobs:
    """Runs tasks on one store.

    Args:
        find_payload: The task as it was submitted, by id.
        input_roots: Folders below which tasks that came over HTTP may read.
        clock: Clock that limits the reading of a stream.
    """

    def __init__(
        self,
        store: Store,
        *,
        find_payload: Callable[[str], str | None],
        input_roots: Sequence[str] = (),
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._store = store
        self._find_payload = find_payload
        self._input_roots = tuple(input_roots)
        self._head: dict[str, object] = {}
        self._groups: list[GroupReport] = []
        self._groups_asked = 0
        self._stream: StreamReading | None = None

    def run(
        self, task: Task, guard: WriteGuard, on_progress: Callable[[JobProgress], None]
    ) -> Mapping[str, object]:
        """Do what the task says, once, however often it is called for the same task; return the report.

        Raises:
            CarnacError: The task could not be done; `retryable` says whether another attempt may succeed.
        """
        payload = self._find_payload(task.task_id)
        if payload is None:
            raise NotFound(f"task {task.task_id} is not known any more", task_id=task.task_id)
        spec = confine(load_task(json.loads(payload)), self._input_roots)
        self._head = {"type": task.type, "dataSource": task.datasource, **_ignored(spec)}
        return {**self._head, **self._do(spec, task, guard, on_progress)}

    def report_so_far(self) -> Mapping[str, object] | None:
        """Return what stays of a run that did not come to its end: groups of a compaction, a stream; None: nothing."""
        if self._stream is not None:
            return {**self._head, **stream_report(self._stream)}
        if not self._groups_asked:
            return None
        ended = list(self._groups)
        given_up = self._groups_asked - len(ended)
        report = _groups_json(ended)
        _log.info(
            "of %s groups %s were committed and %s given up; %s bytes were written for nothing",
            self._groups_asked,
            report["groupCounts"]["committed"],
            given_up,
            report["bytesWasted"],
        )
        return {**self._head, **report, "groupsGivenUp": given_up}

    def _do(
        self,
        spec: AnyTask,
        task: Task,
        guard: WriteGuard,
        on_progress: Callable[[JobProgress], None],
    ) -> Mapping[str, object]:
        message, batch = f"task {task.task_id}", (WRITER, f"{task.task_id}#{task.number}")
        match spec:
            case IngestTask():
                return outcome_report(
                    self._store.ingest(
                        _named(spec.spec, batch),
                        message=message,
                        allow_missing=spec.context.get("allowMissing") is True,
                        on_progress=on_progress,
                        guard=guard,
                    )
                )
            case SelectTask():
                name = f"{task.task_id}/{task.attempts}"
                return keep_rows(self._store, spec, name, on_progress=on_progress)
            case DeleteTask():
                return outcome_report(
                    self._store.delete(
                        spec.datasource,
                        interval=spec.interval,
                        where=spec.where,
                        message=message,
                        on_progress=on_progress,
                        guard=guard,
                        batch=batch,
                    )
                )
            case CompactTask():
                groups = spec.compaction_groups() or self._store.plan_compaction(
                    spec.datasource,
                    interval=spec.interval,
                    segments=spec.segments,
                    target=spec.compaction_target(),
                )
                self._groups_asked = len(groups)
                report = self._store.compact(
                    groups,
                    guard=guard,
                    batch=batch,
                    message=message,
                    on_group=self._groups.append,
                    on_progress=on_progress,
                )
                return _compaction(report, is_planned=spec.groups is not None)
            case KillTask():
                return _kill(self._store.kill(spec.datasource, interval=spec.interval))
            case KafkaTask():
                return self._read_stream(spec, guard, on_progress, message)
            case CleanTask():
                cleaned = self._store.clean(spec.datasource, interval=spec.interval, guard=guard)
                return outcome_report(cleaned)

    def _read_stream(
        self,
        spec: KafkaTask,
        guard: WriteGuard,
        on_progress: Callable[[JobProgress], None],
        message: str,
    ) -> Mapping[str, object]:
        self._stream = StreamReading(
            self._store,
            spec.stream,
            spec.group,
            self._clock,
            guard=guard,
            on_progress=on_progress,
            message=message,
        )
        self._stream.run()
        return stream_report(self._stream)


def _named(spec: IngestSpec, batch: tuple[str, str]) -> IngestSpec:
    """Return a spec with the writer and batch of its task, unless it names its own."""
    if spec.writer is not None:
        return spec
    return spec.model_copy(update={"writer": batch[0], "batch": batch[1]})


def _ignored(spec: AnyTask) -> Mapping[str, object]:
    ignored = [*spec.ignored, *(spec.spec.ignored if isinstance(spec, IngestTask) else ())]
    return {"ignored": [one.to_json_dict() for one in ignored]} if ignored else {}


def outcome_report(outcome: WriteOutcome) -> Mapping[str, object]:
    """Return what a write did, as the report of its task says it."""
    shown: dict[str, object] = {
        "revision": outcome.revision,
        "isReplay": outcome.is_replay,
        "segmentsAdded": outcome.segments_added,
        "segmentsDropped": outcome.segments_dropped,
    }
    if outcome.rows_deleted is not None:
        shown["rowsDeleted"] = outcome.rows_deleted
    report = outcome.report
    if report is not None:
        shown["rowStats"] = {
            "read": report.rows_read,
            "filtered": report.rows_filtered,
            "written": report.rows_written,
            "late": report.rows_late,
            "rejected": report.rejected.count,
        }
        shown["notes"] = list(report.notes)
        shown["rejectedByReason"] = dict(report.rejected.by_reason)
        shown["quarantine"] = report.rejected.path
        shown["sizeBytes"] = report.size_bytes
        shown["secondsByPhase"] = dict(report.seconds_by_phase)
    return shown


def stream_report(stream: StreamReading) -> Mapping[str, object]:
    """Return what a task has read of a stream and published, by Druid's names."""
    return {"rowStats": stream.counts.as_json()}


def _kill(report: GcReport) -> Mapping[str, object]:
    return {
        "filesDeleted": len(report.actions),
        "bytesDeleted": report.deleted_bytes,
        "revisionsKept": report.revisions_kept,
        "revisionsTrimmed": report.revisions_trimmed,
    }


def _compaction(report: CompactionReport, *, is_planned: bool) -> Mapping[str, object]:
    """Return the report; a compaction of which nothing could be done, or that met damage, did not succeed.

    Args:
        is_planned: Whether the task was given its groups.

    Raises:
        Corrupt: A segment's file is damaged, even if other groups were committed.
        Conflict: All groups lost their inputs; plan again.
        PlanWithoutRoom: There was no room for the segments that the task was given.
        CarnacError: A group failed for another reason of its own, and none was committed.
    """
    errors = [one.error for one in report.groups if one.error is not None]
    has_done = report.count(GroupOutcome.COMMITTED) or report.count(GroupOutcome.UNCHANGED)
    if errors and (isinstance(gravest(errors), Corrupt) or not has_done):
        error = gravest(errors)
        if is_planned and isinstance(error, DiskFull):
            raise PlanWithoutRoom(error.message, **error.ids)
        if is_planned and isinstance(error, Conflict):
            raise OutdatedPlan(error.message, **error.ids)
        raise error
    return {**_groups_json(report.groups), "seconds": report.seconds}


def _groups_json(groups: Sequence[GroupReport]) -> dict[str, Any]:
    done = [one for one in groups if one.outcome is GroupOutcome.COMMITTED]
    return {
        "groupCounts": {
            str(outcome): sum(one.outcome is outcome for one in groups) for outcome in GroupOutcome
        },
        "rowStats": {
            "read": sum(one.rows_in for one in done),
            "written": sum(one.rows_out for one in done),
        },
        "sizeBytes": sum(one.bytes_out for one in done),
        "bytesIn": sum(one.bytes_in for one in done),
        "bytesOut": sum(one.bytes_out for one in groups),
        "bytesWasted": sum(one.bytes_wasted for one in groups),
        "groups": [
            {
                "id": one.group.group_id,
                "outcome": str(one.outcome),
                "revision": one.revision,
                "segmentsIn": one.segments_in,
                "segmentsOut": one.segments_out,
                "rowsIn": one.rows_in,
                "rowsOut": one.rows_out,
                "bytesIn": one.bytes_in,
                "bytesOut": one.bytes_out,
                "bytesWasted": one.bytes_wasted,
                "error": None if one.error is None else one.error.message,
            }
            for one in groups[:GROUPS_SHOWN_MAX]
        ],
    }
