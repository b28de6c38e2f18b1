"""Local (wall clock) time of a zone and instants, both as milliseconds.

`wall_ms` is what the clock on the wall reads, as if it were UTC: 1970-01-01T00:00 local is 0. All functions also
work a little outside years 1..9999, so that callers may step over the edge and clip afterwards. The rules come from
the IANA data that `zoneinfo` finds; they repeat as the data says beyond its table.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from carnac.core.time.intervals import EPOCH, MAX_MS, MIN_MS
from carnac.core.time.periods import DAY_MS
from carnac.errors import Invalid

UTC_ZONE = "UTC"
PROBE_STEP_MS = 7 * DAY_MS
"""How densely `recent_offsets_ms` looks: shorter than any stretch of summer time."""
PROBE_END_MS = 2_240_611_200_000
"""2041-01-01T00:00Z: by then the rules in force today have repeated."""

_LOWEST_MS = MIN_MS + 2 * DAY_MS
_HIGHEST_MS = MAX_MS - 2 * DAY_MS
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock has no zone
_FIXED = re.compile(r"([+-])(\d{2})(?::?(\d{2}))?")
_FIXED_NAMES = frozenset("GMT GMT0 GMT+0 GMT-0 Greenwich UCT UTC Universal Zulu Z".split())
_UNUSABLE = re.compile(r"localtime|posixrules|Factory|(posix|right)/.*")


def canonical_zone(text: str) -> str:
    """Return the zone's name in normal form: `UTC`, an offset such as `+05:30`, or an IANA name.

    Raises:
        Invalid: No such zone.
    """
    name = text.strip()
    offset_ms = _named_offset_ms(name)
    if offset_ms is not None:
        return _offset_name(offset_ms)
    if _UNUSABLE.fullmatch(name) or not _is_known(name):
        raise Invalid(
            f"'{text}' is not a time zone; write UTC, an offset such as +05:30, or a name such as America/New_York",
            time_zone=text,
        )
    return name


def rules_of(zone: str) -> tzinfo:
    """Return a zone by its name in normal form, for the standard library."""
    fixed = fixed_offset_ms(zone)
    return ZoneInfo(zone) if fixed is None else timezone(timedelta(milliseconds=fixed))


@lru_cache(maxsize=1024)
def fixed_offset_ms(zone: str) -> int | None:
    """Return the offset of a zone that never changes it (local minus UTC); None for all others."""
    return _named_offset_ms(zone)


def offset_ms(zone: str, at_ms: int) -> int:
    """Return local minus UTC at the instant `at_ms`."""
    fixed = fixed_offset_ms(zone)
    if fixed is not None:
        return fixed
    inside_ms = min(max(at_ms, _LOWEST_MS), _HIGHEST_MS)
    offset = (EPOCH + timedelta(milliseconds=inside_ms)).astimezone(ZoneInfo(zone)).utcoffset()
    return _to_ms(offset)


def first_instant(zone: str, wall_ms: int) -> int:
    """Return the first instant at which the wall clock reads `wall_ms` or later.

    When clocks go back and show it twice, this is the first time; when they go forward over it, the moment of the
    change. So it never decreases as `wall_ms` grows.
    """
    fixed = fixed_offset_ms(zone)
    if fixed is not None:
        return wall_ms - fixed
    rules = ZoneInfo(zone)
    wall = _NAIVE_EPOCH + timedelta(milliseconds=min(max(wall_ms, _LOWEST_MS), _HIGHEST_MS))
    before = _to_ms(rules.utcoffset(wall))
    after = _to_ms(rules.utcoffset(wall.replace(fold=1)))
    if before >= after:
        return wall_ms - before
    between = range(wall_ms - after + 1, wall_ms - before)
    is_reached = bisect_left(
        between, x=True, key=lambda at_ms: at_ms + offset_ms(zone, at_ms) >= wall_ms
    )
    return between.start + is_reached


def offset_change(zone: str, low_ms: int, high_ms: int) -> int:
    """Return the instant at which the offset of `low_ms` gives way to that of `high_ms`, which must differ.

    Between the two there must be one change only.
    """
    old, between = offset_ms(zone, low_ms), range(low_ms + 1, high_ms)
    return between.start + bisect_left(
        between, x=True, key=lambda at_ms: offset_ms(zone, at_ms) != old
    )


@lru_cache(maxsize=1024)
def recent_offsets_ms(zone: str) -> frozenset[int]:
    """Return all offsets that the zone has had since 1970 or will have."""
    fixed = fixed_offset_ms(zone)
    if fixed is not None:
        return frozenset((fixed,))
    return frozenset(offset_ms(zone, at_ms) for at_ms in range(0, PROBE_END_MS, PROBE_STEP_MS))


def _is_known(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _to_ms(offset: timedelta | None) -> int:
    if offset is None:  # the type allows it, and zoneinfo never returns it
        return 0
    return offset.days * DAY_MS + offset.seconds * 1000


def _named_offset_ms(name: str) -> int | None:
    if name in _FIXED_NAMES:
        return 0
    match = _FIXED.fullmatch(name)
    if match:
        hours, minutes = int(match[2]), int(match[3] or 0)
        if hours > 23 or minutes > 59:
            return None
        return (1 if match[1] == "+" else -1) * (hours * 60 + minutes) * 60_000
    if not name.startswith("Etc/") or not _is_known(name):
        return None
    return _to_ms(ZoneInfo(name).utcoffset(_NAIVE_EPOCH))


def _offset_name(offset: int) -> str:
    if offset == 0:
        return UTC_ZONE
    hours, minutes = divmod(abs(offset) // 60_000, 60)
    return f"{'+' if offset > 0 else '-'}{hours:02d}:{minutes:02d}"
