"""What callers hand over, looked at where it comes in: a wrong type is one sentence, and nothing has happened yet."""

from __future__ import annotations

from collections.abc import Sequence

from carnac.core.intervals import Interval, parse_interval
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


def require_text(value: object, what: str) -> None:
    """Refuse what is no text.

    Args:
        what: What it should be, such as "the name of a datasource".

    Raises:
        Invalid: It is none.
    """
    if not isinstance(value, str):
        raise Invalid(f"{what} is a text, not {value!r}")


def require_count(value: object, what: str) -> None:
    """Refuse what is no whole number, or less than zero.

    Raises:
        Invalid: It is.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Invalid(f"{what} is a whole number, 0 or more, not {value!r}")


def require_list(value: object, what: str) -> None:
    """Refuse what is no list; one text is none.

    Raises:
        Invalid: It is none.
    """
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise Invalid(f"{what} are a list, not {value!r}")
