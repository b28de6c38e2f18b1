"""The JSON form of Carnac's values: the names of the Python API, in snake_case.

Instants are ISO 8601 in UTC with milliseconds, and their names lose `_ms`; intervals are `start/end`; sets of intervals
are lists; durations keep `_ms`; sizes are bytes. The form that programs read does not change within a major release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

from carnac.core.segments.version import IdRanges, SegmentVersion
from carnac.core.time.intervals import Interval, IntervalSet, format_ms

_INSTANTS = frozenset(
    {"at_ms", "min_time_ms", "max_time_ms", "waits_until_ms", "since_ms", "started_ms"}
)


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


def some_of(value: object, names: str) -> dict[str, object]:
    """Return some attributes of a value, named with spaces between, as `to_json` writes them."""
    return dict(_field(name, getattr(value, name)) for name in names.split())


def object_to_json(value: Mapping[str, object]) -> dict[str, object]:
    """Return plain values whose names are ours, not of data, as the fields of a value are written; lists, too."""
    return dict(_field(name, _plain(item)) for name, item in value.items())


def name_in_json(name: str) -> str:
    """Return the name under which a field is written: instants lose `_ms`."""
    is_instant = name in _INSTANTS or name.endswith("_at_ms")
    return name.removesuffix("_ms") if is_instant else name


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return object_to_json(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _field(name: str, value: object) -> tuple[str, object]:
    shown = name_in_json(name)
    if shown == name:
        return name, to_json(value)
    return shown, format_ms(value) if isinstance(value, int) else None
