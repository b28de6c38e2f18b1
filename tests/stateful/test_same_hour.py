"""8 appenders and 4 compactors on the same hour, in thousands of orders: every row exactly once, nobody stuck."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from math import comb

import pytest

from carnac.core.log.entries import Entry
from tests.support.same_hour import (
    BASE_ROWS,
    LEASE_MS,
    STEP_MAX_MS,
    Mode,
    Outcome,
    SameHour,
    run_interleaving,
)

RUNS = {"nightly": 10_000, "fast": 60}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 200)
WITHOUT_WAITING = [Mode.DEFAULT, Mode.SEGMENT]


def summed(outcomes: list[Outcome], name: str) -> int:
    return sum(getattr(outcome, name) for outcome in outcomes)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", WITHOUT_WAITING)
def test_no_append_waits_and_no_compaction_is_revoked(mode: Mode) -> None:
    outcomes = [run_interleaving(seed, mode=mode) for seed in range(RUNS)]
    assert [one.seed for one in outcomes if one.rows != one.rows_expected] == []
    for name in ("append_waits", "appends_revoked", "compactions_revoked", "wasted"):
        assert summed(outcomes, name) == 0, name
    assert summed(outcomes, "compactions_finished") == summed(outcomes, "compactions_started")
    assert summed(outcomes, "compactions_finished") > RUNS


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_with_classic_locks_appends_wait_or_compactions_are_revoked() -> None:
    """The late data problem of the segment locking proposal, as it was."""
    outcomes = [run_interleaving(seed, mode=Mode.TIME_CHUNK) for seed in range(RUNS // 4)]
    assert [one.seed for one in outcomes if one.rows != one.rows_expected] == []
    assert summed(outcomes, "append_waits") > RUNS
    assert summed(outcomes, "compactions_finished") <= summed(outcomes, "compactions_started")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", list(Mode))
def test_whoever_dies_or_stops_every_row_is_there_once(mode: Mode) -> None:
    count = RUNS // 2 if mode in WITHOUT_WAITING else RUNS // 20
    outcomes = [run_interleaving(seed, mode=mode, faults=0.03) for seed in range(count)]
    assert [one.seed for one in outcomes if one.rows != one.rows_expected] == []
    assert summed(outcomes, "deaths") > 0


def test_a_seed_replays_its_run() -> None:
    assert run_interleaving(11, faults=0.05) == run_interleaving(11, faults=0.05)


def base_only(live: list[Entry]) -> list[Entry]:
    """The segments that were there before anybody came, as long as all of them are."""
    base = [entry for entry in live if entry.segment_id in {"s1", "s2", "s3"}]
    return base if len(base) == len(BASE_ROWS) else []


class Orders:
    """All orders of turns, one after the other."""

    def __init__(self) -> None:
        self._prefix: list[int] = []
        self._turns: list[tuple[int, int]] = []

    def pick(self, names: Sequence[str]) -> int:
        place = len(self._turns)
        turn = self._prefix[place] if place < len(self._prefix) else 0
        self._turns.append((turn, len(names)))
        return turn

    def __iter__(self) -> Iterator[None]:
        while True:
            self._turns = []
            yield
            while self._turns and self._turns[-1][0] + 1 == self._turns[-1][1]:
                self._turns.pop()
            if not self._turns:
                return
            self._prefix = [turn for turn, _ in self._turns]
            self._prefix[-1] += 1


@pytest.mark.parametrize("mode", WITHOUT_WAITING)
def test_all_orders_of_an_append_and_a_compaction_show_the_same(mode: Mode) -> None:
    """Not some: all of them, so both orders of completion are among them."""
    orders, count = Orders(), 0
    for _ in orders:
        run = SameHour(0, mode=mode, pick=orders.pick, choose=base_only)
        outcome = run.run(appenders=1, batches=1, compactors=1, rounds=1)
        assert outcome.files == {(0,), BASE_ROWS}
        assert outcome.compactions_finished == 1
        count += 1
    assert count == comb(11, 4), "11 turns, 4 of them the append's"


@pytest.mark.parametrize("mode", list(Mode))
def test_a_holder_that_stops_at_any_step_blocks_for_one_lease(mode: Mode) -> None:
    """The first compactor stops after so many of its steps; the second wants the same; then the first wakes up."""
    outcomes = []
    for step in range(1, 9):
        turns = Counter[str]()

        def pick(names: Sequence[str], step: int = step, turns: Counter[str] = turns) -> int:
            is_away = turns["c0"] >= step and "c1" in names
            name = "c1" if is_away or "c0" not in names else "c0"
            turns[name] += 1
            return names.index(name)

        run = SameHour(0, mode=mode, pick=pick, choose=base_only)
        outcome = run.run(appenders=0, batches=0, compactors=2, rounds=1)
        assert outcome.rows == outcome.rows_expected
        assert outcome.files == {BASE_ROWS}
        assert max(outcome.compaction_wait_ms) <= LEASE_MS + STEP_MAX_MS
        assert outcome.compactions_finished == 1
        outcomes.append(outcome)
    assert any(one.compaction_wait_ms[-1] >= LEASE_MS - STEP_MAX_MS for one in outcomes)
    refused = summed(outcomes, "late_publishes_refused") + summed(outcomes, "compactions_revoked")
    assert refused > 0, "who wakes up late does not publish"
