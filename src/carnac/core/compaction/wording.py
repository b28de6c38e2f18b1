"""Words and numbers of the reasons that the planner gives."""

from __future__ import annotations

import json
from functools import lru_cache

from carnac.core.intervals import ETERNITY, Interval, format_ms

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def bytes_text(size_bytes: int) -> str:
    """Return a size for people, as tables show it: `1.5 MB` (powers of 1000)."""
    size, unit = float(size_bytes), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size /= 1000
        unit += 1
    return f"{size_bytes} B" if not unit else f"{size:.1f} {_UNITS[unit]}"


def interval_text(interval: Interval) -> str:
    """Return an interval without the zeros of its times: `2026-01-05/2026-01-06`, `2026-01-05T07:00Z/…`."""
    return f"{time_text(interval.start_ms)}/{time_text(interval.end_ms)}"


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


@lru_cache(maxsize=1 << 16)  # names of tasks say the same borders again and again
def time_text(at_ms: int) -> str:
    """Return a time without its zeros: `2026-01-05`, `2026-01-05T07:30Z`."""
    text = format_ms(at_ms)
    return text.removesuffix("T00:00:00.000Z").replace(":00.000Z", "Z").replace(".000Z", "Z")
