"""A program at a real pseudo-terminal: typed keys, the screen, and signals of the keyboard."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import PATIENCE_S

ROWS, COLUMNS = 40, 120
_WHERE_IS_THE_CURSOR = b"\x1b[6n"
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][A-Z0-9]?|\x1b\][^\x07]*\x07|[\r\x08]")


class Terminal:
    """The other end of a program's terminal.

    Attributes:
        shown: All that the program has written, without what moves the cursor and sets colours.
    """

    def __init__(self, master: int, program: subprocess.Popen[bytes]) -> None:
        self._master = master
        self._raw = b""
        self._seen = 0
        self.program = program

    @property
    def shown(self) -> str:
        return _CONTROLS.sub("", self._raw.decode("utf-8", "replace"))

    @property
    def is_raw(self) -> bool:
        """Whether keys reach the program one by one, without the terminal's own echo."""
        return not termios.tcgetattr(self._master)[3] & termios.ICANON

    @property
    def is_busy(self) -> bool:
        """Whether the program reads no keys: it works, and Ctrl-C is a signal."""
        self._read()
        return not self.is_raw

    def ends_input_at(self, key: str) -> bool:
        """Whether the terminal itself takes that key as the end of what is typed, as shells leave it."""
        controls: list[bytes] = termios.tcgetattr(self._master)[6]
        return controls[termios.VEOF] == key.encode()

    def type(self, text: str) -> None:
        """Press keys; `\\x03` is Ctrl-C, `\\x04` is Ctrl-D, `\\r` is Enter, `\\t` is Tab."""
        self._seen = len(self.shown)
        os.write(self._master, text.encode())

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until the program has shown something since the last key, and since what was last waited for.

        A line that is drawn anew, as prompts do with each key, is so not taken for the next one.
        """
        end = time.monotonic() + PATIENCE_S
        while True:
            found = re.compile(pattern).search(self.shown, min(self._seen, len(self.shown)))
            if found is not None:
                self._seen = found.end()
                return found
            assert time.monotonic() < end, f"never saw {pattern!r} in {self.shown!r}"
            assert self._read(), f"ended without {pattern!r}: {self.shown!r}"

    def end(self) -> int:
        """Read until the program closes its terminal; return its exit code."""
        while self._read():
            pass
        return self.program.wait(PATIENCE_S)

    def _read(self) -> bool:
        """Take what is written, as terminals do; return False once nobody writes any more."""
        ready, _, _ = select.select([self._master], [], [], 0.2)
        if not ready:
            return self.program.poll() is None
        try:
            some = os.read(self._master, 65536)
        except OSError:  # Linux says so that the last one has closed the terminal
            return False
        self._raw += some
        if _WHERE_IS_THE_CURSOR in some:
            os.write(self._master, b"\x1b[1;1R")
        return bool(some)


@contextmanager
def at_terminal(
    args: Sequence[str], *, cwd: Path, environ: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Run `carnac` as the foreground program of a terminal of its own."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.terminals", *args],
        cwd=cwd,
        env={
            **os.environ,
            "TERM": "xterm",
            "NO_COLOR": "1",
            "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
            **(environ or {}),
        },
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(master, program)
    finally:
        with suppress(ProcessLookupError):
            program.kill()
        program.wait(PATIENCE_S)
        os.close(master)


def _take_terminal() -> None:
    """Make standard input the terminal whose Ctrl-C reaches this process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


if __name__ == "__main__":
    from carnac.cli import main

    _take_terminal()
    sys.exit(main())
