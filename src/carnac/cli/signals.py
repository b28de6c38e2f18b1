"""Signals that end a command: Ctrl-C, SIGTERM, and a terminal that is closed (SIGHUP)."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from carnac.unbroken import LEDGER

EXIT_OF_SIGNALS = 128
"""The shell's: a program that a signal ended exits with this and the signal's number."""
EXIT_PUBLISHED = 10
"""Something was published, and an interruption or a full disk kept the command from its end or from its report."""
EXIT_UNCLEAR = 11
"""Interrupted a second time in the middle of a commit."""

_WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "ended by SIGHUP",
}


class Stopped(KeyboardInterrupt):
    """The sender wants the process to end and will not ask twice: SIGTERM, SIGHUP."""


class Interruption:
    """Raises KeyboardInterrupt at a signal that ends a command, and remembers it.

    Libraries may turn the exception into another one, or lose it; the process was interrupted none the less.

    Attributes:
        number: The first signal that arrived; None: none so far.
        publishes: The command publishes what it does, in a commit or several.
        changes: The command changes something else, and a repeated one would change it again.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.publishes = False
        self.changes = False
        self._is_over = False
        self._mark = len(LEDGER.revisions)

    def listen(self) -> None:
        """Listen from now on; signals that the process ignores already stay ignored (`nohup`)."""
        for number in _WORDS:
            standard = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            if signal.getsignal(number) == standard:
                signal.signal(number, self._raise)

    def end(self) -> None:
        """Raise nothing from now on: the command has done its work, and has said so."""
        self._is_over = True

    def leave(self) -> None:
        """Let the signals end the process without a word: nothing is left to do but to end.

        After a commit it ends by itself, with the exit code that says so.
        """
        for number in _WORDS:
            if signal.getsignal(number) == self._raise:
                signal.signal(number, signal.SIG_IGN if self._published else signal.SIG_DFL)

    def heed(self) -> None:
        """Raise for a signal that arrived: Python drops an exception within the callback of a weak reference."""
        if self.number is not None:
            raise _error(self.number)

    def forget(self) -> None:
        """Take what arrived as dealt with: it was meant for one statement."""
        self.number = None

    @property
    def exit_code(self) -> int:
        """Exit code of an interrupted command: 130 after Ctrl-C, unless it had published."""
        if self.publishes and LEDGER.is_unclear:
            return EXIT_UNCLEAR
        if self._published:
            return EXIT_PUBLISHED
        return EXIT_OF_SIGNALS + (self.number or signal.SIGINT)

    @property
    def sentence(self) -> str:
        """The message about it: the signal, and for a command that publishes what has become of that."""
        signal_words = _WORDS[signal.Signals(self.number or signal.SIGINT)]
        return f"{signal_words}: {self._truth}" if self.publishes else signal_words

    @property
    def done(self) -> str:
        """What a command that has come to its report has done that nobody should do again; empty: nothing."""
        published = self._published
        if not published:
            return "the command has done its work" if self.changes else ""
        first, last = published[0], published[-1]
        if len(published) == 1:
            return f"revision {first} was published"
        return f"{len(published)} revisions, {first} to {last}, were published"

    @property
    def _published(self) -> Sequence[int]:
        return LEDGER.since(self._mark) if self.publishes else ()

    @property
    def _truth(self) -> str:
        if LEDGER.is_unclear:
            return "a commit was broken off, and may be published or not; carnac log says which"
        if not self._published:
            return "nothing was published"
        return f"{self.done} before the interruption"

    def _raise(self, number: int, _frame: FrameType | None) -> None:
        if self._is_over:
            return
        if self.number is None:
            self.number = number
        raise _error(number)


def _error(number: int) -> KeyboardInterrupt:
    return KeyboardInterrupt() if number == signal.SIGINT else Stopped()


class Told:
    """Where the signals arrive that tell this process to end."""

    def __init__(self, arrivals: int, numbers: Collection[int]) -> None:
        self._arrivals = arrivals
        self._numbers = numbers

    def wait(self) -> int:
        """Wait for a signal; return its number."""
        while (number := os.read(self._arrivals, 1)[0]) not in self._numbers:
            pass
        return number

    def end_at_once_when_told_again(self) -> None:
        """Let the next Ctrl-C or SIGTERM end the process, with the exit code of a command that it interrupts.

        SIGHUP does not: a terminal that is closed, and the shell in it, send one each.
        """
        for number in {signal.SIGINT, signal.SIGTERM}.intersection(self._numbers):
            signal.signal(number, _end_at_once)


@contextmanager
def hearing() -> Iterator[Told]:
    """Yield where the signals arrive that tell this process to end.

    Python notes a signal and runs its handler between two instructions of the main thread. A signal that arrives
    between the last one before a wait and the wait itself, or in another thread, is only noted until the wait is over.
    Bytes in a pipe are lost nowhere.
    """
    arrivals, sender = os.pipe()
    os.set_blocking(sender, False)
    before = {
        number: signal.signal(number, _note)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # as under nohup
    }
    woken_before = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    try:
        yield Told(arrivals, tuple(before))
    finally:
        signal.set_wakeup_fd(woken_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(sender)
        os.close(arrivals)


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_OF_SIGNALS + number)


def _note(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: only a signal with a handler writes its byte."""
