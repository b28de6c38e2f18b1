"""The composition root of compaction: its service, its controller alone in a process, or as rounds of an overlord."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from carnac.bootstrap.store import open_records, settings_for
from carnac.bootstrap.tasks import open_tasks
from carnac.clock import RandomIds, StoreClock
from carnac.config import Settings
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.errors import CarnacError
from carnac.overlord.compactor.controller import Controller
from carnac.overlord.compactor.local import LocalRunner
from carnac.overlord.compactor.overlord import OverlordRunner
from carnac.overlord.compactor.service import CompactionService
from carnac.overlord.tasks import TaskService
from carnac.ports import Clock, IdSource, JobProgress, TaskRunner
from carnac.ports.compaction import GroupEnd
from carnac.spark.interrupts import give_up, go_on

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore
    from carnac.store import Store
    from carnac.store.compacting.reports import GroupReport


def open_compaction(
    store: str | os.PathLike[str] | None = None,
    *,
    settings: Settings | None = None,
    clock: Clock | None = None,
) -> CompactionService:
    """Open what people ask of compaction: specs, plans with their reasons, status.

    Args:
        store: As for `carnac.open`.
        settings: In place of those from `carnac.toml` and the environment.
        clock: In place of the machine's clock, for tests.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    settings, clock = settings_for(store, settings), clock or StoreClock()
    return CompactionService(open_records(settings=settings, clock=clock), clock)


class LocalCompaction:
    """A controller that compacts in this process; `close` waits for what runs."""

    def __init__(
        self, start: Callable[[], Controller], runner: LocalRunner, metadata: MetadataStore
    ) -> None:
        self._start = start
        self.controller = start()
        self.runner = runner
        self._metadata = metadata

    def start_anew(self) -> None:
        """Let another controller take over, after a round that failed: it begins from what is written down."""
        self.controller = self._start()

    def close(self) -> None:
        """Wait for the runs that are under way, and release connections."""
        try:
            self.runner.close()
        finally:
            go_on()
            self._metadata.close()


def open_local_compaction(
    store: Store,
    *,
    settings: Settings,
    datasources: Iterable[str] | None = None,
    clock: Clock | None = None,
) -> LocalCompaction:
    """Open a controller that has the tasks run by `store`, in threads.

    Args:
        datasources: Only these of those that have a spec; None: all.
    """
    clock = clock or StoreClock()
    metadata = open_records(settings=settings, clock=clock)
    capacity = capacity_of(settings)
    compact = partial(compact_groups, store)
    runner = LocalRunner(compact, clock, tasks_max=capacity.tasks, on_stop=give_up)
    start = partial(Controller, metadata, runner, clock, capacity=capacity, datasources=datasources)
    return LocalCompaction(start, runner, metadata)


class CompactionLoop:
    """The controller as rounds of an overlord.

    A controller is of one leadership: another leader may have submitted tasks since. Like one whose round failed, it is
    followed by one that begins from what is written down.

    Args:
        fence: Of the leadership by which this process has the rounds now; None: it does not lead.
        metadata, tasks, ids: In place of those that the settings name.
    """

    def __init__(
        self,
        settings: Settings,
        runners: Mapping[str, TaskRunner],
        clock: Clock,
        *,
        fence: Callable[[], int | None] = lambda: 0,
        metadata: MetadataStore | None = None,
        tasks: TaskService | None = None,
        ids: IdSource | None = None,
    ) -> None:
        self._settings = settings
        self._fence = fence
        self._led: int | None = None
        self._clock = clock
        self._metadata = metadata or open_records(settings=settings, clock=clock)
        self._tasks = tasks or open_tasks(settings=settings, runners=runners, clock=clock)
        self._ids = ids or RandomIds()
        self._controller: Controller | None = None

    def run_round(self) -> None:
        """Have a round, if this process leads."""
        fence = self._fence()
        if fence is None:
            return
        if self._controller is None or fence != self._led:
            self._led = fence
            self._controller = Controller(
                self._metadata,
                OverlordRunner(self._tasks, self._ids),
                self._clock,
                capacity=capacity_of(self._settings),
            )
        try:
            self._controller.run_round()
        except BaseException:
            self._controller = None
            raise

    def close(self) -> None:
        """Release connections; tasks that were submitted go on."""
        self._tasks.close()
        self._metadata.close()


def capacity_of(settings: Settings) -> Capacity:
    """Return what of compaction may run at a time."""
    return Capacity(
        tasks=settings.compaction_task_slots,
        cost=settings.compaction_cost_capacity_bytes,
        queue_max=settings.compaction_queue_max,
    )


def compact_groups(
    store: Store,
    groups: Sequence[CompactionGroup],
    on_progress: Callable[[JobProgress], None] | None = None,
) -> Sequence[GroupEnd]:
    """Rewrite groups with a store; return what became of each; where the run breaks off, the rest fails of that."""
    ended: list[GroupReport] = []
    try:
        store.compact(groups, message="compaction", on_group=ended.append, on_progress=on_progress)
    except CarnacError as error:
        known = {one.group.group_id for one in ended}
        rest = [one.group_id for one in groups if one.group_id not in known]
        failed = [
            GroupEnd(group_id=one, outcome="failed", error=error.message, exit_code=error.exit_code)
            for one in rest
        ]
        return [*ends_of(ended), *failed]
    return ends_of(ended)


def ends_of(reports: Iterable[GroupReport]) -> Sequence[GroupEnd]:
    """Return reports of groups as the controller takes them."""
    return [
        GroupEnd(
            group_id=one.group.group_id,
            outcome=str(one.outcome),
            error=None if one.error is None else one.error.message,
            exit_code=0 if one.error is None else one.error.exit_code,
            bytes_wasted=one.bytes_wasted,
        )
        for one in reports
    ]
