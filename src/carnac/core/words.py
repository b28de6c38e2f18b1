"""Numbers, sizes and chunks as words, for all that people read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
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


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:(k|m|g|t|p)(i?))?b?", re.IGNORECASE | re.ASCII)
_DIGITS_MAX = 20


def parse_bytes(text: str) -> int:
    """Return a size that people write, in bytes: `50GB`, `1.5 TB` (powers of 1000), `512MiB` (of 1024), `50000000000`.

    Raises:
        ValueError: It is none.
    """
    found = _SIZE.fullmatch(text.strip()) if len(text) <= _DIGITS_MAX else None
    if found is None:
        raise ValueError(f"'{text}' is no size; write it like 50GB, 512MiB or 50000000000")
    number, unit, binary = found.groups()
    power = 1 + "kmgtp".index(unit.lower()) if unit else 0
    return int(Decimal(number) * (1024 if binary else 1000) ** power)


def first_of(names: Sequence[str], most: int, *, by: str = ", ") -> str:
    """Return the first of some names, and how many there are besides: `a, b and 3 more`."""
    rest = len(names) - most
    return by.join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names with `_1`, `_2`, … after those that repeat, so that an object can hold them."""
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, number = name, 0
        while candidate in taken:
            number += 1
            candidate = f"{name}_{number}"
        taken.add(candidate)
        result.append(candidate)
    return result


@lru_cache(maxsize=1 << 12)  # the reasons of a plan say the same few numbers again and again
def share_text(share: float, form: str = ".1%") -> str:
    """Return a share as `8.7 %`.

    Args:
        form: How Python formats it, such as `+.1%`.
    """
    return format(share, form).replace("%", " %")


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
