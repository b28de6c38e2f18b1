"""What the controller tells others of itself: the queue, the runs, whether it keeps up.

It is written down beside the states of chunks, so that any process can show it; when it was written says how old it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from carnac.core.compaction.conductor import Conductor
from carnac.ports import JobProgress, MetadataStore
from carnac.ports.compaction import LiveRun

STATUS_KEY = "compaction_status"
TASKS_SHOWN_MAX = 50


def write_status(
    metadata: MetadataStore,
    conductor: Conductor,
    live: Iterable[LiveRun],
    *,
    now_ms: int,
    bytes_wasted: int,
    last: str,
) -> str:
    """Write the status down if it is another than the last one; return it.

    Args:
        live: What runs, as whoever runs it sees it.
        bytes_wasted: What all runs that have ended wrote for nothing.
    """
    status = {**describe_status(conductor, live, now_ms), "bytes_wasted": bytes_wasted}
    text = json.dumps({name: one for name, one in status.items() if name != "clears_at_ms"})
    if text != last:
        metadata.put_settings({STATUS_KEY: json.dumps({"at_ms": now_ms, **status})})
    return text


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
                "cost": one.task.cost,
                "started_ms": one.started_ms,
                "groups": len(one.task.groups),
                "rows": one.task.rows,
                "progress": _progress_json(progress.get(one.run_id)),
            }
            for one in queue.running
        ],
    }


def _progress_json(progress: JobProgress | None) -> dict[str, Any] | None:
    return None if progress is None else asdict(progress)
