"""Real time and ids."""

from __future__ import annotations

import re
import time

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.ports import Clock, IdSource
from carnac.testing.clock import FakeClock, SequentialIds

ID_SOURCES = [RandomIds(), SequentialIds()]


@pytest.mark.parametrize("ids", ID_SOURCES, ids=lambda ids: type(ids).__name__)
def test_ids_are_new_and_safe_in_file_names(ids: IdSource) -> None:
    made = [ids.new_id() for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"[0-9a-z]+", one) for one in made)


def test_random_ids_of_later_milliseconds_sort_later() -> None:
    ids = RandomIds()
    first = ids.new_id()
    before_ms = SystemClock().now_ms()
    while SystemClock().now_ms() == before_ms:
        pass
    assert first < ids.new_id()
    assert len(first) == 26


@pytest.mark.parametrize("clock", [SystemClock(), FakeClock()], ids=lambda c: type(c).__name__)
def test_sleeping_takes_that_long(clock: Clock) -> None:
    before_ms = clock.now_ms()
    clock.sleep_ms(3)
    assert clock.now_ms() - before_ms >= 2  # 3, less the rounding of one reading
    clock.sleep_ms(-5)


def test_the_system_clock_tells_epoch_milliseconds() -> None:
    assert abs(SystemClock().now_ms() - time.time() * 1000) < 1000


def test_a_fake_clock_remembers_who_slept_and_may_step_back() -> None:
    clock = FakeClock(100)
    clock.sleep_ms(5)
    assert (clock.slept_ms, clock.advance_ms(-50)) == ([5], 55)
