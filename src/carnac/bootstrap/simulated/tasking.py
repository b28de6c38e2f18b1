"""A client of an overlord: it submits tasks, cancels some, retries others, and asks for the outcome of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from carnac.bootstrap.simulated.audit import NUMBER
from carnac.bootstrap.simulated.clients import (
    DATASOURCES,
    GRANULARITY,
    HOUR_MS,
    HOURS,
    SPEC,
    START_MS,
    WritingScript,
)
from carnac.bootstrap.simulated.overlords import open_lockbox, open_tasks
from carnac.core.tasks.model import TaskState
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, Conflict, NotFound, Unavailable
from carnac.overlord.compactor.service import CompactionService
from carnac.simulation.cluster.oracle import TASK, Wanted

if TYPE_CHECKING:
    from carnac.bootstrap.simulated.world import Host
    from carnac.core.tasks.model import Task
    from carnac.overlord.lockbox import Lockbox
    from carnac.overlord.tasks import TaskService

CONTEXTS: tuple[dict[str, object], ...] = (
    {},
    {},
    {"forceTimeChunkLock": True},
    {"priority": 90, "retries": 5},
    {"taskLockType": "EXCLUSIVE", "retryDelayMs": 500},
    {"taskLockTimeout": 5_000},
)


class TaskingScript(WritingScript):
    """A client of overlords.

    Attributes:
        open: Changes by tasks that are not known to be over, by task id; None: one that rows do not show.
        unsent: Task that may not have arrived; it is submitted again until it has.
        ended: Tasks that failed or were cancelled.
    """

    def __init__(self, world: Any, name: str, seed: str, count: int) -> None:
        super().__init__(world, name, seed, count)
        self.open: dict[str, Wanted | None] = {}
        self.unsent: tuple[str, dict[str, object], Wanted | None] | None = None
        self.ended: dict[str, Wanted | None] = {}
        self.uncompacted = list(DATASOURCES)

    @property
    def is_over(self) -> bool:
        """Whether all is submitted and over."""
        return self.left <= 0 and not self.open and self.unsent is None and not self.uncompacted

    def run(self, host: Host) -> None:
        """Have tasks run until all are over."""
        service = open_tasks(host)
        while not self.is_over:
            host.kernel.pause(200, 6_000 if self.world.faults.is_on else 1_000)
            try:
                self._turn(service, host)
            except (Unavailable, NotFound) as error:
                self.world.kernel.note(f"tasks: {type(error).__name__}: {error.message[:120]}")

    def _turn(self, service: TaskService, host: Host) -> None:
        if self.uncompacted:
            compaction = CompactionService(host.metadata, host.clock)
            name = self.uncompacted[-1]
            compaction.put_spec({"dataSource": name})
            self.uncompacted = [one for one in self.uncompacted if one != name]
        for task_id in list(self.open):
            self._look(service, task_id)
        if self.world.faults.is_on and self.rng.random() < self.world.swarm.breaks:
            self._break(open_lockbox(host))
        if self.unsent is None and self.left > 0:
            self.left -= 1
            self._decide(service)
        if self.unsent is not None:
            self._send(service, *self.unsent)

    def _decide(self, service: TaskService) -> None:
        chosen = self.rng.choices(
            (self._ingest, self._swap, self._remove, self._compact, self._cancel, self._retry),
            weights=(10, 3, 3, 3, 2, 1),
        )[0]
        chosen(service)

    # ------------------------------------------------------------------------------------------------ what it wants

    def _prepare(self, one: Wanted | None, task: dict[str, object]) -> None:
        number = f"other-{self.left}" if one is None else f"{one.number}"
        context = dict(self.rng.choice(CONTEXTS))
        self.unsent = (f"{TASK}{number}", {**task, "context": context}, one)

    def _ingest(self, _service: TaskService) -> None:
        one = self.world.auditor.oracle.want(
            "append", self.rng.choice(DATASOURCES), rows=self._rows()
        )
        self._prepare(one, {"type": "index_parallel", "spec": _spec_of(one, "append")})

    def _swap(self, _service: TaskService) -> None:
        first = START_MS + self.rng.randrange(HOURS) * HOUR_MS
        span = Interval(first, first + HOUR_MS)
        one = self.world.auditor.oracle.want(
            "replace", self.rng.choice(DATASOURCES), rows=self._rows(span), within=span
        )
        self._prepare(one, {"type": "replace", "spec": _spec_of(one, "replace")})

    def _remove(self, _service: TaskService) -> None:
        span = self._span()
        remainder = self.rng.choice((None, None, 0, 1, 2))
        one = self.world.auditor.oracle.want(
            "delete",
            self.rng.choice(DATASOURCES),
            within=span,
            hits=lambda row: remainder is None or row.number % 3 == remainder,
        )
        task: dict[str, object] = {
            "type": "delete",
            "dataSource": one.datasource,
            "interval": str(span),
        }
        if remainder is not None:
            task["where"] = f"{NUMBER} % 3 = {remainder}"
        self._prepare(one, task)

    def _compact(self, _service: TaskService) -> None:
        kind = self.rng.choice(("compact", "compact", "kill", "clean"))
        self._prepare(None, {"type": kind, "dataSource": self.rng.choice(DATASOURCES)})

    def _break(self, lockbox: Lockbox) -> None:
        """Break a lock of a task that publishes, as if it blocked an operator."""
        found = [one.lock for one in lockbox.explain() if one.lock.is_publishing]
        if found:
            lock = self.rng.choice(found)
            self.world.kernel.note(f"breaks lock {lock.lock_id} of {lock.task_id}")
            lockbox.break_lock(lock.lock_id)

    def _cancel(self, service: TaskService) -> None:
        if self.open:
            service.cancel(self.rng.choice(sorted(self.open)))

    def _retry(self, service: TaskService) -> None:
        if not self.ended:
            return
        task_id = self.rng.choice(sorted(self.ended))
        one = self.ended.pop(task_id)
        if one is not None:
            one.is_refused = False
        self.open[task_id] = one
        try:
            service.retry(task_id)
        except Conflict as error:
            self.world.kernel.note(f"task {task_id} is not tried again: {error.message}")

    # ---------------------------------------------------------------------------------------------- what becomes of it

    def _send(
        self, service: TaskService, task_id: str, task: dict[str, object], one: Wanted | None
    ) -> None:
        try:
            service.submit({"id": task_id, **task})
        except Unavailable:
            raise
        except CarnacError as error:
            self.world.kernel.violate("tasks", f"task {task_id} is refused: {error.message}")
        self.unsent, self.open[task_id] = None, one

    def _look(self, service: TaskService, task_id: str) -> None:
        task = service.get(task_id)
        if not task.state.is_over:
            return
        report = service.report(task_id) or {}
        if task_id not in self.open:
            return  # this process stood still meanwhile, and another one has asked
        one = self.open.pop(task_id)
        if task.state is not TaskState.SUCCEEDED:
            self._failed(task, one)
        elif one is not None:
            one.acknowledged = cast("int | None", report.get("revision"))
        self.world.kernel.note(f"task {task_id}: {task.state}")

    def _failed(self, task: Task, one: Wanted | None) -> None:
        if (task.error or "").startswith("a bug"):
            self.world.kernel.violate("laws", f"task {task.task_id} failed: {task.error}")
        if one is not None:
            one.is_refused = one.revision is None
        self.ended[task.task_id] = one


def _spec_of(one: Wanted, mode: str) -> dict[str, object]:
    """Return the spec of a task that brings rows."""
    block: dict[str, object] = dict(GRANULARITY)
    if one.within is not None:
        block["intervals"] = [str(one.within)]
    lines = [json.dumps({"t": row.at_ms, NUMBER: row.number}) for row in one.rows]
    return {
        **SPEC,
        "dataSource": one.datasource,
        "mode": mode,
        "granularitySpec": block,
        "input": {"type": "inline", "data": "\n".join(lines)},
    }
