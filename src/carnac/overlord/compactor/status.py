"""The status of the controller for others: the queue, the runs, whether it keeps up.

It is written down beside the states of chunks, so that any process can show it; when it was written says how old it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from carnac.core.compaction.control.conductor import Conductor
from carnac.core.time.intervals import Interval, interval_set
from carnac.core.time.leases import is_over
from carnac.ports.compaction import LiveRun

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

STATUS_KEY = "compaction_status"
TASKS_SHOWN_MAX = 50
SIGN_OF_LIFE_MS = 10_000
SILENT_MS = 6 * SIGN_OF_LIFE_MS
"""And three pauses between rounds; a round that analyses a million segments anew takes seconds."""


class StatusBoard:
    """Where a controller writes its status down: when it has changed, and as a sign of life while there is work."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._last = ""
        self._written_ms = self._asked_ms = 0

    def write(
        self, conductor: Conductor, live: Iterable[LiveRun], *, now_ms: int, bytes_wasted: int
    ) -> None:
        """Write the status down if others do not know it; called in each round.

        Args:
            live: Runs that are under way, as their runner sees them.
            bytes_wasted: Bytes that all ended runs wrote for nothing.
        """
        status = {**describe_status(conductor, live, now_ms), "bytes_wasted": bytes_wasted}
        text = json.dumps({name: one for name, one in status.items() if name != "clears_at_ms"})
        pause_ms = max(0, now_ms - self._asked_ms) if self._asked_ms else 0
        self._asked_ms = now_ms
        is_due = has_work(status) and is_over(self._written_ms, SIGN_OF_LIFE_MS, now_ms)
        if text != self._last or is_due:
            told = {"at_ms": now_ms, "silent_after_ms": SILENT_MS + 3 * pause_ms, **status}
            self._metadata.put_settings({STATUS_KEY: json.dumps(told)})
            self._last, self._written_ms = text, now_ms


def has_work(status: Mapping[str, Any]) -> bool:
    """Whether something runs or waits, so that a controller that lives gives signs of life."""
    return bool(status["running"] or status["waiting"])


def is_silent(status: Mapping[str, Any], now_ms: int) -> bool:
    """Whether the controller that wrote the status has ended in the middle of its work: killed, or cut off."""
    silent_after_ms = status.get("silent_after_ms", SILENT_MS)
    return has_work(status) and is_over(status["at_ms"], silent_after_ms + 1, now_ms)


def read_status(metadata: MetadataStore) -> Mapping[str, Any] | None:
    """Return what a controller has written down last; None if none ever has."""
    text = metadata.settings().get(STATUS_KEY)
    return None if text is None else json.loads(text)


def describe_status(conductor: Conductor, live: Iterable[LiveRun], now_ms: int) -> dict[str, Any]:
    """Return the status as plain values; rates are in bytes of the cost model per second."""
    verdict = conductor.verdict(now_ms)
    progress = {run.run_id: run.progress for run in live}
    queue = conductor.queue
    return {
        "outlook": str(verdict.outlook),
        "clears_at_ms": verdict.clears_at_ms,
        "backlog": verdict.backlog,
        "arrivals_per_s": round(verdict.arrivals * 1000),
        "dispatches_per_s": None
        if verdict.dispatches is None
        else round(verdict.dispatches * 1000),
        "shed": verdict.shed,
        "deferred": _deferred(conductor),
        "resting": _resting(conductor),
        "waiting": len(queue.waiting),
        "cost_waiting": queue.cost_waiting,
        "queue": [
            {"task": task.task_id, "priority": round(task.priority, 4), "cost": task.cost}
            for task in queue.waiting[:TASKS_SHOWN_MAX]
        ],
        "running": [
            {
                "run": one.run_id,
                "task": one.task.task_id,
                "datasource": one.task.datasource,
                "intervals": [str(piece) for piece in interval_set(one.task.chunks)],
                "cost": one.task.cost,
                "started_ms": one.started_ms,
                "groups": len(one.task.groups),
                "rows": one.task.rows,
                "progress": None if (told := progress.get(one.run_id)) is None else asdict(told),
            }
            for one in queue.running
        ],
    }


def _deferred(conductor: Conductor) -> list[dict[str, Any]]:
    """Return what was shed and waits until the queue runs empty, by datasource."""
    found = {name: conductor.survey(name).deferred() for name in conductor.datasources}
    return [
        {
            "datasource": name,
            "chunks": len(states),
            "interval": str(Interval(states[0].chunk.start_ms, states[-1].chunk.end_ms)),
            "cost": sum(state.cost for state in states),
            "priority_max": round(max(state.priority for state in states), 4),
        }
        for name, states in found.items()
        if states
    ]


def _resting(conductor: Conductor) -> dict[str, int] | None:
    """Return how many chunks rest because compacting them failed, and when the first of them is tried again."""
    ends_ms = [
        state.retry_at_ms
        for name in conductor.datasources
        for state in conductor.survey(name).resting()
    ]
    return {"chunks": len(ends_ms), "first_at_ms": min(ends_ms)} if ends_ms else None
