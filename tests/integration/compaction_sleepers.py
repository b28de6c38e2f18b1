"""What child processes do that compact, and sleep (SIGSTOP) between writing a group and publishing it.

The test stops them, at a moment when none of their threads is inside a transaction. Started as programs of their own.
They print, as JSON, what they say of themselves when they have woken and ended.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from carnac.bootstrap.compaction import capacity_of, compact_groups
from carnac.bootstrap.store import open_records
from carnac.bootstrap.tasks import run_task_attempt
from carnac.clock import RandomIds, SystemClock
from carnac.config import Settings
from carnac.errors import CarnacError
from carnac.overlord.compactor.controller import Controller
from carnac.overlord.compactor.local import LocalRunner
from carnac.ports import DeepStorage, IdSource, RewriteJob, RewriteResult
from tests.support.pipeline import LocalPipeline
from tests.support.stores import open_local_store

ROUNDS_MAX = 20


def settings_of(folder: Path, *, lease_ms: int) -> Settings:
    """Settings under which garbage goes at once, and leases soon."""
    return Settings(
        store=str(folder),
        task_runner="in_process",
        lease_ttl_ms=lease_ms,
        safety_period_ms=0,
        trash_period_ms=0,
    )


ASLEEP = "asleep"
"""What a child says before it waits to be stopped; it goes on when its input ends."""


class Sleeper(LocalPipeline):
    """Falls asleep before it hands over the first group that it has written."""

    is_awake = False

    def run_rewrites(
        self,
        jobs: Sequence[RewriteJob],
        *,
        on_end: Callable[[RewriteJob, RewriteResult | CarnacError], None],
        **more: Any,
    ) -> None:
        def hand(job: RewriteJob, end: RewriteResult | CarnacError) -> None:
            if not Sleeper.is_awake:
                Sleeper.is_awake = True
                print(ASLEEP, flush=True)
                sys.stdin.read()
            on_end(job, end)

        super().run_rewrites(jobs, on_end=hand, **more)


def attempt(settings: Settings, task_id: str, number: str) -> dict[str, Any]:
    """Run an attempt at a task."""

    def make(root: DeepStorage, ids: IdSource) -> Sleeper:
        return Sleeper(root, clock=SystemClock(), ids=ids)

    try:
        run_task_attempt(task_id, int(number), settings=settings, pipeline=make)
    except CarnacError as error:
        return {"kind": error.kind, "errors": [error.message]}
    return {"kind": None, "errors": []}


def alone(settings: Settings) -> dict[str, Any]:
    """Be a controller alone, as `carnac compact --auto` is, until nothing is left but what rests."""
    clock, folder = SystemClock(), Path(settings.store.get_secret_value())
    metadata = open_records(settings=settings, clock=clock)
    store = open_local_store(
        folder,
        clock=clock,
        ids=RandomIds(),
        settings=settings,
        pipeline=lambda root: Sleeper(root, clock=clock, ids=RandomIds()),
    )
    runner = LocalRunner(partial(compact_groups, store), clock, tasks_max=1)
    controller = Controller(metadata, runner, clock, capacity=capacity_of(settings))
    errors: list[str] = []
    wasted = 0
    for _ in range(ROUNDS_MAX):
        report = controller.run_round()
        for end in report.ended:
            errors += [one.error for one in end.groups if one.error is not None]
            errors += [] if end.error is None else [end.error]
            wasted += end.bytes_wasted
        if not report.started and not report.ended and controller.is_idle():
            break
        runner.wait(60)
    runner.close()
    store.close()
    metadata.close()
    return {"errors": errors, "bytes_wasted": wasted, "resting": controller.count_resting()}


if __name__ == "__main__":
    way, place, lease_ms, *rest = sys.argv[1:]
    chosen = settings_of(Path(place), lease_ms=int(lease_ms))
    told = {"attempt": attempt, "alone": alone}[way](chosen, *rest)
    json.dump(told, sys.stdout)
