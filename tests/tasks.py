"""What tests of tasks have in common: short events, and a naive oracle straight from the rules."""

from __future__ import annotations

from carnac.core.leadership import Candidacy
from carnac.core.tasks.events import DispatchTasks, SubmitTask
from carnac.core.tasks.machine import OVERLORD
from carnac.core.tasks.model import RetryPolicy

LEASE_MS = 60_000


def wants(
    task_id: str,
    *,
    priority: int = 50,
    slots: int = 1,
    after: tuple[str, ...] = (),
    retries: int = 0,
    payload: str = "{}",
    datasource: str = "events",
    type: str = "index_parallel",  # noqa: A002 - the word of the port
) -> SubmitTask:
    """Return the submission of a task."""
    return SubmitTask(
        task_id=task_id,
        type=type,
        datasource=datasource,
        group_id=task_id,
        payload=payload,
        digest=payload,
        context="{}",
        priority=priority,
        slots=slots,
        dependencies=after,
        retry=RetryPolicy(limit=retries, delay_ms=1_000, longest_delay_ms=4_000),
    )


def candidacy(leader_id: str = "one", *, lease_ms: int = LEASE_MS, url: str = "") -> Candidacy:
    """Return a candidacy for the overlord's leadership."""
    return Candidacy(
        role=OVERLORD,
        leader_id=leader_id,
        holder=f"overlord {leader_id}",
        url=url,
        lease_ms=lease_ms,
    )


def dispatch(fence: int = 1, *, capacity: int = 2) -> DispatchTasks:
    """Return a leader's call for work."""
    return DispatchTasks(fence=fence, capacity=capacity, lease_ms=LEASE_MS, runner="fake")
