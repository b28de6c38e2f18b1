"""Numbers, sizes and chunks as words, for all that people read."""

from __future__ import annotations

import json
from functools import lru_cache

from carnac.core.time.intervals import ETERNITY, Interval, interval_text


@lru_cache(
    maxsize=1 << 12
)  # the reasons of a compaction's plan count the same few things again and again
def counted(number: int, thing: str) -> str:
    """Return `1 segment`, `2 segments`, `1,000 segments`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


_UNITS = ((10**3, "kB"), (10**6, "MB"), (10**9, "GB"), (10**12, "TB"), (10**15, "PB"))


def bytes_text(size_bytes: int) -> str:
    """Return a size for people, as tables show it: `1.5 MB` (powers of 1000)."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    for size, unit in _UNITS:
        if size_bytes < 1000 * size or unit == "PB":
            return f"{size_bytes / size:.1f} {unit}"
    raise AssertionError("unreachable")


@lru_cache(maxsize=1 << 12)  # the reasons of a plan say the same few numbers again and again
def number_text(number: int) -> str:
    """Return `1,000`."""
    return f"{number:,}"


def chunk_text(chunk: Interval) -> str:
    """Return a time chunk as a reason names it."""
    return "of all times" if chunk == ETERNITY else interval_text(chunk)


def granularity_text(canonical: str | None) -> str:
    """Return a granularity for people: `DAY`, `PT2H`, `P1D in Europe/Paris`, `P7D from 1970-01-07`; empty for None."""
    if canonical is None or not canonical.startswith("{"):
        return canonical or ""
    block = json.loads(canonical)
    zone, origin = block.get("timeZone"), block.get("origin")
    text = str(block.get("period"))
    text += f" in {zone}" if zone else ""
    return f"{text} from {origin.removesuffix('T00:00:00.000Z')}" if origin else text
