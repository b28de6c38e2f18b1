"""What `carnac compaction status` says of a controller that cannot keep up, and of one whose every try fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from carnac.bootstrap.compaction import compact_groups
from carnac.cli import main
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.control.survey import RETRY_FIRST_MS
from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.errors import DiskFull
from carnac.overlord.compactor.controller import Controller
from carnac.ports.compaction import GroupEnd, LiveRun, RunEnd, RunTerms
from tests.unit.overlord.compactor.controlled import Desk
from tests.unit.store.events import append, fast_folder

SPEC = {
    "dataSource": "events",
    "granularitySpec": {"segmentGranularity": "hour"},
    "maxTaskBytes": 1,
    "smallTaskBytes": 0,
}
QUEUE_MAX, ROUNDS, CHUNKS, SEGMENTS = 2, 4, 5, 3
ROUND_MS = 10_000
Compact = Callable[[Sequence[CompactionGroup]], Sequence[GroupEnd]]


class OneARound:
    """Runs tasks one after the other: the oldest ends in each round (port `CompactionRunner`)."""

    def __init__(self, compact: Compact, service: Desk) -> None:
        self._compact, self._desk = compact, service
        self._tasks: dict[str, tuple[CompactionTask, LiveRun]] = {}
        self._count = 0

    def start(self, task: CompactionTask, terms: RunTerms) -> str:
        """Remember the task."""
        del terms
        self._count += 1
        run = LiveRun(
            run_id=f"run-{self._count}",
            datasource=task.datasource,
            groups=task.groups,
            started_ms=self._desk.clock.now_ms(),
        )
        self._tasks[run.run_id] = task, run
        return run.run_id

    def take_ended(self) -> Sequence[RunEnd]:
        """Do the oldest task."""
        if not self._tasks:
            return []
        run_id = next(iter(self._tasks))
        task, _ = self._tasks.pop(run_id)
        ends = tuple(self._compact(task.groups))
        wasted = sum(one.bytes_wasted for one in ends)
        return [RunEnd(run_id=run_id, groups=ends, bytes_wasted=wasted)]

    def live(self) -> Sequence[LiveRun]:
        """Return what waits its turn."""
        return [run for _, run in self._tasks.values()]

    def close(self) -> None:
        """Nothing to release."""


@pytest.fixture
def service() -> Iterator[Desk]:
    with fast_folder() as name:
        service = Desk(Path(name))
        service.service.put_spec(SPEC)
        yield service
        service.close()


def keep(service: Desk, compact: Compact) -> Controller:
    """Let rows come to more and more time chunks while one task a round is done."""
    capacity = Capacity(tasks=1, queue_max=QUEUE_MAX)
    controller = Controller(
        service.metadata, OneARound(compact, service), service.clock, capacity=capacity
    )
    for number in range(ROUNDS):
        for segment in range(SEGMENTS):
            append(service.store, *((segment, number * CHUNKS + place) for place in range(CHUNKS)))
        controller.run_round()
        service.clock.advance_ms(ROUND_MS)
    return controller


def status(service: Desk, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert main(["compaction", "status", "--store", service.settings.store.get_secret_value()]) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_more_arrives_than_is_done(service: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    controller = keep(service, partial(compact_groups, service.store))
    lines = status(service, capsys)
    done, waiting = ROUNDS - 1, QUEUE_MAX + 1  # with the one that runs
    shed = ROUNDS * CHUNKS - done - waiting
    (verdict,) = (line for line in lines if line.startswith("verdict"))
    assert " never clears: more arrives than is done; " in verdict
    assert verdict.endswith(" of lowest priority shed")
    (what,) = (line for line in lines if line.startswith("shed"))
    assert what.startswith(f"shed {shed} time chunks of events in 2013-10-22T")
    assert what.endswith("until the queue runs empty")
    (summary,) = (line for line in lines if line.startswith("events"))
    assert summary.split()[4] == str(shed), "of the table: deferred"
    assert len([line for line in lines if line.startswith("waits")]) == QUEUE_MAX
    deferred = controller.conductor.survey("events").deferred()
    queued = controller.conductor.queue.waiting
    assert max(one.priority for one in deferred) <= min(one.priority for one in queued)


def test_every_try_fails(service: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(groups: Sequence[CompactionGroup]) -> Sequence[GroupEnd]:
        error = DiskFull("the disk of deep storage x is full; make room and run the job again")
        return [
            GroupEnd(group_id=one.group_id, outcome="failed", error=error.message, bytes_wasted=7)
            for one in groups
        ]

    controller = keep(service, fail)
    for _ in range(ROUNDS * CHUNKS):
        controller.run_round()
    lines = status(service, capsys)
    (verdict,) = (line for line in lines if line.startswith("verdict"))
    assert verdict.startswith(
        f"verdict nothing waits; {ROUNDS * CHUNKS} time chunks rest after they failed, and are tried again from 2096-"
    )
    (summary,) = (line for line in lines if line.startswith("events"))
    assert summary.split()[5] == str(ROUNDS * CHUNKS), "of the table: failing"
    assert f"wasted {7 * ROUNDS * CHUNKS} B written for nothing so far" in lines
    states = service.metadata.compaction_states("events")
    assert {state.reason for state in states if state.failures} == {
        "failed once: the disk of deep storage x is full; make room and run the job again"
    }
    service.clock.advance_ms(RETRY_FIRST_MS)
    assert controller.run_round().started, "what rested is tried again"
