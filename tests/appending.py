"""A store that time passes over: appends every so often, the controller's rounds, and jobs that take their while.

All of it is real but time: rows become Parquet files, appends and rewrites are published, the controller follows the
log and starts the tasks that it decides on. A job reads and writes at once, and publishes when its time has come, so
appends come between, as with jobs that take minutes. One thread works at a time, so a seed replays a run.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from carnac.bootstrap.compaction import compact_groups
from carnac.bootstrap.store import open_records, open_store
from carnac.config import Settings
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.control.states import ChunkState, ChunkStatus
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.log.commits import CommitKind
from carnac.core.segments.lateness import LATENESSES, Lateness
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError
from carnac.overlord.compactor.controller import Controller
from carnac.overlord.compactor.service import CompactionService
from carnac.ports import RewriteJob, RewriteResult
from carnac.ports.compaction import GroupEnd, LiveRun, RunEnd, RunTerms
from carnac.store import Store
from tests.compactions import is_settled
from tests.support.clock import FakeClock, SequentialIds
from tests.support.lateness import count_late
from tests.support.pipeline import LocalPipeline
from tests.unit.store.events import HOUR_MS, NOW_MS, rows_of, spec

MINUTE_MS = 60_000
DAY_MS = 24 * HOUR_MS
START_MS = NOW_MS // DAY_MS * DAY_MS
ROWS_PER_SEGMENT = 100
SLOTS = 8
"""Enough for all arrivals, also while some tasks take long, as tasks that wait for a slot are in no order yet."""
SLACK = 1
SURPLUS_MAX = SLACK + 1
"""A chunk with more segments than it may have is planned when the one that is too many arrives: so one more."""
PATIENCE_S = 120.0
NAME = "events"
Row = tuple[int, int]
Ledger = Counter[tuple[Interval, Lateness]]
"""Late rows of each time chunk and lateness."""


class Gate:
    """Where a job waits until its time has come."""

    def __init__(self) -> None:
        self.is_reached = threading.Event()
        self.is_open = threading.Event()

    def wait(self) -> None:
        """Say that all is written, and wait."""
        self.is_reached.set()
        assert self.is_open.wait(PATIENCE_S)


class SlowPipeline(LocalPipeline):
    """A pipeline whose rewrites are written at once and handed over when the gate of their thread opens."""

    gates = threading.local()

    def run_rewrites(
        self,
        jobs: Sequence[RewriteJob],
        *,
        on_end: Callable[[RewriteJob, RewriteResult | CarnacError], None],
        **more: Any,
    ) -> None:
        ends: list[tuple[RewriteJob, RewriteResult | CarnacError]] = []
        super().run_rewrites(jobs, on_end=lambda job, end: ends.append((job, end)), **more)
        self.gates.mine.wait()
        for job, end in ends:
            on_end(job, end)


@dataclass
class Run:
    """A task at work, and when it will publish."""

    live: LiveRun
    task: CompactionTask
    due_ms: int
    gate: Gate = field(default_factory=Gate)
    thread: threading.Thread | None = None
    ends: Sequence[GroupEnd] = ()


class TimedRunner:
    """Runs tasks that end when the time has come (port `CompactionRunner`)."""

    def __init__(
        self,
        compact: Callable[..., Sequence[GroupEnd]],
        clock: FakeClock,
        take_ms: Callable[[CompactionTask], int],
    ) -> None:
        self._compact = compact
        self._clock = clock
        self._take_ms = take_ms
        self._count = 0
        self.runs: dict[str, Run] = {}
        self._ended: list[RunEnd] = []
        self.committed = 0
        self.lost = 0

    def start(self, task: CompactionTask, terms: RunTerms) -> str:
        del terms
        self._count += 1
        run_id, now_ms = f"run-{self._count}", self._clock.now_ms()
        live = LiveRun(
            run_id=run_id, datasource=task.datasource, groups=task.groups, started_ms=now_ms
        )
        run = self.runs[run_id] = Run(live, task, now_ms + self._take_ms(task))
        run.thread = threading.Thread(target=self._work, args=(run,), name=run_id, daemon=True)
        run.thread.start()
        assert run.gate.is_reached.wait(PATIENCE_S)
        return run_id

    def _work(self, run: Run) -> None:
        SlowPipeline.gates.mine = run.gate
        try:
            run.ends = self._compact(run.live.groups)
        finally:
            run.gate.is_reached.set()

    def next_due_ms(self) -> int | None:
        return min((run.due_ms for run in self.runs.values()), default=None)

    def finish_due(self) -> bool:
        """Let the jobs publish whose time has come; return whether one has."""
        now_ms = self._clock.now_ms()
        for run_id in [name for name, run in self.runs.items() if run.due_ms <= now_ms]:
            run = self.runs.pop(run_id)
            run.gate.is_open.set()
            assert run.thread is not None
            run.thread.join(PATIENCE_S)
            outcomes = Counter(end.outcome for end in run.ends)
            assert outcomes.total() == len(run.live.groups), "every group is accounted for"
            assert not outcomes["failed"], run.ends
            self.committed += outcomes["committed"]
            self.lost += outcomes["conflict"]
            self._ended.append(RunEnd(run_id=run_id, groups=run.ends))
        return bool(self._ended)

    def take_ended(self) -> Sequence[RunEnd]:
        ended, self._ended = self._ended, []
        return ended

    def live(self) -> Sequence[LiveRun]:
        return [run.live for run in self.runs.values()]

    def working(self) -> set[Interval]:
        """Return the chunks that a task is at work on."""
        return {chunk for run in self.runs.values() for chunk in run.task.chunks}

    def close(self) -> None:
        for run in self.runs.values():
            run.gate.is_open.set()
            if run.thread is not None:
                run.thread.join(PATIENCE_S)


class Week:
    """A datasource of hours, its controller, and the rows that were sent.

    Args:
        take_ms: How long a task takes.
    """

    def __init__(
        self, folder: Path, rng: random.Random, take_ms: Callable[[CompactionTask], int]
    ) -> None:
        self.rng = rng
        self.clock, self.ids = FakeClock(START_MS), SequentialIds()
        settings = Settings(store=str(folder / "store"), lease_ttl_ms=DAY_MS)
        with ExitStack() as opened:
            self.store = opened.enter_context(
                open_store(
                    create=True,
                    settings=settings,
                    clock=self.clock,
                    ids=self.ids,
                    pipeline=lambda root: SlowPipeline(root, clock=self.clock, ids=self.ids),
                )
            )
            self.metadata = open_records(settings=settings, clock=self.clock)
            opened.callback(self.metadata.close)
            self.runner = TimedRunner(partial(compact_groups, self.store), self.clock, take_ms)
            opened.callback(self.runner.close)
            self._opened = opened.pop_all()
        self.service = CompactionService(self.metadata, self.clock)
        self.service.put_spec(
            {
                "dataSource": NAME,
                "granularitySpec": {"segmentGranularity": "hour"},
                "tuningConfig": {
                    "partitionsSpec": {"type": "dynamic", "maxRowsPerSegment": ROWS_PER_SEGMENT}
                },
                "slack": SLACK,
            }
        )
        self.controller = Controller(
            self.metadata, self.runner, self.clock, capacity=Capacity(tasks=SLOTS)
        )
        self.rows: list[Row] = []
        self.late: list[int] = []
        self.ledger: Ledger = Counter()
        self.late_reported: list[int] = []
        self.by_chunk: Counter[Interval] = Counter()
        self.arrived: Counter[Interval] = Counter()
        self.newest_ms: int | None = None
        self.rounds = self.worst = 0

    def close(self) -> None:
        self._opened.close()

    def append(self, times: Sequence[int]) -> None:
        """Append rows of these times; each has an id of its own."""
        rows = [(len(self.rows) + place, at_ms) for place, at_ms in enumerate(times)]
        outcome = self.store.ingest(spec(NAME, granularity="hour"), rows_of(rows))
        assert outcome.report is not None
        self.late_reported.append(outcome.report.rows_late)
        newest_ms = self.newest_ms
        self.late.append(0 if newest_ms is None else sum(at_ms < newest_ms for at_ms in times))
        self.ledger += late_of(times, newest_ms)
        self.newest_ms = max(times if newest_ms is None else (newest_ms, *times))
        self.rows += rows
        self.by_chunk.update(map(hour_of, times))
        self.arrived.update(self.runner.working().intersection(map(hour_of, times)))
        self.check_counts()

    def pass_until(self, end_ms: int) -> None:
        """Let time pass: jobs end when they are due, and the controller has a round each time, and once besides."""
        self.have_round()
        while (due_ms := self.runner.next_due_ms()) is not None and due_ms <= end_ms:
            self.clock.advance_ms(max(due_ms - self.clock.now_ms(), 0))
            self.have_round()
        self.clock.advance_ms(max(end_ms - self.clock.now_ms(), 0))

    def have_round(self) -> None:
        self.store._leases._renew()  # its thread does not see the clock move
        if self.runner.finish_due():
            self.check_counts()
        self.controller.run_round()
        assert not self.controller.conductor.queue.waiting, "no task waits for a slot"
        self.rounds += 1
        working = self.runner.working()
        for chunk in [chunk for chunk in self.arrived if chunk not in working]:
            del self.arrived[chunk]

    def check_counts(self) -> None:
        """Segments per chunk stay within ceil(rows / target) + 2.

        Where a task is at work on a chunk, what has come since it began does not count: it is judged when the task
        has ended.
        """
        for chunk in self.store.chunks(NAME):
            ideal = -(-self.by_chunk[chunk.interval] // ROWS_PER_SEGMENT)
            surplus = chunk.entries - ideal - self.arrived[chunk.interval]
            assert surplus <= SURPLUS_MAX, f"{chunk} has {chunk.entries} segments"
            self.worst = max(self.worst, chunk.entries - ideal)

    def states(self) -> Sequence[ChunkState]:
        return self.metadata.compaction_states(NAME)

    def is_stable(self) -> bool:
        return is_settled(self.controller) and all(
            state.status in {ChunkStatus.STABLE, ChunkStatus.EMPTY} for state in self.states()
        )

    def found(self) -> Counter[Row]:
        """Return the rows that are there."""
        result = self.store.sql(f'SELECT id, epoch_ms(__time) AS t FROM "{NAME}"')
        return Counter((row["id"], row["t"]) for row in result.rows())


def late_of(times: Sequence[int], newest_ms: int | None) -> Ledger:
    """Return the late ones of an append into hours, counted one by one."""
    found: Ledger = Counter()
    for at_ms in times:
        for lateness, count in zip(LATENESSES, count_late([at_ms], newest_ms), strict=True):
            found[hour_of(at_ms), lateness] += count
    return +found


def ledger_of(store: Store) -> Ledger:
    """Return the late ledger of the store."""
    return Counter({(line.chunk, line.lateness): line.rows for line in store.late(NAME).lines})


def check_folding(store: Store) -> None:
    """Check that late segments that are not folded are those of appends, and that the ledger counts them."""
    appended = {
        segment.segment_id
        for commit in store.changes(after=0, limit=1_000_000)
        if commit.kind is CommitKind.APPEND
        for change in commit.changes
        for segment in change.segments
    }
    late = [item.segment for item in store.segments(NAME) if item.segment.late is not None]
    for segment in late:
        assert segment.late is not None
        assert segment.late.is_folded == (segment.segment_id not in appended)
    waiting = {segment.segment_id for segment in late} & appended
    total = store.late(NAME).total
    assert total.segments - total.segments_folded == len(waiting)


def hour_of(at_ms: int) -> Interval:
    start_ms = at_ms // HOUR_MS * HOUR_MS
    return Interval(start_ms, start_ms + HOUR_MS)
