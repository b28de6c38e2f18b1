"""The JSON form of Carnac's values: the names of the Python API, in snake_case.

Instants are ISO 8601 in UTC with milliseconds, and their names lose `_ms`; intervals are `start/end`; sets of intervals
are lists; durations keep `_ms`; sizes are bytes. What a program reads here does not change within a major release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

from carnac.core.intervals import Interval, IntervalSet, format_ms
from carnac.core.versions import IdRanges, SegmentVersion

_INSTANTS = frozenset({"at_ms", "min_time_ms", "max_time_ms", "waits_until_ms"})


def to_json(value: object) -> object:
    """Return the value as what `json.dumps` takes."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return value
    if isinstance(value, Interval | SegmentVersion | IdRanges):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple is a value, too
        return dict(_field(name, getattr(value, name)) for name in value._fields)
    if isinstance(value, IntervalSet | tuple | list | set | frozenset):
        return [to_json(item) for item in value]
    if is_dataclass(value):
        return dict(_field(item.name, getattr(value, item.name)) for item in fields(value))
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _field(name: str, value: object) -> tuple[str, object]:
    is_instant = name in _INSTANTS or name.endswith("_at_ms")
    if is_instant and isinstance(value, int):
        return name.removesuffix("_ms"), format_ms(value)
    if is_instant:
        return name.removesuffix("_ms"), None
    return name, to_json(value)
