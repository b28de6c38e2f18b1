"""Bounds of all settings, whatever their own: a larger value means something else."""

from __future__ import annotations

from collections.abc import Mapping

from carnac.errors import Invalid

TIME_MAX_MS = 36_500 * 86_400_000
"""Of any setting that is a time: no thread can wait for much longer."""
NUMBER_MAX = 1 << 53
"""Of any other: metadata stores and JSON hold no more."""


def require_within_reason(settings: Mapping[str, object]) -> None:
    """Refuse numbers that no clock, disk or database can hold, and lanes in which nothing runs.

    Raises:
        Invalid: There is one; names the setting.
    """
    for name, value in settings.items():
        most = TIME_MAX_MS if name.endswith("_ms") else NUMBER_MAX
        if isinstance(value, int) and value > most:
            raise _wrong(name, f"should be less than or equal to {most}")
        if (
            name == "query_lanes"
            and isinstance(value, Mapping)
            and min(value.values(), default=1) < 1
        ):
            raise _wrong(name, "should give each lane a slot at least")


def _wrong(name: str, why: str) -> Invalid:
    return Invalid(f"setting '{name}' is wrong: input {why}", setting=name)
