"""What ends a command from outside: Ctrl-C, SIGTERM, and a terminal that is closed (SIGHUP)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

EXIT_OF_SIGNALS = 128
"""The shell's: a program that a signal ended exits with this and the signal's number."""

_WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "ended by SIGHUP",
}


class Stopped(KeyboardInterrupt):
    """Somebody wants the process to end who will not ask twice: SIGTERM, SIGHUP."""


class Interruption:
    """Raises KeyboardInterrupt at a signal that ends a command, and remembers it.

    Libraries may turn the exception into another one, or lose it; the process was interrupted none the less.

    Attributes:
        number: The first signal that arrived; None: none so far.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    def listen(self) -> None:
        """Listen from now on; what the process was told to ignore stays ignored (`nohup`)."""
        for number in _WORDS:
            standard = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            if signal.getsignal(number) == standard:
                signal.signal(number, self._raise)

    def leave(self) -> None:
        """Let the signals end the process without a word: nothing is left to do but to end."""
        for number in _WORDS:
            if signal.getsignal(number) == self._raise:
                signal.signal(number, signal.SIG_DFL)

    def forget(self) -> None:
        """Take what arrived as dealt with: it was meant for one statement."""
        self.number = None

    @property
    def exit_code(self) -> int:
        """Of a command that was interrupted: 130 after Ctrl-C."""
        return EXIT_OF_SIGNALS + (self.number or signal.SIGINT)

    @property
    def sentence(self) -> str:
        """What to say of it."""
        return _WORDS[signal.Signals(self.number or signal.SIGINT)]

    def _raise(self, number: int, _frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number
        raise KeyboardInterrupt if number == signal.SIGINT else Stopped


@contextmanager
def hearing() -> Iterator[SimpleQueue[int]]:
    """Yield where the signals arrive that tell this process to end.

    A handler runs in the middle of whatever the main thread does, its waiting included: it must not need a lock that
    the thread may hold, as `Event.set` does.
    """
    told: SimpleQueue[int] = SimpleQueue()

    def tell(number: int, _frame: FrameType | None) -> None:
        told.put(number)

    before = {
        number: signal.signal(number, tell)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # as under nohup
    }
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
