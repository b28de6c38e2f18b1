"""How late rows are: the buckets of the late ledger, and counts by them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


class Lateness(StrEnum):
    """Buckets of lateness: the upper bound of a row's age against the newest row of its datasource before it."""

    MINUTE = "PT1M"
    HOUR = "PT1H"
    DAY = "P1D"
    WEEK = "P7D"
    MONTH = "P30D"
    LONGER = "longer"


LATENESSES = tuple(Lateness)
BOUNDS_MS = (60_000, _HOUR_MS, _DAY_MS, 7 * _DAY_MS, 30 * _DAY_MS)
"""The most of each lateness but the last, inclusive."""

LateCounts: TypeAlias = tuple[int, ...]
"""Rows of each lateness, in the order of `Lateness`."""
NONE_LATE: LateCounts = (0,) * len(LATENESSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRows:
    """The late rows of a segment: rows that were late when they were appended.

    Attributes:
        counts: Input rows of each lateness, in the order of `Lateness`; not all zero.
        is_folded: A rewrite has folded them together with other rows.
    """

    counts: LateCounts
    is_folded: bool = False


def add_counts(many: Iterable[LateCounts]) -> LateCounts:
    """Return the sums of counts."""
    return tuple(map(sum, zip(NONE_LATE, *many, strict=True)))


def part_of(counts: LateCounts, upto: int, whole: int) -> LateCounts:
    """Return the first `upto` of `whole` equal parts of the counts, rounded down.

    The differences of such parts add up exactly, wherever the cuts are.
    """
    return tuple(count * upto // whole for count in counts)


def thin_out(counts: LateCounts, kept: int, of: int) -> LateCounts:
    """Return the counts when `kept` of `of` rows are left; their sum shrinks like the rows, rounded down."""
    so_far, given, left = 0, 0, []
    for count in counts:
        so_far += count
        upto = so_far * kept // of
        left.append(upto - given)
        given = upto
    return tuple(left)


def minus_counts(more: LateCounts, less: LateCounts) -> LateCounts:
    """Return the differences of counts."""
    return tuple(a - b for a, b in zip(more, less, strict=True))


def spread(counts: LateCounts, weights: Sequence[int]) -> list[LateCounts]:
    """Return the counts divided among some, in proportion to their weights; the parts add up to the whole.

    Args:
        weights: Not negative, and not all zero.
    """
    whole, so_far, before = sum(weights), 0, NONE_LATE
    parts = []
    for weight in weights:
        so_far += weight
        upto = part_of(counts, so_far, whole)
        parts.append(minus_counts(upto, before))
        before = upto
    return parts
