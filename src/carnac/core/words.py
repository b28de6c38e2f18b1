"""Numbers with their words, for all that people read."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(
    maxsize=1 << 12
)  # the reasons of a compaction's plan count the same few things again and again
def counted(number: int, thing: str) -> str:
    """Return `1 segment`, `2 segments`, `1,000 segments`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
