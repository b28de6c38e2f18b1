"""What child processes of the compaction tests do: keep a store compacted, and be killed at some step of it.

A step is a call of the metadata store or of deep storage, or a group that is handed over by the pipeline. The process
is killed as a power cut would, before the n-th of them or when it has done its work.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import carnac.metadata
from carnac.bootstrap.compaction import CompactionLoop, capacity_of, compact_groups
from carnac.bootstrap.store import open_records
from carnac.bootstrap.tasks import open_loop, open_tasks, run_task_attempt
from carnac.clock import RandomIds
from carnac.config import Settings
from carnac.core.compaction.control.states import ChunkStatus
from carnac.errors import CarnacError
from carnac.metadata.store import MetadataStore
from carnac.overlord.compactor.controller import Controller
from carnac.overlord.compactor.local import LocalRunner
from carnac.ports import Clock, DeepStorage, RewriteJob, RewriteResult
from carnac.ports.storage import METADATA_FILE
from tests.compactions import is_settled
from tests.support.clock import FakeClock
from tests.support.faulty import Faults, FaultyDeepStorage, faulty_metadata
from tests.support.pipeline import LocalPipeline
from tests.support.stores import open_local_store
from tests.support.tasks import FakeRunner

KILLED_NOWHERE = 17
"""Exit code of a child that came to the end before the step that should have killed it."""
ROUNDS_MAX = 40
NAME = "events"
REST_MS = 60_000


FOREVER_MS = 3 * 10**12


def settings_of(folder: Path, *, safety_period_ms: int = FOREVER_MS) -> Settings:
    """Settings under which nothing is kept that is not needed, and a lease is soon over.

    Args:
        safety_period_ms: Files bear the machine's time, which these tests are far ahead of: to an overlord that
            collects garbage whatever is being written looks old. So it leaves alone what it does not know.
    """
    return Settings(
        store=str(folder),
        task_runner="in_process",
        lease_ttl_ms=2_000,
        retention_age_ms=0,
        retention_count=1,
        retention_daily=0,
        trash_period_ms=0,
        safety_period_ms=safety_period_ms,
    )


class Handing(LocalPipeline):
    """A pipeline of which each group that it hands over is a step."""

    def __init__(self, storage: DeepStorage, faults: Faults, *, clock: Clock) -> None:
        super().__init__(storage, clock=clock, ids=RandomIds())
        self._faults = faults

    def run_rewrites(
        self,
        jobs: Sequence[RewriteJob],
        *,
        on_end: Callable[[RewriteJob, RewriteResult | CarnacError], None],
        **more: Any,
    ) -> None:
        def hand(job: RewriteJob, end: RewriteResult | CarnacError) -> None:
            self._faults.run("hand_over", lambda: on_end(job, end))

        super().run_rewrites(jobs, on_end=hand, **more)


def keep_alone(folder: Path, now_ms: int, faults: Faults) -> int:
    """Have a controller alone compact until nothing is left; return how many rounds that took."""
    clock, settings = FakeClock(now_ms), settings_of(folder)
    metadata = faulty_metadata(
        carnac.metadata.open_metadata(
            f"sqlite:///{folder / METADATA_FILE}", clock=clock, ids=RandomIds()
        ),
        faults,
    )
    store = open_local_store(
        folder,
        clock=clock,
        ids=RandomIds(),
        settings=settings,
        faults=faults,
        pipeline=lambda root: Handing(root, faults, clock=clock),
    )
    runner = LocalRunner(partial(compact_groups, store), clock, tasks_max=2)
    controller = Controller(metadata, runner, clock, capacity=capacity_of(settings))
    try:
        for number in range(1, ROUNDS_MAX):
            report = controller.run_round()
            if not report.started and not report.ended and is_settled(controller):
                return number
            runner.wait(60)
            if controller.is_idle():
                clock.advance_ms(REST_MS)
        raise AssertionError("it does not come to rest")
    finally:
        runner.close()
        store.close()
        metadata.close()


def keep_by_overlord(folder: Path, now_ms: int, faults: Faults) -> int:
    """Have an overlord submit, dispatch and run tasks, in turn, until nothing is left; return how many rounds."""
    real = carnac.metadata.open_metadata

    def open_metadata(*args: Any, **more: Any) -> MetadataStore:
        return faulty_metadata(real(*args, **more), faults)

    carnac.metadata.open_metadata = open_metadata  # type: ignore[assignment]  # of this process alone
    try:
        return _keep_by_overlord(folder, now_ms, faults)
    finally:
        carnac.metadata.open_metadata = real


def _keep_by_overlord(folder: Path, now_ms: int, faults: Faults) -> int:
    clock, settings = FakeClock(now_ms), settings_of(folder)
    runners = {"in_process": FakeRunner()}
    tasks = open_tasks(settings=settings, runners=runners, clock=clock)
    loop = open_loop(settings=settings, runners=runners, clock=clock)
    rounds = CompactionLoop(settings, runners, clock)
    store_records = open_records(settings=settings, clock=clock)
    try:
        for number in range(1, ROUNDS_MAX):
            rounds.run_round()
            loop.run_round()
            for attempt in tasks.live_attempts():
                try:
                    run_task_attempt(
                        attempt.task_id,
                        attempt.number,
                        settings=settings,
                        clock=clock,
                        pipeline=lambda root, _ids: Handing(
                            FaultyDeepStorage(root, faults), faults, clock=clock
                        ),
                    )
                except CarnacError:
                    continue  # it is written down
            loop.run_round()
            if not tasks.live_attempts() and is_in_order(store_records):
                return number
            clock.advance_ms(REST_MS)
        raise AssertionError("it does not come to rest")
    finally:
        store_records.close()
        rounds.close()
        loop.close()
        tasks.close()


def is_in_order(metadata: MetadataStore) -> bool:
    """Whether all that is known of the chunks is that they are stable."""
    states = metadata.compaction_states(NAME)
    seen = {chunk.interval: (chunk.revision, chunk.entries) for chunk in metadata.chunks(NAME)}
    return {state.chunk: (state.revision, state.segments) for state in states} == seen and all(
        state.status is ChunkStatus.STABLE for state in states
    )


WAYS: dict[str, Callable[[Path, int, Faults], int]] = {
    "alone": keep_alone,
    "overlord": keep_by_overlord,
}


def keep_and_die(way: str, folder: str, now_ms: int, step: int, after: bool) -> None:
    """Keep the store compacted until the step comes that kills this process."""

    def die(_: str) -> BaseException:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a process that was killed is there no more")

    faults = Faults(die)
    faults.arm(step, after=after)
    WAYS[way](Path(folder), now_ms, faults)
    os._exit(KILLED_NOWHERE)
