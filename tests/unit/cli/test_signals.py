from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from carnac.cli.signals import Interruption, Stopped, hearing

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Python's own, as at the start of a process."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "raised", "code", "sentence"),
    [
        (signal.SIGINT, KeyboardInterrupt, 130, "interrupted"),
        (signal.SIGTERM, Stopped, 143, "ended by SIGTERM"),
        (signal.SIGHUP, Stopped, 129, "ended by SIGHUP"),
    ],
)
def test_what_ends_a_command_is_remembered(
    number: int, raised: type[BaseException], code: int, sentence: str
) -> None:
    interruption = Interruption()
    interruption.listen()
    with pytest.raises(raised):
        signal.raise_signal(number)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert (interruption.number, interruption.exit_code) == (number, code)
    assert interruption.sentence == sentence
    interruption.leave()
    assert [signal.getsignal(one) for one in NUMBERS] == [signal.SIG_DFL] * 3


def test_what_is_ignored_stays_ignored() -> None:
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)  # as nohup does
    interruption = Interruption()
    interruption.listen()
    for number in NUMBERS:
        signal.raise_signal(number)
    assert interruption.number is None
    interruption.leave()
    assert [signal.getsignal(one) for one in NUMBERS] == [signal.SIG_IGN] * 3


@pytest.mark.parametrize("number", NUMBERS)
def test_an_overlord_is_told_to_stop_and_interrupted_nowhere(number: int) -> None:
    with hearing() as told:
        signal.raise_signal(number)
        assert told.wait() == number
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_overlord_that_is_told_again_ends_at_once(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    with hearing() as told:
        signal.raise_signal(signal.SIGTERM)
        told.wait()
        told.end_at_once_when_told_again()
        signal.raise_signal(signal.SIGHUP)
        assert not ends
        signal.raise_signal(number)
        assert ends == [128 + number]


def test_an_overlord_under_nohup_outlives_its_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with hearing() as told:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        assert told.wait() == signal.SIGTERM


@pytest.mark.timeout(30)
def test_an_overlord_hears_a_signal_that_arrives_in_another_thread() -> None:
    """Its waiting is interrupted no more than by a signal that arrives at its last instruction before it waits."""
    with hearing() as told:
        later = threading.Timer(
            0.1, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        )
        later.start()
        assert told.wait() == signal.SIGTERM
        later.join()


@pytest.mark.timeout(30)
def test_an_overlord_hears_a_signal_at_whatever_line_of_its_waiting_it_arrives() -> None:
    for line in itertools.count(1):
        with hearing() as told:
            later = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
            later.start()
            sends, before = _SendsAt(line), sys.gettrace()
            sys.settrace(sends)
            try:
                told.wait()
            finally:
                sys.settrace(before)
            later.cancel()
            later.join()
        if not sends.has_sent:
            return


class _SendsAt:
    """Has a signal arrive before the n-th line that the main thread runs."""

    def __init__(self, line: int) -> None:
        self._left = line
        self.has_sent = False

    def __call__(self, _frame: FrameType, event: str, _arg: object) -> Any:
        self._left -= event == "line"
        if self._left == 0 and not self.has_sent:
            self.has_sent = True
            signal.raise_signal(signal.SIGTERM)
        return self
