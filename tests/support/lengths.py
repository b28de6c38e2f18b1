"""Whether what a text costs grows with its length."""

from __future__ import annotations

import time
from collections.abc import Callable

PARTS = 4
FIXED_S = 0.5
"""Processor time that may be spent on a text of any length."""


def grows_with_length(read: Callable[[str], object], text: str) -> bool:
    """Whether to read a text takes about as many times longer than to read a part of it, and not the square of that."""
    part_s = processor_s(read, text[: len(text) // PARTS])
    return processor_s(read, text) < PARTS * (PARTS + 1) / 2 * part_s + FIXED_S


def processor_s(read: Callable[[str], object], text: str) -> float:
    """Return the processor time that it takes, in seconds."""
    started_s = time.process_time()
    read(text)
    return time.process_time() - started_s
