"""The known part of a query's condition on one table: enough to leave segments out, never more than is certain.

A predicate here says which rows *may* satisfy the condition. `ANYTHING` stands for every part of it that is not
understood, so a predicate is always implied by the condition; null counts as not satisfied, as in a WHERE clause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from carnac.core.segments.segment import TIME_COLUMN, Scalar
from carnac.core.time.intervals import ETERNITY, MAX_MS, MIN_MS, Interval, IntervalSet, interval_set

MAX_SET = 10_000
"""Maximum length of an IN list whose values are told apart; a longer one is taken as its least and its greatest."""


class Op(StrEnum):
    """How a column is compared with a constant."""

    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op value`. Instants (`__time`) are in epoch microseconds. `value` is never None or NaN."""

    column: str
    op: Op
    value: str | int | float


@dataclass(frozen=True, slots=True)
class OneOf:
    """`column` is one of the values; None among them is null (from IS NULL, never from an IN list)."""

    column: str
    values: frozenset[Scalar]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`, or with `wanted=False` `IS NOT NULL`."""

    column: str
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The text in `column` starts with the prefix."""

    column: str
    prefix: str


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds; no parts: anything may satisfy it."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Some part holds; no parts: nothing satisfies it."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = "Compare | OneOf | IsNull | StartsWith | All | AnyOf"

ANYTHING = All(())
NOTHING = AnyOf(())


def all_of(parts: Iterable[Predicate]) -> Predicate:
    """Return the conjunction, flat."""
    return _joined(parts, All, NOTHING)


def any_of(parts: Iterable[Predicate]) -> Predicate:
    """Return the disjunction, flat; `ANYTHING` if a part is."""
    return _joined(parts, AnyOf, ANYTHING)


def _joined(parts: Iterable[Predicate], kind: type[All | AnyOf], decisive: Predicate) -> Predicate:
    flat: list[Predicate] = []
    for part in parts:
        if part == decisive:
            return decisive
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


EVERYTHING = IntervalSet((ETERNITY,))


def time_bounds(predicate: Predicate) -> IntervalSet:
    """Return the instants outside of which no row satisfies the predicate, rounded outwards to milliseconds."""
    match predicate:
        case Compare(column, op, value) if column == TIME_COLUMN and not isinstance(value, str):
            return _instants(op, value)
        case OneOf(column, values) if column == TIME_COLUMN:
            known = [value for value in values if isinstance(value, int | float)]
            return interval_set(piece for value in known for piece in _instants(Op.EQ, value))
        case IsNull(column, wanted) if column == TIME_COLUMN:
            return IntervalSet() if wanted else EVERYTHING
        case All(parts):
            bounds = EVERYTHING
            for part in parts:
                bounds = bounds.intersect(time_bounds(part))
            return bounds
        case AnyOf(parts):
            return interval_set(piece for part in parts for piece in time_bounds(part))
        case _:
            return EVERYTHING


def _instants(op: Op, value_us: float) -> IntervalSet:
    at_ms = int(value_us // 1000)
    after_ms = at_ms if op is Op.LT and value_us % 1000 == 0 else at_ms + 1
    start_ms = at_ms if op in {Op.EQ, Op.GT, Op.GE} else MIN_MS
    end_ms = after_ms if op in {Op.EQ, Op.LT, Op.LE} else MAX_MS
    start_ms, end_ms = max(start_ms, MIN_MS), min(end_ms, MAX_MS)
    return IntervalSet((Interval(start_ms, end_ms),)) if start_ms < end_ms else IntervalSet()


def allowed_values(predicate: Predicate, column: str) -> frozenset[Scalar] | None:
    """Return a set that holds the column's value in every row that satisfies the predicate; None if there is no such.

    None as a member stands for null.
    """
    match predicate:
        case Compare(name, op, value) if name == column and op is Op.EQ:
            return frozenset((value,))
        case OneOf(name, values) if name == column:
            return values
        case IsNull(name, wanted) if name == column and wanted:
            return frozenset((None,))
        case All(parts):
            found = [found for part in parts if (found := allowed_values(part, column)) is not None]
            return frozenset.intersection(*found) if found else None
        case AnyOf(parts):
            options = [allowed_values(part, column) for part in parts]
            known = [option for option in options if option is not None]
            return frozenset().union(*known) if len(known) == len(options) else None
        case _:
            return None
