"""How `carnac overlord` hears that it should end."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from carnac.cli.commands.overlord import _hearing


@pytest.mark.timeout(30)
def test_a_signal_is_heard_at_whatever_line_of_its_waiting_it_arrives() -> None:
    for line in itertools.count(1):
        with _hearing() as wait_until_told:
            is_parked = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
            is_parked.start()
            tracer = _SendsAt(line)
            before = sys.gettrace()
            sys.settrace(tracer)
            try:
                wait_until_told()
            finally:
                sys.settrace(before)
            is_parked.cancel()
            is_parked.join()
        if not tracer.has_sent:
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
