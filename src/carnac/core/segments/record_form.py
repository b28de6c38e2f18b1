"""What all records share: their text, the number of their format, values that JSON has no words for, and damage."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from carnac.core.segments.segment import Scalar
from carnac.core.segments.strict_json import Json, items, members, text, whole_number
from carnac.core.time.intervals import Interval
from carnac.errors import Corrupt, Invalid

RECORD_FORMAT = 1
"""Written with every stored record; raised when a record changes so that an older reader would misread it."""

T = TypeVar("T")

_UPGRADES: Mapping[int, Callable[[Json], Json]] = {}
"""Format n → function that makes a record of format n + 1 of it. Empty while there is one format."""
_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Write a value as the text of a record."""
loads = json.JSONDecoder().decode
"""Read the text of a record; raises ValueError if it is no JSON."""


def load_record(kind: str, record: str, build: Callable[[Json], T]) -> T:
    """Return what `build` makes of a record in today's format.

    Args:
        kind: What it is the record of, for the message.

    Raises:
        Corrupt: The record is damaged, or was written by a newer Carnac.
    """
    return guard(kind, record, lambda: build(_current(kind, members(loads(record)))))


def guard(kind: str, record: str, build: Callable[[], T]) -> T:
    """Return what `build` returns; raises Corrupt if it finds the record damaged."""
    try:
        return build()
    except (KeyError, TypeError, ValueError, AttributeError, Invalid, RecursionError) as error:
        raise Corrupt(
            f"the record of a {kind} is damaged ({type(error).__name__}: {error}); it begins {record[:80]!r}",
            record=kind,
        ) from error


def _current(kind: str, record: Json) -> Json:
    written = whole_number(record.pop("recordFormat"))
    if written > RECORD_FORMAT:
        raise Corrupt(
            f"the record of a {kind} has format {written}, newer than {RECORD_FORMAT} which this Carnac reads; "
            f"use the version that wrote it",
            record=kind,
        )
    for older in range(written, RECORD_FORMAT):
        record = _UPGRADES[older](record)
    return record


def require_empty(record: Json) -> None:
    """Refuse fields that nobody has taken out; raises ValueError."""
    if record:
        raise ValueError(f"unknown fields {sorted(record)}")


def dump_scalar(value: Scalar) -> object:
    """Return a value as JSON can write it: floats without a number are `{"float": "inf" | "-inf" | "nan"}`."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def scalar(value: object) -> Scalar:
    """Return what `dump_scalar` wrote; raises TypeError or KeyError for anything else."""
    if value is None or isinstance(value, str | int | float):
        return value
    return _NON_FINITE[text(members(value)["float"])]


def interval(value: object) -> Interval:
    """Return the interval of `[start_ms, end_ms]`."""
    start, end = items(value)
    return Interval(whole_number(start), whole_number(end))
