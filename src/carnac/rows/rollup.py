"""Rollup as SQL: from normalised rows to parts, from parts to segment rows. Pure text, no engine.

Metrics treat nulls as Druid does since its nulls are SQL's (`druid.generic.useDefaultValueForNull=false`). `count`
counts rows, whatever they hold. `sum`, `min`, `max` and sketches ignore nulls, and are null if there is nothing else.
`first` and `last` do not ignore nulls (Source: Druid's pull request 9161): the earliest (latest) row decides, also if
its value is null.

We depart from Druid in two ways. Among rows with the same instant, chance does not decide `first` and `last`: the
smallest (largest) value does, and a value before a null. A sum of longs beyond 64 bits is an error; Druid wraps around.

A sketch is not built in pass 1: its partial state is the list of its input values (distinct ones for `hll` and
`theta`), which is smaller than the sketch for small groups; `carnac.rows.rollup` builds sketches at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from carnac.core.quoting import quote
from carnac.core.segments.segment import TIME_COLUMN, ColumnType, Metric, MetricKind
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.core.time.granularity import BUCKET_LIMIT, NONE, Granularity, parse_granularity
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid
from carnac.rows.normalise.shape import (
    INPUT_PREFIX,
    ORDER_PREFIX,
    ROWS_COLUMN,
    RowShape,
)


def build_sketches(shape: RowShape, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with sketches in place of lists.

    Raises:
        Invalid: A state cannot be read as a sketch of its type.
    """
    for metric in shape.metrics:
        if metric.type.is_sketch:
            index = rows.schema.get_field_index(metric.name)
            rows = rows.set_column(index, metric.name, _sketches(metric, rows.column(index)))
    return rows


def _sketches(metric: Metric, lists: pa.ListArray) -> pa.Array:
    """Return one sketch for each list; null for null and for empty lists."""
    from carnac import sketches

    params = dict(metric.params)
    values = _values(metric, lists)
    act = sketches.merge if metric.is_state else sketches.build
    offsets = np.diff(lists.offsets.to_numpy())
    ends = np.cumsum(offsets)
    built: list[bytes | None] = [
        act(metric.kind, values[end - length : end], params) if length else None
        for end, length in zip(ends.tolist(), offsets.tolist(), strict=True)
    ]
    return pa.array(built, pa.binary())


def _values(metric: Metric, lists: pa.ListArray) -> Any:
    """Return the elements of all lists, one after the other: numpy numbers, or a Python list."""
    flat = lists.flatten()
    if metric.type is ColumnType.QUANTILES and not metric.is_state:
        return flat.to_numpy(zero_copy_only=False)
    return flat.to_pylist()


OVERFLOW_MARK = "carnac-overflow:"
"""Begins the message of the engine's error when a sum does not fit; the metric's name follows."""

_TIME = quote(TIME_COLUMN)
_MICROS = f"epoch_us({_TIME})"
_LIMITS = {
    ColumnType.LONG: ("-9223372036854775808", "9223372036854775807"),
    ColumnType.FLOAT: ("-3.4028234663852886e38", "3.4028234663852886e38"),
}


# ---------------------------------------------------------------------------------------- time


def _truncated(source: str, granularity: Granularity, span: Interval | None) -> tuple[str, str]:
    """Return (FROM item, SQL of the truncated time) for rows of `source`."""
    if granularity.mode == "all":
        return source, f"make_timestamptz({granularity.bucket(0).start_ms * 1000})"
    length_ms = granularity.fixed_ms
    if length_ms is not None:
        return source, f"make_timestamptz({_floor(length_ms * 1000, granularity.origin_ms * 1000)})"
    if span is None:
        raise Invalid(f"truncation to {granularity} needs the range of times; give a span")
    starts = ", ".join(
        f"{bucket.start_ms * 1000}::BIGINT"
        for bucket in granularity.buckets(span, limit=BUCKET_LIMIT)
    )
    joined = (
        f"(SELECT * FROM {source} AS r ASOF JOIN (SELECT unnest([{starts}]) AS __start) AS b"
        f" ON epoch_us(r.{_TIME}) >= b.__start)"
    )
    return joined, "make_timestamptz(__start)"


def _floor(length_us: int, origin_us: int) -> str:
    """Return the start of the bucket as microseconds; right for times before the origin too."""
    if not origin_us % length_us:
        rest = f"(({_MICROS} % {length_us}) + {length_us}) % {length_us}"
    else:
        shifted = f"({_MICROS} - {origin_us % length_us})"
        rest = f"(({shifted} % {length_us}) + {length_us}) % {length_us}"
    return f"{_MICROS} - {rest}"


# --------------------------------------------------------------------------------------- parts


def part_sql(
    shape: RowShape, source: str, *, span: Interval | None = None, keys: tuple[str, ...] = ()
) -> str:
    """Return a query that makes part rows of normalised rows; the one that pass 1 runs for each group of rows.

    With rollup it groups; without it, it maps every row. Columns: `keys`, `__time` (truncated), the dimensions, the
    metrics (`__at_` columns beside `first` and `last`; lists of input values in place of sketches) and, with rollup,
    `__rows`. The order of rows is undefined.

    Args:
        source: A table name or a parenthesised query that yields normalised rows.
        span: Holds the time of every row; needed only to truncate to buckets of no fixed length (months, zones).
        keys: Further columns of the source by which rows stay apart, such as the number of the time chunk. Time is
            truncated without regard to chunks; `merge_sql` puts it back into its chunk.

    Raises:
        Invalid: The granularity has too many buckets in `span`.
    """
    item, time = _truncated(source, parse_granularity(shape.query_granularity), span)
    kept = [*map(quote, keys), f"{time} AS {_TIME}", *map(quote, shape.dimension_names)]
    if not shape.is_rollup:
        values = [_single(metric) for metric in shape.metrics]
        return f"SELECT {', '.join([*kept, *values])} FROM {item}"
    states = [state for metric in shape.metrics for state in _partial(shape, metric)]
    states.append(f"count(*) AS {quote(ROWS_COLUMN)}")
    groups = [*map(quote, keys), time, *map(quote, shape.dimension_names)]
    return f"SELECT {', '.join([*kept, *states])} FROM {item} GROUP BY {', '.join(groups)}"


def _single(metric: Metric) -> str:
    """Return the metric of one row alone."""
    name, value = quote(metric.name), _input(metric)
    if metric.kind is MetricKind.COUNT and metric.input is None:
        return f"CAST(1 AS BIGINT) AS {name}"
    if metric.type.is_sketch:
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE [{value}] END AS {name}"
    return f"{value} AS {name}"


def _partial(shape: RowShape, metric: Metric) -> list[str]:
    name, value = quote(metric.name), _input(metric)
    match metric.kind:
        case MetricKind.COUNT if metric.input is None:
            return [f"count(*) AS {name}"]
        case MetricKind.COUNT | MetricKind.SUM:
            return [f"{_sum(metric, value)} AS {name}"]
        case MetricKind.MIN | MetricKind.MAX:
            return [f"{metric.kind}({value}) AS {name}"]
        case MetricKind.FIRST | MetricKind.LAST:
            has_own_order = any(metric.name == other for other, _ in shape.order_fields)
            at = quote(ORDER_PREFIX + metric.name) if has_own_order else _MICROS
            return _ordered(metric, value, at)
        case MetricKind.HLL | MetricKind.THETA if not metric.is_state:
            return [f"list(DISTINCT {value}) FILTER (WHERE {value} IS NOT NULL) AS {name}"]
        case _:
            return [f"list({value}) FILTER (WHERE {value} IS NOT NULL) AS {name}"]


def _input(metric: Metric) -> str:
    """Return the SQL of a metric's input in normalised rows."""
    value = quote(INPUT_PREFIX + metric.name)
    limit = dict(metric.params).get("max_bytes")
    if limit is None:
        return value
    shorter = ", ".join(f"try(decode(encode({value})[1:{limit - cut}]))" for cut in range(4))
    return f"(CASE WHEN strlen({value}) <= {limit} THEN {value} ELSE coalesce({shorter}) END)"


def _sum(metric: Metric, value: str) -> str:
    """Return the sum; it fails with `OVERFLOW_MARK` where it does not fit into the metric's type."""
    limits = _LIMITS.get(metric.type)
    if limits is None:
        return f"sum({value})"
    message = (OVERFLOW_MARK + metric.name).replace("'", "''")
    fits = f"sum({value}) BETWEEN {limits[0]} AND {limits[1]}"
    if metric.type is ColumnType.FLOAT:
        fits += f" OR NOT isfinite(sum({value}))"
    kind = SQL_TYPE[metric.type]
    return (
        f"CASE WHEN {fits} THEN CAST(sum({value}) AS {kind})"
        f" WHEN sum({value}) IS NULL THEN NULL ELSE CAST(error('{message}') AS {kind}) END"
    )


def _ordered(metric: Metric, value: str, at: str) -> list[str]:
    """Return value and instant of the first or last row, which one aggregate finds as the least or largest triple."""
    is_first = metric.kind is MetricKind.FIRST
    aggregate, absent = ("min", "IS NULL") if is_first else ("max", "IS NOT NULL")
    triple = f"{{'at': {at}, 'n': {value} {absent}, 'v': {value}}}"
    best = f"{aggregate}({triple}) FILTER (WHERE {at} IS NOT NULL)"
    return [
        f"({best}).v AS {quote(metric.name)}",
        f"({best}).at AS {quote(ORDER_PREFIX + metric.name)}",
    ]


# --------------------------------------------------------------------------------------- merge


def merge_sql(shape: RowShape, source: str, *, not_before_ms: int | None = None) -> str:
    """Return a query that makes rows of segments (lists in place of sketches, and `__rows`) of part rows.

    Without rollup it selects them as they are. `merge_sql` of `part_sql` of all rows equals `merge_sql` of the union
    of `part_sql` of any division of them, but for the last bits of sums of floats.

    Args:
        not_before_ms: Start of the time chunk: a bucket of the query granularity that begins before it counts as
            beginning there (as in Druid), so that no row leaves its chunk. None: leave times as they are.
    """
    time = _TIME
    if not_before_ms is not None and may_leave_chunk(shape, not_before_ms):
        time = f"greatest({_TIME}, make_timestamptz({not_before_ms * 1000}))"
    dimensions = [quote(name) for name in shape.dimension_names]
    if not shape.is_rollup:
        columns = [f"{time} AS {_TIME}", *dimensions, *(quote(m.name) for m in shape.metrics)]
        return f"SELECT {', '.join(columns)} FROM {source}"
    states = [state for metric in shape.metrics for state in _merged(metric)]
    states.append(f"CAST(sum({quote(ROWS_COLUMN)}) AS BIGINT) AS {quote(ROWS_COLUMN)}")
    groups = ", ".join([time, *dimensions])
    columns = [f"{time} AS {_TIME}", *dimensions, *states]
    return f"SELECT {', '.join(columns)} FROM {source} GROUP BY {groups}"


def may_leave_chunk(shape: RowShape, start_ms: int) -> bool:
    """Whether truncation may have put rows of a chunk before its start."""
    granularity = parse_granularity(shape.query_granularity)
    return granularity != NONE and not granularity.is_boundary(start_ms)


def _merged(metric: Metric) -> list[str]:
    name = quote(metric.name)
    match metric.kind:
        case MetricKind.COUNT | MetricKind.SUM:
            return [f"{_sum(metric, name)} AS {name}"]
        case MetricKind.MIN | MetricKind.MAX:
            return [f"{metric.kind}({name}) AS {name}"]
        case MetricKind.FIRST | MetricKind.LAST:
            return _ordered(metric, name, quote(ORDER_PREFIX + metric.name))
        case _:
            union = f"flatten(list({name}) FILTER (WHERE {name} IS NOT NULL))"
            if metric.kind is not MetricKind.QUANTILES and not metric.is_state:
                union = f"list_distinct({union})"
            return [f"{union} AS {name}"]
