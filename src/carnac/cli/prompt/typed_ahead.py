"""Ctrl-D that is typed while a statement runs: kept for the prompt, as other keys are."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CONTROLS = 6
"""Where `termios.tcgetattr` has the keys that the terminal heeds itself."""


@contextmanager
def ctrl_d_kept() -> Iterator[None]:
    """Let the terminal take Ctrl-D as a key like any other, also while no prompt reads keys.

    A terminal that collects lines makes a mark of Ctrl-D; once keys are read one by one, Linux hands that out as
    the byte 0, which no prompt can know from Ctrl-Space. Standard input that is no terminal is left alone.
    """
    try:
        there = sys.stdin.fileno()
        before = termios.tcgetattr(there)
        nothing = os.fpathconf(there, "PC_VDISABLE")
    except (OSError, ValueError, termios.error):
        yield
        return
    keeping = list(before)
    keeping[_CONTROLS] = list(before[_CONTROLS])
    keeping[_CONTROLS][termios.VEOF] = bytes([nothing])
    termios.tcsetattr(there, termios.TCSANOW, keeping)
    try:
        yield
    finally:
        with suppress(termios.error):  # a terminal that is gone
            termios.tcsetattr(there, termios.TCSANOW, before)
