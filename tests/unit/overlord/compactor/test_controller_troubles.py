"""The controller when clocks jump, connections are lost, and another one is at work on the same store."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

import pytest

from carnac.bootstrap.compaction import compact_groups
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.control.states import RETRY_MAX_MS, ChunkStatus
from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.errors import Unavailable
from carnac.overlord.compactor.controller import Controller
from carnac.ports.compaction import GroupEnd
from tests.compactions import is_settled
from tests.unit.overlord.compactor.controlled import SPEC, Desk, counts, fill
from tests.unit.store.events import read


def test_a_clock_that_was_ahead_makes_no_chunk_rest_for_ever(service: Desk) -> None:
    fill(service.store, 1, 4)
    service.service.put_spec(SPEC)

    def compact(groups: Sequence[CompactionGroup], _: object) -> Sequence[GroupEnd]:
        return [GroupEnd(group_id=groups[0].group_id, outcome="failed", error="disk full")]

    year_ms = 365 * 86_400_000
    service.start(compact)
    service.clock.advance_ms(year_ms)
    service.settle()
    (state,) = service.metadata.compaction_states("events")
    assert state.rests(service.clock.now_ms())
    service.clock.advance_ms(-year_ms)  # somebody has set it right
    assert not state.rests(service.clock.now_ms())
    service.start(partial(compact_groups, service.store))
    service.settle()
    assert counts(service.store) == [1]
    told = service.service.status().controller
    assert told is not None
    assert told["outlook"] == "clear"


def test_two_controllers_at_once_waste_work_and_no_more(service: Desk) -> None:
    """As `carnac compact --auto` beside an overlord: both begin the same, one of the two loses its inputs."""
    fill(service.store, 3, 4)
    before = read(service.store)
    service.service.put_spec({**SPEC, "smallTaskBytes": 0})
    both_begun = threading.Barrier(2, timeout=10)

    def compact(groups: Sequence[CompactionGroup], _: object) -> Sequence[GroupEnd]:
        if service.store.head().revision == 12:
            both_begun.wait()
        return compact_groups(service.store, groups)

    service.start(compact)
    first = service.controller, service.runner
    service.start(compact)
    second = service.controller, service.runner
    for _ in range(100):
        reports = [controller.run_round() for controller, _ in (first, second)]
        if all(is_settled(controller) for controller, _ in (first, second)) and not any(
            one.started or one.ended or one.analysed for one in reports
        ):
            break
        for _, runner in (first, second):
            runner.wait(30)
        service.clock.advance_ms(RETRY_MAX_MS)  # who has lost several times in a row rests
    assert counts(service.store) == [1, 1, 1]
    assert read(service.store) == before
    states = service.metadata.compaction_states("events")
    assert [(one.status, one.failures) for one in states] == [(ChunkStatus.STABLE, 0)] * 3


class Flaky:
    """A metadata store whose connection is lost at some call and for a while."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.calls = 0
        self.lost = range(0)

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: object, **more: object) -> object:
            self.calls += 1
            if self.calls in self.lost:
                raise Unavailable("the metadata store does not answer")
            return found(*args, **more)

        return call


@pytest.mark.parametrize("place", range(1, 17, 3))
def test_a_connection_lost_at_any_call_costs_nothing_but_time(service: Desk, place: int) -> None:
    fill(service.store, 2, 4)
    before = read(service.store)
    service.service.put_spec({**SPEC, "smallTaskBytes": 0})
    flaky = Flaky(service.metadata)
    flaky.lost = range(place, place + 3)

    def start() -> Controller:
        return Controller(
            flaky,  # type: ignore[arg-type]
            service.runner,
            service.clock,
            capacity=Capacity(tasks=2),
        )

    controller = start()
    for _ in range(40):
        try:
            report = controller.run_round()
        except Unavailable:
            controller = start()  # as the duty and --auto do
            continue
        if is_settled(controller) and not report.started and not report.ended:
            break
        service.runner.wait(30)
    assert flaky.calls >= place, "it was lost while there was work"
    assert counts(service.store) == [1, 1]
    assert read(service.store) == before
    assert is_settled(controller)
