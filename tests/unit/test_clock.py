"""Real time and ids."""

from __future__ import annotations

import re
import threading
import time

import pytest

from carnac.clock import ASK_PERIOD_MS, CLOSE_MS, MarkedIds, RandomIds, StoreClock, SystemClock
from carnac.core.ids import ALPHABET, bears_mark, digits, mark_of, time_of
from carnac.core.time.leases import CLOCKS_AGREE_MS
from carnac.errors import Unavailable
from carnac.ports import Clock, IdSource
from tests.support.clock import FakeClock, SequentialIds

MARK = mark_of("a", 1, 0)
ID_SOURCES = [RandomIds(), SequentialIds(), MarkedIds(MARK)]


@pytest.mark.parametrize("ids", ID_SOURCES, ids=lambda ids: type(ids).__name__)
def test_ids_are_new_and_safe_in_file_names(ids: IdSource) -> None:
    made = [ids.new_id() for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"[0-9a-z]+", one) for one in made)


@pytest.mark.parametrize("count", range(1, 27))
def test_digits_are_the_last_of_the_number_in_base_32(count: int) -> None:
    number = 0x1F2E3D4C5B6A79880F1E2D3C4B5A69788796
    found = digits(number, count)
    assert len(found) == count
    value = sum(ALPHABET.index(digit) << 5 * place for place, digit in enumerate(reversed(found)))
    assert value == number % 32**count


def test_random_ids_of_later_milliseconds_sort_later() -> None:
    ids = RandomIds()
    first = ids.new_id()
    before_ms = SystemClock().now_ms()
    while SystemClock().now_ms() == before_ms:
        pass
    assert first < ids.new_id()
    assert len(first) == 26


def test_ids_tell_their_time_and_never_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, marked = RandomIds(), MarkedIds(MARK)
    before = ids.new_id()
    at_ms = time_of(before)
    assert at_ms is not None
    assert abs(at_ms - time.time() * 1000) < 3_600_000
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)
    for later in (ids.new_id(), marked.new_id()):
        assert (time_of(later) or 0) >= at_ms, "whoever set the clock back"
        assert time_of(f"rewrite-{later}a0s0.parquet") == time_of(later)
    assert [time_of(one) for one in ("", "events", before[:25], f".{before}")] == [None] * 4


def test_what_an_attempt_makes_is_known_by_its_mark() -> None:
    made, others = MarkedIds(MARK).new_id(), [mark_of("a", 2, 0), mark_of("a", 1, 5)]
    assert len(made) == len(RandomIds().new_id())
    paths = [f"segments/x/{made}/{made}a0s0.parquet", made, f"staging/rewrite-{made}/part"]
    assert all(map(bears_mark(MARK), paths))
    assert not any(bears_mark(other)(path) for other in [*others, made[:10]] for path in paths)
    assert not bears_mark(MARK)(f"segments/{MARK}/0{made}.parquet"), "where an id is, nowhere else"


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


class TestStoreClock:
    def test_it_goes_by_the_server_s_clock_where_the_two_disagree(self) -> None:
        machine = FakeClock(10_000_000)
        clock = StoreClock(machine)
        assert clock.now_ms() == 10_000_000
        clock.follow(lambda: 1_000_000)
        assert (clock.now_ms(), clock.ahead_ms) == (1_000_000, 9_000_000)
        machine.advance_ms(ASK_PERIOD_MS - 1)
        assert clock.now_ms() == 1_000_000 + ASK_PERIOD_MS - 1

    def test_seconds_are_taken_off_and_not_told(self, caplog: pytest.LogCaptureFixture) -> None:
        clock = StoreClock(FakeClock(10_000))
        clock.follow(lambda: 10_000 - CLOCKS_AGREE_MS)
        assert (clock.now_ms(), clock.ahead_ms) == (10_000 - CLOCKS_AGREE_MS, CLOCKS_AGREE_MS)
        assert not caplog.records

    @pytest.mark.parametrize(("took_ms", "apart_ms"), [(0, CLOSE_MS), (4_000, 2_000)])
    def test_what_may_be_the_journey_moves_no_clock(self, took_ms: int, apart_ms: int) -> None:
        machine, server = FakeClock(10**12), FakeClock(10**12 + took_ms // 2 + apart_ms)

        def ask() -> int:
            machine.advance_ms(took_ms)
            return server.now_ms()

        clock = StoreClock(machine, wait_s=None)
        clock.follow(ask)
        assert (clock.now_ms(), clock.ahead_ms) == (10**12 + took_ms, 0)

    def test_an_answer_during_which_the_clock_was_set_back_moves_no_clock(self) -> None:
        machine = FakeClock(10**12)
        clock = StoreClock(machine, wait_s=None)
        clock.follow(lambda: machine.advance_ms(-3_600_000) + 3_600_000)
        assert (clock.now_ms(), clock.ahead_ms) == (10**12 - 3_600_000, 0)

    @pytest.mark.parametrize("jump_ms", [172_800_000, -172_800_000])
    def test_a_clock_that_was_set_is_compared_at_once(
        self, jump_ms: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        server, machine = FakeClock(10**12), FakeClock(10**12)
        clock = StoreClock(machine)
        clock.follow(server.now_ms)
        assert clock.now_ms() == 10**12
        machine.advance_ms(jump_ms)
        assert clock.now_ms() == 10**12
        machine.advance_ms(-jump_ms)
        assert clock.now_ms() == 10**12
        told = [record.message for record in caplog.records]
        assert len(told) == 2
        assert "172,800 s" in told[0]
        assert "agrees" in told[1]

    def test_a_server_that_does_not_answer_is_asked_again(self) -> None:
        answers: list[int | None] = [1_000_000]

        def ask() -> int | None:
            if not answers:
                raise Unavailable("gone")
            return answers.pop()

        machine = FakeClock(10_000_000)
        clock = StoreClock(machine)
        clock.follow(ask)
        assert clock.now_ms() == 1_000_000
        machine.advance_ms(ASK_PERIOD_MS)
        assert clock.now_ms() == 1_000_000 + ASK_PERIOD_MS
        machine.advance_ms(ASK_PERIOD_MS)
        answers.append(machine.now_ms())
        assert clock.now_ms() == machine.now_ms()

    def test_an_answer_that_took_long_moves_no_clock(self) -> None:
        machine, took_ms = FakeClock(10**12), [0, 20_000, 20_000, 0]

        def ask() -> int:
            machine.advance_ms(took_ms.pop(0))
            return machine.now_ms()

        clock = StoreClock(machine, wait_s=None)
        clock.follow(ask)
        while took_ms:
            assert clock.now_ms() == machine.now_ms()
            machine.advance_ms(ASK_PERIOD_MS + 1)
        assert clock.ahead_ms == 0

    def test_a_database_without_a_clock_is_asked_once(self) -> None:
        asked: list[None] = []
        machine = FakeClock()
        clock = StoreClock(machine)
        clock.follow(lambda: asked.append(None))
        machine.advance_ms(10 * ASK_PERIOD_MS)
        assert clock.now_ms() == clock.now_ms() == machine.now_ms()
        assert len(asked) == 1

    @pytest.mark.slow
    def test_a_server_that_hangs_is_waited_for_once(self) -> None:
        machine, hangs, asked = FakeClock(), threading.Event(), list[int]()

        def ask() -> int:
            asked.append(machine.now_ms())
            assert len(asked) == 1 or hangs.wait(60)
            return machine.now_ms() - 3_600_000

        clock = StoreClock(machine)
        clock.follow(ask)
        assert clock.now_ms() == machine.now_ms() - 3_600_000
        for _ in range(3):
            machine.advance_ms(ASK_PERIOD_MS + 1)
            assert clock.now_ms() == machine.now_ms() - 3_600_000, "as it was known before"
        assert len(asked) == 2
        hangs.set()
        while len(asked) < 3:  # its answer came, and it is asked again when that is due
            machine.advance_ms(ASK_PERIOD_MS + 1)
            clock.now_ms()
