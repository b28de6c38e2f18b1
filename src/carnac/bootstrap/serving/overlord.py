"""The composition root of an overlord: its loop, its runners, and what it answers over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter

from carnac.api import leading, locks, own, tasks
from carnac.api.admission import Admission
from carnac.api.allocation import make_router as allocation_router
from carnac.api.hosts import is_loopback
from carnac.api.overlord import compaction, statements, supervisors, workers
from carnac.api.services import Services
from carnac.api.sql import loads
from carnac.api.sql.kept import StatementRows
from carnac.api.sql.selects import describe_by
from carnac.bootstrap.compaction import CompactionLoop
from carnac.bootstrap.runners import open_runners
from carnac.bootstrap.spark import make_spark, make_spark_pipeline
from carnac.bootstrap.store import (
    locate_store,
    make_lockbox,
    name_of_store,
    open_files,
    open_records,
)
from carnac.bootstrap.tasks import open_loop, open_tasks, run_task_attempt
from carnac.clock import RandomIds, SystemClock
from carnac.config import Settings
from carnac.overlord.compactor.service import CompactionService
from carnac.overlord.runners import InProcessRunner
from carnac.overlord.supervisors.rounds import SupervisorRounds
from carnac.overlord.supervisors.service import SupervisorService
from carnac.ports.loops import LEAVING_S, Loop
from carnac.store.upkeep.verifying import Scrubber

if TYPE_CHECKING:
    from carnac.bootstrap.serving.assembly import Assembly
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock, DeepStorage, IdSource
    from carnac.spark.session import SparkHolder

COMPACTION_STALE_MS = 1_800_000
"""How long a round of compaction may take: the first one looks at every segment of the store."""
SUPERVISOR_PERIOD_MS = 1_000
"""Pause between two looks at supervisors: how soon a task follows another one."""
SCRUB_PERIOD_MS = 10_000
"""Pause between two rounds of scrubbing, each of which reads its share of the rate."""
SCRUB_STALE_MS = 1_800_000
"""How long a round of scrubbing may take: a file that is large, or far away."""

_log = logging.getLogger(__name__)


def add(assembly: Assembly) -> None:
    """Add an overlord: its loop, its runners, compaction, scrubbing, and what it answers.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`; or the runner cannot work.
    """
    steps, clock = assembly.steps, assembly.clock
    settings = _with_input_roots(assembly.settings, assembly.host)  # for attempts, too
    spark = make_spark(settings)
    steps.callback(spark.close)
    runners = open_runners(settings, run=_attempts_here(settings, spark))
    for runner in {id(one): one for one in runners.values()}.values():
        steps.callback(runner.close)
    tasks = steps.enter_context(open_tasks(settings=settings, runners=runners))
    metadata = open_records(settings=settings, clock=clock)
    lockbox = steps.enter_context(make_lockbox(metadata, settings, clock))
    loop = open_loop(settings=settings, runners=runners, url=assembly.url)
    assembly.leaves.callback(loop.close)
    rounds = CompactionLoop(settings, runners, clock, fence=lambda: loop.fence)
    steps.callback(rounds.close)
    compacting = compaction_loop(rounds, settings, clock)
    steps.callback(compacting.stop)
    supervising = _supervisor_loop(
        SupervisorRounds(metadata, tasks, clock, is_leader=lambda: loop.is_leader), clock
    )
    steps.callback(supervising.stop)
    scrub = _scrub_loop(metadata, settings, clock, is_leader=lambda: loop.is_leader)
    steps.callback(scrub.stop, wait_s=LEAVING_S)
    services = Services(
        tasks=tasks,
        locks=lockbox,
        loop=loop,
        compaction=CompactionService(metadata, clock),
        supervisors=SupervisorService(metadata, tasks, clock),
        compaction_slots=settings.compaction_task_slots,
        admission=_admission(settings),
        kept=StatementRows(open_files(metadata, settings)),
        describe=partial(describe_by, assembly.brokers, RandomIds().new_id),
    )
    assembly.routers.extend([*make_routers(services), allocation_router(metadata)])
    assembly.loops.extend([*loop.loops, compacting, supervising, scrub])
    assembly.starts.extend([loop.start, compacting.start, supervising.start, scrub.start])
    assembly.starts.append(lambda: _log.info("tasks run by %s", settings.task_runner))


def _with_input_roots(settings: Settings, host: str) -> Settings:
    """Return the settings with the folders and URLs below which tasks that come over HTTP may read."""
    if settings.http_input_roots is not None:
        return settings
    place = locate_store(name_of_store(None, settings))
    folders = [place.folder, Path.cwd()] if is_loopback(host) else []
    roots = [str(one.absolute()) for one in folders if one is not None and one.parent != one]
    return settings.model_copy(update={"http_input_roots": tuple(roots)})


def _admission(settings: Settings) -> Admission:
    return Admission(
        input_roots=settings.http_input_roots or (), spark_settings=settings.http_spark_conf
    )


def compaction_loop(rounds: CompactionLoop, settings: Settings, clock: Clock) -> Loop:
    """Return the loop that has the rounds of compaction."""
    return Loop(
        "compaction",
        rounds.run_round,
        log=_log,
        period_ms=settings.compaction_period_ms,
        clock=clock,
        stale_ms=COMPACTION_STALE_MS,
    )


def _supervisor_loop(rounds: SupervisorRounds, clock: Clock) -> Loop:
    """Return the rounds over what is read from streams."""
    return Loop(
        "supervisors",
        rounds.run_round,
        log=_log,
        period_ms=SUPERVISOR_PERIOD_MS,
        clock=clock,
    )


def _scrub_loop(
    metadata: MetadataStore, settings: Settings, clock: Clock, *, is_leader: Callable[[], bool]
) -> Loop:
    """Return the rounds of reading all segment files again and again, slowly."""
    scrubber = Scrubber(
        metadata,
        open_files(metadata, settings),
        clock,
        bytes_per_s=settings.scrub_bytes_per_s,
    )

    def run_round() -> None:
        if is_leader():
            scrubber.run_round(SCRUB_PERIOD_MS, is_stopping=loop.is_stopping)

    loop = Loop(
        "scrub",
        run_round,
        log=_log,
        period_ms=SCRUB_PERIOD_MS,
        clock=clock,
        stale_ms=SCRUB_STALE_MS,
    )
    return loop


def _attempts_here(settings: Settings, spark: SparkHolder) -> Callable[[str, int], object] | None:
    """Return what runs attempts in this process, all on one Spark, if the settings say so."""
    if settings.task_runner != InProcessRunner.name:
        return None

    def lend(files: DeepStorage, ids: IdSource) -> SparkPipeline:
        return make_spark_pipeline(files, settings, SystemClock(), ids, spark=spark)

    def run(task_id: str, number: int) -> object:
        return run_task_attempt(task_id, number, settings=settings, pipeline=lend)

    return run


def make_routers(services: Services) -> list[APIRouter]:
    """Return the routes."""
    return [
        tasks.make_router(services),
        loads.make_router(services),
        statements.make_router(services),
        locks.make_router(services.locks),
        leading.make_router(
            tasks.PREFIX,
            "overlord",
            tag="leadership",
            knows=services.tasks,
            leads=lambda: services.loop.is_leader,
        ),
        own.make_router(services.tasks),
        supervisors.make_router(services.supervisors, services.admission),
        workers.make_router(services),
        compaction.make_router(
            services.compaction,
            admission=services.admission,
            task_slots=services.compaction_slots,
        ),
    ]
