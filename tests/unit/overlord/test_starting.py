"""Attempts whose process is there, and takes its time until it says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from carnac.core.tasks.events import ClaimAttempt
from carnac.core.tasks.machine import START_MAX_MS
from carnac.core.tasks.model import AttemptState, TaskState
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.overlord.loop import LoopSettings, OverlordLoop
from tests.support.clock import FakeClock, SequentialIds
from tests.support.tasks import FakeRunner
from tests.tasks import LEASE_MS, wants


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def metadata(clock: FakeClock) -> Iterator[MetadataStore]:
    with closing(open_metadata("memory://", clock=clock, ids=SequentialIds())) as store:
        yield store


@pytest.fixture
def runner() -> FakeRunner:
    return FakeRunner()


@pytest.fixture
def loop(metadata: MetadataStore, clock: FakeClock, runner: FakeRunner) -> OverlordLoop:
    metadata.change_tasks(wants("a", retries=0))
    made = OverlordLoop(
        metadata,
        clock,
        leader_id="one",
        holder="overlord one",
        runners={"fake": runner},
        settings=LoopSettings(
            runner="fake",
            capacity=1,
            lease_ms=LEASE_MS,
            start_lease_ms=LEASE_MS,
            period_ms=1,
            upkeep_period_ms=10**9,
        ),
    )
    made.run_round()
    assert runner.started == ["a/1"]
    return made


def state(metadata: MetadataStore) -> AttemptState:
    return metadata.attempts("a")[0].state


def test_one_that_is_there_is_not_dead(
    loop: OverlordLoop, metadata: MetadataStore, clock: FakeClock
) -> None:
    for _ in range(8):
        clock.advance_ms(LEASE_MS // 2)
        loop.run_round()
    assert state(metadata) is AttemptState.STARTING
    metadata.change_tasks(ClaimAttempt(task_id="a", number=1, holder="process 17"))
    clock.advance_ms(LEASE_MS)
    loop.run_round()
    assert state(metadata) is AttemptState.LOST, "from its claim on it speaks for itself"


@pytest.mark.parametrize("alive", [False, None])
def test_one_that_is_not_seen_is_not_waited_for(
    loop: OverlordLoop,
    metadata: MetadataStore,
    clock: FakeClock,
    runner: FakeRunner,
    *,
    alive: bool | None,
) -> None:
    runner.alive = {} if alive is None else dict.fromkeys(runner.alive, alive)
    clock.advance_ms(LEASE_MS if alive is None else 1)
    loop.run_round()
    assert state(metadata) is AttemptState.LOST


def test_nobody_may_start_for_ever(
    loop: OverlordLoop, metadata: MetadataStore, clock: FakeClock
) -> None:
    for _ in range(START_MAX_MS // (LEASE_MS // 2) + 2):
        clock.advance_ms(LEASE_MS // 2)
        loop.run_round()
    assert state(metadata) is AttemptState.LOST
    task = metadata.find_task("a")
    assert task is not None
    assert task.state is TaskState.FAILED
