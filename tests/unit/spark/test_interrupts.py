from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from carnac.spark.interrupts import give_up, go_on, hold_signals, interruption_behind


class Ended(BaseException):
    """What the handler of these tests raises."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, SIGTERM raises Ended, SIGHUP is ignored."""

    def end(_number: int, _frame: object) -> None:
        raise Ended

    before = [
        (signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler)),
        (signal.SIGTERM, signal.signal(signal.SIGTERM, end)),
        (signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_IGN)),
    ]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Ended)]
)
def test_a_signal_waits_for_the_end_of_the_block(number: int, raised: type[BaseException]) -> None:
    reached = False
    with pytest.raises(raised), hold_signals() as held:  # noqa: PT012
        signal.raise_signal(number)
        reached = held.failure is not None
    assert reached
    with pytest.raises(raised):
        signal.raise_signal(number)


def test_it_goes_before_what_the_block_raises() -> None:
    with pytest.raises(KeyboardInterrupt), hold_signals():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        raise ValueError("the job was cancelled")


def test_without_a_signal_the_block_is_as_any_other() -> None:
    with pytest.raises(ValueError, match="mine"), hold_signals():
        raise ValueError("mine")
    with hold_signals() as held:
        signal.raise_signal(signal.SIGHUP)
    assert held.failure is None


def test_inside_of_another_one_it_is_the_same() -> None:
    with pytest.raises(KeyboardInterrupt), hold_signals() as outer:  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        with hold_signals() as inner:
            assert inner is outer
        assert outer.failure is not None


def test_the_second_signal_hastens_and_the_third_does_not_wait() -> None:
    told: list[bool] = []

    def hasten() -> bool:
        told.append(not told)
        return told[-1]

    with pytest.raises(KeyboardInterrupt), hold_signals(hasten):  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert told == [True]
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")
    assert told == [True, False]


def test_a_thread_keeps_nothing_back() -> None:
    def block() -> None:
        with hold_signals():
            held.set()
            done.wait()

    held, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=block)
    thread.start()
    held.wait()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    done.set()
    thread.join()


def test_an_error_that_came_of_an_interruption_is_known() -> None:
    def fail() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise OSError("not connected")  # noqa: B904 - as py4j does

    with pytest.raises(OSError, match="not connected") as caught:
        fail()
    assert isinstance(interruption_behind(caught.value), KeyboardInterrupt)
    assert interruption_behind(OSError("not connected")) is None


def test_what_other_threads_do_is_given_up_until_it_may_go_on() -> None:
    inside, is_over = threading.Event(), threading.Event()
    failures: list[bool] = []
    hastened: list[str] = []

    def hasten() -> bool:
        hastened.append(threading.current_thread().name)
        is_over.set()
        return True

    def work() -> None:
        with hold_signals(hasten) as held:
            failures.append(held.failure is not None)
            inside.set()
            assert is_over.wait(60)
            failures.append(held.failure is not None)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)
    try:
        give_up()
        thread.join(60)
        assert failures == [False, True]
        assert hastened == [threading.current_thread().name]
        with hold_signals() as held:
            assert held.failure is not None, "what begins now is given up as well"
    finally:
        go_on()
    with hold_signals() as held:
        assert held.failure is None
    try:
        give_up()
    finally:
        go_on()
    assert len(hastened) == 1, "who has left is not told"
