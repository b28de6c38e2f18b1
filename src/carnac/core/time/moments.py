"""The revision that a caller means: a number, a time or a name."""

from __future__ import annotations

from datetime import datetime, timedelta

from carnac.core.time.intervals import EPOCH, MIN_MS, format_ms
from carnac.errors import Invalid


def as_moment(at: int | str | datetime | None) -> int | str | None:
    """Return a datetime as ISO 8601 text, cut off to milliseconds, and all else as it is.

    Raises:
        Invalid: The datetime has no time zone, or lies outside years 1 to 9999.
    """
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None or at.utcoffset() is None:
        raise Invalid(
            f"{at.isoformat(' ')} has no time zone, so it is no one time; give it one: "
            "at.replace(tzinfo=timezone.utc) if it is UTC, at.astimezone() if it is this machine's time"
        )
    ms = (at - EPOCH) // timedelta(milliseconds=1)
    if ms < MIN_MS:
        raise Invalid(f"{at.isoformat(' ')} lies outside years 1 to 9999 UTC")
    return format_ms(ms)
