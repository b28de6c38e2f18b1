"""Commits that no signal breaks in two, and the revisions that a process has published, for reports of interruptions.

A handler that raises (Ctrl-C) may do so between the moment at which a transaction is committed and the one at which its
caller knows. So signals are written down from the first statement of a transaction on, and are raised when all callers
know its outcome. A second signal is raised at once. The outcome may then be unknown, and `Ledger.is_unclear` says so.

Python calls handlers in the main thread alone; in others there is nothing to hold back.
"""

from __future__ import annotations

# The module below `signal`: up to Python 3.11 `signal` raises and catches an error for each handler that is a function.
# That happens three times, and takes a tenth of a commit.
import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FrameType

Handler = Callable[[int, FrameType | None], object]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ledger:
    """The revisions that this process has published, in order.

    Attributes:
        revisions: Revisions of commits that are there for certain.
        is_unclear: A commit was broken off, and may be there or not.
    """

    def __init__(self) -> None:
        self.revisions: list[int] = []
        self.is_unclear = False

    def since(self, mark: int) -> Sequence[int]:
        """Return the revisions after the first `mark`."""
        return tuple(self.revisions[mark:])


LEDGER = Ledger()
"""The ledger of this process; signals are of a process, too."""


class SignalHolder:
    """Keeps signals back from `begin` to `release`.

    Attributes:
        arrived: The first signal that came; None: none so far, or its handler has been called.
    """

    def __init__(self) -> None:
        self.arrived: int | None = None
        self._before: dict[int, Handler] = {}

    def begin(self) -> None:
        """Write signals down from now on, except those that the process ignores or dies of. Idempotent."""
        if self._before:
            return
        for number in SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler):
                self._before[number] = handler
                _signal.signal(number, self._note)

    def release(self) -> None:
        """Put the handlers back, and call the one of the signal that arrived, be it only now."""
        self._put_back(dict(self._before))
        number, self.arrived = self.arrived, None
        if number is not None:
            self._before[number](number, None)

    def _put_back(self, left: dict[int, Handler]) -> None:
        try:
            while left:
                number = next(iter(left))
                _signal.signal(number, left[number])
                del left[number]
        finally:
            if left:  # one that is back has raised
                self._put_back(left)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.arrived is None:
            self.arrived = number
        else:
            self._again(number, frame)

    def _again(self, number: int, frame: FrameType | None) -> None:
        """Act on a signal that is not the first."""
        self._before[number](number, frame)


class _Unbroken(SignalHolder):
    """Calls one handler, not two: that of the second signal, if there is one."""

    _is_raised = False

    def __enter__(self) -> Callable[[], None]:
        global _current  # noqa: PLW0603 - there is one main thread
        _current = self
        return self.begin

    def __exit__(self, *_: object) -> None:
        global _current  # noqa: PLW0603
        _current = None
        self.release()

    def release(self) -> None:
        """Put the handlers back, and call the one of the signal that arrived, unless that of another was called."""
        if self._is_raised:
            self.arrived = None
        super().release()

    def _again(self, number: int, frame: FrameType | None) -> None:
        self._is_raised = True
        super()._again(number, frame)


_current: _Unbroken | None = None
"""The block of the main thread."""


def unbroken() -> AbstractContextManager[Callable[[], None]]:
    """Return a block, with the function to call when it must not be broken off any more: of an inner one, the same.

    The exception of a signal goes before any outcome of the block.
    """
    if threading.current_thread() is not threading.main_thread():
        return nullcontext(_nothing)
    return _Unbroken() if _current is None else nullcontext(_current.begin)


def _nothing() -> None:
    """Do nothing."""
