"""The segments that may hold rows that satisfy a predicate, by column statistics and by partition.

The one law (PR-1, a property test): a segment that holds a satisfying row is never left out. Time is not looked at
here: a catalog finds entries by `time_bounds`.

Values are compared only where a constant and a column are of the same family (text with text, numbers with numbers)
both in the segment and in the united schema that the query sees; anything else may match. Numbers are compared as
doubles unless all are longs: rounding keeps order, so bounds stay bounds. A 32-bit float compares with a margin,
because SQL may round the constant to 32 bits first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from carnac.core.pruning.predicates import (
    All,
    AnyOf,
    Compare,
    IsNull,
    OneOf,
    Op,
    Predicate,
    StartsWith,
    allowed_values,
)
from carnac.core.segments.partitioning import HASH_FUNCTION, hash_bucket, holds_values
from carnac.core.segments.segment import (
    NUMBER_TYPES,
    TIME_COLUMN,
    Column,
    ColumnType,
    HashedPartition,
    RangePartition,
    Scalar,
    Segment,
)

MAX_COMBINATIONS = 256
"""Maximum number of combinations of partition values; a query that allows more is not pruned by partition."""

_FLOAT32_MARGIN = 2.0**-22
_FLOAT32_TINY = 2.0**-126
_NUMBERS = NUMBER_TYPES | {ColumnType.BOOLEAN}
_EXACT_DOUBLE = 2**53


class Pruner:
    """Answers `may_match` for the segments of one datasource and one predicate; remembers what they share.

    Args:
        types: The united schema that the query sees, without `__time`.
    """

    def __init__(self, predicate: Predicate, types: Mapping[str, ColumnType]) -> None:
        self._predicate = predicate
        self._types = types
        self._allowed: dict[str, frozenset[Scalar] | None] = {}
        self._buckets: dict[
            tuple[tuple[str, ...], tuple[ColumnType, ...], int], frozenset[int] | None
        ] = {}
        self._names = frozenset(_columns(predicate))

    def may_match(self, segment: Segment) -> bool:
        """Whether some row of the segment may satisfy the predicate."""
        if not self._names:
            return self._predicate != AnyOf(())
        columns = {column.name: column for column in segment.columns if column.name in self._names}
        return self._holds(self._predicate, columns, segment.rows) and self._partition_may_match(
            segment, columns
        )

    def find_reason(self, segment: Segment) -> str | None:
        """Return the reason why no row of the segment satisfies the predicate, for people; None: one may."""
        if self.may_match(segment):
            return None
        columns = {column.name: column for column in segment.columns if column.name in self._names}
        parts = self._predicate.parts if isinstance(self._predicate, All) else (self._predicate,)
        for part in parts:
            if not self._holds(part, columns, segment.rows):
                return f"values of {', '.join(dict.fromkeys(_columns(part))) or 'no column'}"
        return f"{'hash' if isinstance(segment.partition, HashedPartition) else 'range'} partition"

    def _holds(self, predicate: Predicate, columns: Mapping[str, Column], rows: int) -> bool:
        match predicate:
            case All(parts):
                return all(self._holds(part, columns, rows) for part in parts)
            case AnyOf(parts):
                return any(self._holds(part, columns, rows) for part in parts)
        name = predicate.column
        if name == TIME_COLUMN or name not in self._types:
            return True
        column = columns.get(name)
        if isinstance(predicate, IsNull):
            return _may_be_null(column) if predicate.wanted else _may_have_value(column, rows)
        if isinstance(predicate, OneOf) and None in predicate.values and _may_be_null(column):
            return True
        if column is None or not _may_have_value(column, rows):
            return False
        return _values_may_match(predicate, column, self._types[name])

    # -- partitions

    def _partition_may_match(self, segment: Segment, columns: Mapping[str, Column]) -> bool:
        partition = segment.partition
        if isinstance(partition, HashedPartition):
            return self._bucket_may_match(partition, columns)
        if isinstance(partition, RangePartition):
            return self._range_may_match(partition, columns)
        return True

    def _bucket_may_match(self, partition: HashedPartition, columns: Mapping[str, Column]) -> bool:
        dimensions = partition.dimensions
        if (
            partition.function != HASH_FUNCTION
            or not dimensions
            or not all(name in columns for name in dimensions)
        ):
            return True
        key = (dimensions, tuple(columns[name].type for name in dimensions), partition.buckets)
        if key not in self._buckets:
            self._buckets[key] = self._allowed_buckets(*key)
        allowed = self._buckets[key]
        return allowed is None or partition.bucket in allowed

    def _allowed_buckets(
        self, dimensions: tuple[str, ...], types: tuple[ColumnType, ...], buckets: int
    ) -> frozenset[int] | None:
        options: list[list[str | int | None]] = []
        combinations = 1
        for name, stored in zip(dimensions, types, strict=True):
            values = self._hashable_values(name, stored)
            if values is None:
                return None
            options.append(values)
            combinations *= len(values)
            if combinations > MAX_COMBINATIONS:
                return None
        return frozenset(hash_bucket(values, buckets) for values in product(*options))

    def _hashable_values(self, name: str, stored: ColumnType) -> list[str | int | None] | None:
        """Return the values of a dimension, allowed by the predicate, as a segment stores them; None if unknown."""
        allowed = self._allowed_of(name)
        if allowed is None or self._types.get(name) is not stored:
            return None
        values: list[str | int | None] = []
        for value in allowed:
            if value is None or (stored is ColumnType.STRING and isinstance(value, str)):
                values.append(value)
            elif stored is ColumnType.LONG and not isinstance(value, str):
                if isinstance(value, float) and abs(value) >= _EXACT_DOUBLE:
                    return None
                if value == int(value):
                    values.append(int(value))
            else:
                return None
        return values

    def _range_may_match(self, partition: RangePartition, columns: Mapping[str, Column]) -> bool:
        options: list[frozenset[Scalar]] = []
        combinations = 1
        for name in partition.dimensions:
            allowed = self._allowed_of(name)
            if (
                allowed is None
                or name not in columns
                or not self._is_exact(name, columns[name], allowed)
            ):
                break
            combinations *= max(1, len(allowed))
            if combinations > MAX_COMBINATIONS:
                break
            options.append(allowed)
        if not options:
            return True
        return any(holds_values(partition, values) for values in product(*options))

    def _is_exact(self, name: str, column: Column, values: Iterable[Scalar]) -> bool:
        """Whether the values compare with the stored ones in Python as SQL compares them."""
        if self._types.get(name) is not column.type:
            return False
        if column.type is ColumnType.STRING:
            return all(value is None or isinstance(value, str) for value in values)
        return column.type is ColumnType.LONG and all(
            value is None or isinstance(value, int) for value in values
        )

    def _allowed_of(self, name: str) -> frozenset[Scalar] | None:
        if name not in self._allowed:
            self._allowed[name] = allowed_values(self._predicate, name)
        return self._allowed[name]


def _columns(predicate: Predicate) -> Iterable[str]:
    if isinstance(predicate, All | AnyOf):
        for part in predicate.parts:
            yield from _columns(part)
    else:
        yield predicate.column


def _may_be_null(column: Column | None) -> bool:
    return column is None or column.null_count != 0


def _may_have_value(column: Column | None, rows: int) -> bool:
    return column is not None and (column.null_count is None or column.null_count < rows)


def _values_may_match(
    predicate: Compare | OneOf | StartsWith, column: Column, seen_as: ColumnType
) -> bool:
    low, high = column.min_value, column.max_value
    if low is None or high is None:
        return True
    match predicate:
        case StartsWith(_, prefix):
            if (
                not isinstance(low, str)
                or not isinstance(high, str)
                or seen_as is not ColumnType.STRING
            ):
                return True
            return high >= prefix and (low <= prefix or low.startswith(prefix))
        case Compare(_, op, value):
            return _constant_may_match(op, value, column, seen_as)
        case OneOf(_, values):
            return any(
                _constant_may_match(Op.EQ, value, column, seen_as)
                for value in values
                if value is not None
            )


def _constant_may_match(
    op: Op, value: str | int | float, column: Column, seen_as: ColumnType
) -> bool:
    low, high = column.min_value, column.max_value
    if isinstance(value, str):
        if (
            seen_as is not ColumnType.STRING
            or not isinstance(low, str)
            or not isinstance(high, str)
        ):
            return True
        return _within(op, value, value, low, high)
    if (
        seen_as not in _NUMBERS
        or isinstance(low, str)
        or isinstance(high, str)
        or low is None
        or high is None
    ):
        return True
    if seen_as is ColumnType.LONG and not any(isinstance(one, float) for one in (value, low, high)):
        return _within(op, value, value, low, high)
    middle = float(value)
    margin = (
        abs(middle) * _FLOAT32_MARGIN + _FLOAT32_TINY
        if ColumnType.FLOAT in {seen_as, column.type}
        else 0.0
    )
    return _within(op, middle - margin, middle + margin, float(low), float(high), is_loose=True)


def _within(
    op: Op,
    least: str | float,
    most: str | float,
    low: str | float,
    high: str | float,
    *,
    is_loose: bool = False,
) -> bool:
    """Whether some x within low..high may satisfy `x op value` for a value within least..most.

    Loose: all of them may have been rounded, so strict comparisons are taken as not strict.
    """
    match op:
        case Op.EQ:
            return low <= most and high >= least  # type: ignore[operator]
        case Op.LT:
            return low < most or (is_loose and low == most)  # type: ignore[operator]
        case Op.LE:
            return low <= most  # type: ignore[operator]
        case Op.GT:
            return high > least or (is_loose and high == least)  # type: ignore[operator]
        case Op.GE:
            return high >= least  # type: ignore[operator]
