"""Loops of duties: nothing that a round raises ends one, and one that does not turn says so."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from carnac.errors import InvariantError, Unavailable
from carnac.ports.loops import SAID_AGAIN_ROUNDS, STALE_MIN_MS, Loop
from tests.support.clock import FakeClock

LOG = logging.getLogger("carnac.test")


class Script:
    """Rounds that raise what a test says, one after the other, then none; the loop ends after the last."""

    def __init__(self, *ends: BaseException | None) -> None:
        self.left = list(ends)
        self.rounds = 0

    def run_round(self) -> None:
        self.rounds += 1
        end = self.left.pop(0)
        if end is not None:
            raise end

    def wait(self, _seconds: float) -> bool:
        return not self.left


def loop_of(script: Script, clock: FakeClock | None = None, **more: object) -> Loop:
    return Loop(
        "test",
        script.run_round,
        log=LOG,
        period_ms=1_000,
        clock=clock,
        wait=script.wait,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "error",
    [
        ValueError("embedded null byte"),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
        RecursionError("maximum recursion depth exceeded"),
        MemoryError(),
        OSError(24, "Too many open files"),
        KeyError("a"),
        Unavailable("the database does not answer"),
        InvariantError("a law does not hold"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_exception_of_a_round_ends_it(error: Exception) -> None:
    script = Script(error, None, error, error, None)
    loop_of(script).run()
    assert script.rounds == 5


def test_a_failure_is_one_line_with_its_reason_and_a_bug_has_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop_of(Script(Unavailable("no answer"), OSError(24, "too many"), KeyError("a"))).run()
    assert [one.getMessage() for one in caplog.records] == [
        "a round of the loop 'test' failed: no answer",
        "a round of the loop 'test' failed: OSError: [Errno 24] too many",
        "a round of the loop 'test' failed, which is a bug in Carnac: KeyError('a')",
    ]
    assert [one.exc_info is not None for one in caplog.records] == [False, False, True]


def test_what_fails_round_after_round_is_not_logged_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    same: list[Exception] = [Unavailable("no answer")] * (SAID_AGAIN_ROUNDS + 1)
    loop_of(Script(*same, None, same[0], Unavailable("another"))).run()
    assert len(caplog.records) == 4, "once, again after many, anew after a round that went well"


class Turning:
    """A loop in its thread, each of whose rounds waits for the test."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.begun, self.go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.end: BaseException | None = None
        self.loop = Loop("test", self.run_round, log=LOG, period_ms=1, clock=self.clock)

    def run_round(self) -> None:
        self.begun.release()
        assert self.go_on.acquire(timeout=30)
        if self.end is not None:
            raise self.end

    def turn(self) -> None:
        """Let the round that is under way end, and return when the next one has begun."""
        self.go_on.release()
        assert self.begun.acquire(timeout=30)


@pytest.fixture
def turning() -> Iterator[Turning]:
    made = Turning()
    assert made.loop.trouble is None, "it was not started"
    made.loop.start()
    assert made.begun.acquire(timeout=30)
    yield made
    made.go_on.release(1_000)
    made.loop.stop()
    assert made.loop.trouble is None


def test_one_that_hangs_does_not_turn(turning: Turning) -> None:
    turning.clock.advance_ms(STALE_MIN_MS)
    assert turning.loop.trouble is None
    turning.clock.advance_ms(1_000)
    assert turning.loop.trouble == "the test loop has not turned for 121 s"
    turning.turn()
    assert turning.loop.trouble is None


def test_one_whose_every_round_is_a_bug_does_not_turn(turning: Turning) -> None:
    turning.end = KeyError("a")
    turning.clock.advance_ms(STALE_MIN_MS + 1_000)
    turning.turn()
    assert (
        turning.loop.trouble
        == "the test loop has not turned for 121 s; its last round failed: KeyError: 'a'"
    )
    turning.end = Unavailable("the database does not answer")
    turning.turn()
    assert turning.loop.trouble is None, "it does what can be done"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_one_whose_thread_has_ended_says_so(turning: Turning) -> None:
    turning.end = SystemExit("a library wants to end the process")
    turning.go_on.release()
    until_over(turning.loop)
    assert turning.loop.trouble == "the test loop has ended"


def until_over(loop: Loop) -> None:
    (thread,) = [one for one in threading.enumerate() if one.name == "carnac-test"]
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("shift_ms", [-400 * 86_400_000, 400 * 86_400_000])
def test_a_clock_that_is_set_anew_matters_until_the_next_turn(
    turning: Turning, shift_ms: int
) -> None:
    turning.clock.advance_ms(shift_ms)
    turning.turn()
    assert turning.loop.trouble is None


def test_it_is_woken_and_stopped_in_the_middle_of_a_pause() -> None:
    rounds = threading.Semaphore(0)
    ended: list[str] = []
    loop = Loop(
        "test",
        rounds.release,
        log=LOG,
        period_ms=3_600_000,
        is_eager=True,
        on_end=lambda: ended.append("end"),
    )
    loop.start()
    loop.start()
    assert rounds.acquire(timeout=30)
    loop.wake()
    assert rounds.acquire(timeout=30)
    loop.stop()
    loop.stop()
    loop.start()
    assert ended == ["end"]


def test_a_round_may_ask_whether_to_end_and_is_waited_for_no_longer_than_said() -> None:
    begun, go_on, seen = threading.Event(), threading.Event(), []

    def run_round() -> None:
        begun.set()
        assert go_on.wait(30)
        seen.append(loop.is_stopping())

    loop = Loop("test", run_round, log=LOG, period_ms=1, is_eager=True)
    assert not loop.is_stopping()
    loop.start()
    assert begun.wait(30)
    loop.stop(wait_s=0.01)
    assert not seen, "it is in its round still"
    go_on.set()
    loop.stop()
    assert seen == [True]
