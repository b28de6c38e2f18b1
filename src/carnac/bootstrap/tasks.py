"""The composition root of tasks: the service, the overlord's loop, and what runs an attempt."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from carnac.bootstrap.spark import giving_way
from carnac.bootstrap.store import (
    make_lockbox,
    open_files,
    open_records,
    open_store,
    process_name,
    settings_for,
)
from carnac.clock import MarkedIds, RandomIds, StoreClock
from carnac.config import Settings
from carnac.core.ids import mark_of
from carnac.core.tasks.model import SELECTED, Attempt, Task
from carnac.overlord.attempt import run_attempt
from carnac.overlord.clearing import note_waste
from carnac.overlord.loop import LoopSettings, OverlordLoop
from carnac.overlord.tasks import TaskService
from carnac.ports import Clock, DeepStorage, IdSource, TaskRunner
from carnac.ports.loops import safely

if TYPE_CHECKING:
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.metadata.store import MetadataStore
    from carnac.overlord.lockbox import Lockbox
    from carnac.overlord.supervisors.service import SupervisorService
    from carnac.specs.tasks.spec import AnyTask
    from carnac.store import Store

SELECT_MEMORY_MIN = 256 << 20
"""Bytes for the SELECT of a task, however many slots there are."""

_log = logging.getLogger(__name__)


def open_tasks(
    store: str | os.PathLike[str] | None = None,
    *,
    settings: Settings | None = None,
    runners: Mapping[str, TaskRunner] | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
) -> TaskService:
    """Open the tasks of a store that is there. Use it in a `with` block, or call `close`.

    An overlord (`carnac overlord`) runs what is submitted; it need not run now.

    Args:
        store: As for `carnac.open`.
        settings: In place of those from `carnac.toml` and the environment.
        runners: Runners that find the logs of attempts; None: those of this machine.
        clock: In place of the machine's clock, for tests.
        ids: In place of random ids, for tests.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    from carnac.bootstrap.runners import open_runners

    settings = settings_for(store, settings)
    clock, ids = clock or StoreClock(), ids or RandomIds()
    metadata = open_records(settings=settings, clock=clock, ids=ids)
    return TaskService(
        metadata,
        clock,
        ids,
        load=load_checked,
        runners=open_runners(settings) if runners is None else runners,
    )


def open_supervisors(settings: Settings) -> SupervisorService:
    """Open the supervisors of the store of the settings. Use it in a `with` block, or call `close`.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    from carnac.overlord.supervisors.service import SupervisorService

    clock = StoreClock()
    metadata = open_records(settings=settings, clock=clock)
    return SupervisorService(metadata, open_tasks(settings=settings, clock=clock), clock)


def open_loop(
    *,
    settings: Settings,
    runners: Mapping[str, TaskRunner],
    url: str = "",
    clock: Clock | None = None,
) -> OverlordLoop:
    """Open the loop of an overlord; `run` or `start` it, `stop` and `close` it.

    Args:
        runners: Runners by name; `Settings.task_runner` among them starts attempts.
        url: URL of this overlord's HTTP interface.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    clock, ids = clock or StoreClock(), RandomIds()
    metadata = open_records(
        settings=settings, clock=clock, ids=ids, patience_ms=settings.lease_ttl_ms
    )

    return OverlordLoop(
        metadata,
        clock,
        leader_id=ids.new_id(),
        holder=process_name(),
        runners=runners,
        settings=LoopSettings(
            runner=settings.task_runner,
            capacity=settings.task_slots,
            lease_ms=settings.lease_ttl_ms,
            start_lease_ms=settings.task_start_timeout_ms,
            period_ms=settings.overlord_period_ms,
            upkeep_period_ms=settings.overlord_upkeep_period_ms,
            url=url,
        ),
        clear_up=partial(clear_up, metadata, partial(open_files, metadata, settings)),
        upkeep=partial(
            keep_up,
            settings,
            open_tasks=partial(
                open_tasks, settings=settings, runners=runners, clock=clock, ids=ids
            ),
            open_lockbox=lambda: make_lockbox(
                open_records(settings=settings, clock=clock, ids=ids), settings, clock
            ),
            open_store=partial(open_store, settings=settings, clock=clock, ids=ids),
        ),
    )


def keep_up(
    settings: Settings,
    is_stopping: Callable[[], bool],
    *,
    open_tasks: Callable[[], TaskService],
    open_lockbox: Callable[[], Lockbox],
    open_store: Callable[[], Store],
) -> None:
    """Do the upkeep of the leader; a failure in one part keeps no other from being done."""

    def forget_tasks() -> None:
        with open_tasks() as service:
            service.trim(retention_ms=settings.task_retention_ms)

    def end_locks() -> None:
        with open_lockbox() as lockbox:
            lockbox.expire()

    def collect_garbage() -> None:
        with open_store() as opened:
            opened.gc(is_stopping=is_stopping)

    safely(_log, "forgetting old tasks", forget_tasks)
    safely(_log, "ending the locks of the dead", end_locks)
    safely(_log, "garbage collection", collect_garbage)


def clear_up(
    metadata: MetadataStore, open_files: Callable[[], DeepStorage], attempt: Attempt
) -> None:
    """Remove what an attempt that is over has left behind, here and in deep storage."""
    from carnac.overlord.runners.children import remove_scratch
    from carnac.store.upkeep.maintenance import remove_leftovers

    mark = mark_of_attempt(attempt)
    remove_scratch(mark)
    task = metadata.find_task(attempt.task_id)
    if task is None:
        return
    removed = remove_leftovers(metadata, open_files(), task.datasource, mark)
    if removed:
        _log.info("%s left %s files behind, removed now", attempt.lock_owner, len(removed))
    if removed and task.type == "compact":
        note_waste(metadata, attempt, sum(file.size_bytes for file in removed))


def run_task_attempt(
    task_id: str,
    number: int,
    *,
    settings: Settings,
    on_lost: Callable[[], None] = lambda: None,
    pipeline: Callable[[DeepStorage, IdSource], SparkPipeline] | None = None,
    clock: Clock | None = None,
) -> Mapping[str, object]:
    """Run one attempt of a task of the store that the settings name; return its report.

    Args:
        on_lost: Called from a thread once the attempt has no right to its task any more: end the process.
        pipeline: Makes what runs data jobs, with ids that bear the attempt's mark; None: a Spark of its own.

    Raises:
        Revoked: The attempt is not to be run, or not any more.
        CarnacError: The attempt failed; the failure is recorded.
    """
    from carnac.store.jobs import StoreJobs

    clock = clock or StoreClock()
    with open_records(settings=settings, clock=clock) as metadata:
        marked = [one for one in metadata.attempts(task_id) if one.number == number]
        ids = MarkedIds(mark_of_attempt(marked[0])) if marked else RandomIds()
        make = None if pipeline is None else lambda files: pipeline(files, ids)
        task = metadata.find_task(task_id)
        if task is not None and task.type == "compact":
            settings = giving_way(settings)
        if task is not None and task.datasource == SELECTED:
            settings = _selecting(settings, task)
        with open_store(
            settings=settings, clock=clock, ids=ids, pipeline=make, is_for_users=False
        ) as store:
            return run_attempt(
                metadata,
                make_lockbox(metadata, settings, clock),
                StoreJobs(
                    store,
                    find_payload=metadata.task_payload,
                    input_roots=settings.http_input_roots or (),
                    clock=clock,
                ),
                clock,
                holder=process_name(),
                task_id=task_id,
                number=number,
                on_lost=on_lost,
            )


def _selecting(settings: Settings, task: Task) -> Settings:
    """Return the settings for the SELECT of a task: a share of the memory, and no time limit but its own.

    As many of them may run at a time as there are slots, beside the process that serves.
    """
    from carnac.query.running.limits import default_memory_bytes

    given = json.loads(task.context).get("timeout")
    is_number = isinstance(given, int) and not isinstance(given, bool)
    memory_bytes = settings.query_memory_limit_bytes or default_memory_bytes()
    return settings.model_copy(
        update={
            "query_timeout_ms": int(given) if is_number and given > 0 else 0,
            "query_memory_limit_bytes": max(
                SELECT_MEMORY_MIN, memory_bytes // (settings.task_slots + 1)
            ),
        }
    )


def mark_of_attempt(attempt: Attempt) -> str:
    """Return what the ids that an attempt makes bear."""
    return mark_of(attempt.task_id, attempt.number, attempt.created_at_ms)


def load_checked(payload: Mapping[str, object]) -> AnyTask:
    """Return a task that was submitted, or say in one error all that is wrong with it."""
    from carnac.specs.tasks.spec import DeleteTask, SelectTask, load_task

    task = load_task(payload)
    if isinstance(task, SelectTask):
        from carnac.query.schema.outline import check_select

        check_select(task.query)
    if isinstance(task, DeleteTask) and task.where is not None:
        from carnac.jobs.delete.predicate import check_syntax

        check_syntax(task.where)
    return task
