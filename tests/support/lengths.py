"""Whether what a text costs grows with its length."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

PARTS = 4
FIXED_S = 0.5
"""Processor time that may be spent on a text of any length."""
TRIES = 4
"""How often to measure: other threads and processes of the suite can only add to what a text costs."""


def grows_with_length(read: Callable[[str], object], text: str) -> bool:
    """Whether to read a text takes about as many times longer than to read a part of it, and not the square of that.

    What grows with the square does so in every try.
    """
    return any(_is_in_proportion(read, text + " " * number) for number in range(TRIES))


def _is_in_proportion(read: Callable[[str], object], text: str) -> bool:
    part_s = processor_s(read, text[: len(text) // PARTS])
    return processor_s(read, text) < PARTS * (PARTS + 1) / 2 * part_s + FIXED_S


def processor_s(read: Callable[[str], object], text: str) -> float:
    """Return the processor time that it takes, in seconds, without that of collecting older garbage."""
    gc.collect()
    gc.disable()
    try:
        started_s = time.process_time()
        read(text)
        return time.process_time() - started_s
    finally:
        gc.enable()
