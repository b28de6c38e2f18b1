"""What callers may write in more than one way, in the form that is worked with."""

from __future__ import annotations

from carnac.core.time.intervals import Interval, parse_interval
from carnac.errors import Invalid


def as_interval(value: Interval | str | None) -> Interval | None:
    """Return an interval, or None.

    Raises:
        Invalid: It is neither, nor the text of one.
    """
    if value is None or isinstance(value, Interval):
        return value
    if isinstance(value, str):
        return parse_interval(value)
    raise Invalid(
        f"{value!r} is no interval; write it like '2013-01-01/2013-02-01', or give a carnac.Interval"
    )
