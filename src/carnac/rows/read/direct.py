"""Tables in memory as rows of pass 1 without an engine, where that gives the same rows.

DuckDB's part in an append of a thousand rows, statements that are planned anew each time, took 8 ms of 17; most rows
that come in memory need nothing of it. So `direct_rows` takes the types whose values all keep the meaning that `coerce`
and `timestamps` give them, or of which one look at the values shows it. Anything else, a row that would be
rejected or a number that would change included, makes it leave the whole table to the engine, which names the problem.
A property test holds both to the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from carnac.core.segments.segment import ELEMENT_TYPES, TIME_COLUMN, ColumnType, Metric, MetricKind
from carnac.core.time.granularity import NONE, parse_granularity
from carnac.core.time.intervals import MAX_MS, MIN_MS
from carnac.errors import Invalid
from carnac.rows.parts import BATCH_ROWS
from carnac.rows.read.columnar import require_own_names
from carnac.rows.segment_writer import ARROW_TYPE, TIME_TYPE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from carnac.core.time.intervals import Interval, IntervalSet
    from carnac.rows.normalise.shape import RowShape
    from carnac.specs.ingest.schema import TimestampSpec

_EXACT_DOUBLE = 1 << 53
_UNITS_OF_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FORMATS = {"auto": "ms", "iso": "ms", "millis": "ms", "posix": "s", "micro": "us"}
"""By format of a `timestampSpec`: the unit in which a whole number counts."""


class DirectRows(NamedTuple):
    """Rows, and how many of them have a time that is finer than is kept."""

    rows: pa.RecordBatch
    finer: int


class _Engine(Exception):
    """Raised by what only the engine can tell."""


def direct_rows(
    table: pa.Table, shape: RowShape, timestamp: TimestampSpec, within: IntervalSet | None
) -> DirectRows | None:
    """Return the part rows of pass 1 for all rows of a table, each of which is good; None where an engine is needed.

    Args:
        within: Rows outside of these instants are left out.
    """
    if not _is_plain(table, shape, timestamp):
        return None
    batches = table.combine_chunks().to_batches()
    if len(batches) != 1:
        return None
    [rows] = batches
    of_name = dict(zip(rows.schema.names, rows.columns, strict=True))
    try:
        times, is_finer = _times(of_name[timestamp.column], timestamp)
        columns = {TIME_COLUMN: pa.array(times).view(TIME_TYPE)}
        for one in shape.dimensions:
            columns[one.name] = _column(of_name.get(one.name), one.type, rows.num_rows, one)
        for metric in shape.metrics:
            columns[metric.name] = _metric(of_name, metric, rows.num_rows)
    except (_Engine, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    found = pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
    if within is not None:
        taken = are_within(times, within)
        found, is_finer = found.filter(pa.array(taken)), is_finer & taken
    return DirectRows(found, int(is_finer.sum()))


@lru_cache
def _are_own_names(names: tuple[str, ...]) -> bool:
    try:
        require_own_names(names, "")
    except Invalid:
        return False
    return True


def _is_plain(table: pa.Table, shape: RowShape, timestamp: TimestampSpec) -> bool:
    """Whether rows stay one by one, as they are, and names mean one column each."""
    wanted = (TIME_COLUMN, *shape.dimension_names, *(metric.name for metric in shape.metrics))
    return (
        _are_own_names(tuple(table.column_names))
        and 0 < table.num_rows <= BATCH_ROWS
        and timestamp.column in table.column_names
        and len({name.lower() for name in wanted}) == len(wanted)
        and not shape.is_rollup
        and not shape.order_fields
        and parse_granularity(shape.query_granularity) == NONE
    )


def _metric(columns: dict[str, pa.Array], metric: Metric, rows: int) -> pa.Array:
    """Return the metric of each row alone."""
    if metric.kind is MetricKind.COUNT and metric.input is None:
        return pa.array(np.ones(rows, np.int64))
    if (
        metric.input is None
        or metric.input == TIME_COLUMN
        or metric.params
        or metric.type.is_sketch
    ):
        raise _Engine
    return _column(columns.get(metric.input), metric.type, rows, None)


# ---------------------------------------------------------------------------------------- time


def _times(
    column: pa.Array, timestamp: TimestampSpec
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the times in microseconds, floored to milliseconds, and whether they were finer."""
    kind = column.type
    if column.null_count:
        raise _Engine
    if kinds.is_timestamp(kind) and (kind.tz is not None or timestamp.time_zone == "UTC"):
        unit = kind.unit
    elif kinds.is_integer(kind) and timestamp.format in _FORMATS:
        unit = _FORMATS[timestamp.format]
    else:
        raise _Engine
    counted = column.view(pa.int64()) if kinds.is_timestamp(kind) else column.cast(pa.int64())
    values: NDArray[np.int64] = counted.to_numpy()
    in_second = _UNITS_OF_SECOND[unit]
    low, high = int(values.min()), int(values.max())
    if low < MIN_MS * in_second // 1000 or high >= MAX_MS * in_second // 1000:
        raise _Engine
    if unit == "s":
        return values * 1_000_000, np.zeros(len(values), np.bool_)
    whole, rest = np.divmod(
        values, in_second // 1_000
    )  # the rest of a negative number is not negative
    return whole * 1_000, rest > 0


def are_within(times_us: NDArray[np.int64], intervals: Iterable[Interval]) -> NDArray[np.bool_]:
    """Return for each time whether one of the intervals holds it."""
    found = np.zeros(len(times_us), np.bool_)
    for one in intervals:
        found |= (times_us >= one.start_ms * 1000) & (times_us < one.end_ms * 1000)
    return found


# ------------------------------------------------------------------------------------- columns


def _column(column: pa.Array | None, wanted: ColumnType, rows: int, dimension: Any) -> pa.Array:
    """Return a column as the type that it must get."""
    if column is None or kinds.is_null(column.type):
        if wanted.is_sketch:
            raise _Engine
        return pa.nulls(rows, ARROW_TYPE[wanted])
    if wanted in ELEMENT_TYPES:
        is_kept = dimension is None or dimension.multi_value == "array"
        if not is_kept or not column.type.equals(ARROW_TYPE[wanted]):
            raise _Engine
        if wanted is ColumnType.STRING_ARRAY:
            column.validate(full=True)
        return column
    read = _READ.get(wanted)
    if read is None:
        raise _Engine
    return read(column)


def _string(column: pa.Array) -> pa.Array:
    kind = column.type
    if kinds.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if kinds.is_string(kind):
        column.validate(full=True)  # the engine refuses what is no UTF-8
        return column
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        column.validate(full=True)
        return column.cast(pa.string())
    if kinds.is_integer(kind) or kinds.is_boolean(kind):
        return column.cast(pa.string())
    raise _Engine


def _long(column: pa.Array) -> pa.Array:
    kind = column.type
    if kinds.is_int64(kind):
        return column
    if kinds.is_integer(kind) or kinds.is_boolean(kind):
        return column.cast(pa.int64())  # fails where it does not fit
    if kinds.is_float32(kind) or kinds.is_float64(
        kind
    ):  # pandas has no other whole numbers with nulls
        bounds = pc.min_max(column.cast(pa.float64()))
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and not -_EXACT_DOUBLE <= low <= high <= _EXACT_DOUBLE:
            raise _Engine
        return column.cast(pa.int64())  # fails where there is a fraction, or no number
    raise _Engine


def _double(column: pa.Array) -> pa.Array:
    kind = column.type
    if kinds.is_float64(kind):
        return column
    if kinds.is_float32(kind) or kinds.is_boolean(kind):
        return column.cast(pa.float64())
    if kinds.is_integer(kind):
        return column.cast(pa.float64())  # fails beyond what it has exactly
    raise _Engine


def _float(column: pa.Array) -> pa.Array:
    kind = column.type
    if kinds.is_float32(kind):
        return column
    if kinds.is_boolean(kind) or (kinds.is_integer(kind) and kind.bit_width <= 16):
        return column.cast(pa.float32())
    raise _Engine


def _boolean(column: pa.Array) -> pa.Array:
    if kinds.is_boolean(column.type):
        return column
    raise _Engine


_READ: dict[ColumnType, Callable[[pa.Array], pa.Array]] = {
    ColumnType.STRING: _string,
    ColumnType.LONG: _long,
    ColumnType.DOUBLE: _double,
    ColumnType.FLOAT: _float,
    ColumnType.BOOLEAN: _boolean,
}
