"""Rows of a rewrite on their way to the merge that ingestions use: as part rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carnac.core.quoting import quote
from carnac.core.segments.segment import TIME_COLUMN, ColumnType, Metric, MetricKind
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.errors import Corrupt, Invalid, InvariantError
from carnac.jobs.compact.read import EXACT_COLUMN, ReadPlan, conformed
from carnac.jobs.compact.shape import ReadUnit
from carnac.rows.duck import translated
from carnac.rows.normalise.shape import (
    ORDER_PREFIX,
    ROWS_COLUMN,
    InputColumn,
    RowShape,
)
from carnac.rows.value_codes import one_array


def as_parts(unit: ReadUnit, table: pa.Table) -> pa.Table:
    """Return rows that were read as part rows: states as lists of one, `__rows`, plain texts."""
    if unit.raw_shape is not None:
        return table  # `rolled_up` has made parts of them
    rows = np.ones(table.num_rows, np.int64) if unit.shape.is_rollup else None
    return _as_parts(unit.shape, table, rows)


def _as_parts(shape: RowShape, table: pa.Table, rows: Any) -> pa.Table:
    arrays, names = [], []
    sketches = {one.name for one in shape.metrics if one.type.is_sketch}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        array = one_array(column)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if name in sketches:
            lengths = array.is_valid().cast(pa.int32()).to_numpy(zero_copy_only=False)
            offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
            array = pa.ListArray.from_arrays(pa.array(offsets), array.drop_null())
        arrays.append(array)
        names.append(name)
    if rows is not None:
        arrays.append(pa.array(rows))
        names.append(ROWS_COLUMN)
    return pa.table(arrays, names=names)


def rolled_up(unit: ReadUnit, table: pa.Table) -> pa.Table:
    """Return raw rows as part rows of their input group, rolled up as far as this table goes.

    Raises:
        Invalid: A value or a sum does not fit into the type of a metric.
        Corrupt: The engine did not take all rows.
        InvariantError: The share is not one of raw rows.
    """
    if unit.raw_shape is None:
        raise InvariantError("rows that are read as they are have nothing to be rolled up to")
    parts = _as_raw_states(unit.raw_shape, table)
    if unit.raw_shape != unit.shape:
        parts = _as_states(unit.raw_shape, unit.shape, parts)
    if pc.sum(parts.column(ROWS_COLUMN)).as_py() != table.num_rows:
        raise Corrupt(f"the rollup of {table.num_rows} rows did not take all of them")
    return parts


def _as_states(raw_shape: RowShape, shape: RowShape, parts: pa.Table) -> pa.Table:
    """Return part rows of raw rows as those of the rolled-up rows that they are put together with: with sketches."""
    from carnac.rows.rollup import build_sketches

    rows = one_array(parts.column(ROWS_COLUMN))
    batch = pa.RecordBatch.from_arrays(
        [one_array(column) for column in parts.columns], names=parts.column_names
    )
    built = pa.table(build_sketches(raw_shape, batch))
    plan = ReadPlan(output_url="", columns=shape.segment_columns, truncate_to=None, chunks=())
    table = conformed(plan, built, dict(raw_shape.segment_columns))
    return _as_parts(shape, table, rows)


def _as_raw_states(shape: RowShape, table: pa.Table) -> pa.Table:
    """Return raw rows rolled up, through the SQL that ingestions use: lists of values in place of sketches.

    Raises:
        Invalid: A value or a sum does not fit into the type of a metric.
    """
    import duckdb

    from carnac.rows.rollup import part_sql

    ordered = [one.name for one in shape.metrics if one.kind in {MetricKind.FIRST, MetricKind.LAST}]
    single = replace(  # times have been truncated; the exact ones decide what is first and last
        shape,
        query_granularity="none",
        order_fields=tuple((name, EXACT_COLUMN) for name in ordered),
    )
    with translated("rolling raw rows up"), duckdb.connect(config={"threads": 1}) as con:
        con.execute("SET TimeZone = 'UTC'").complete()
        con.register("raw", table)
        columns = [quote("__time"), *map(quote, shape.dimension_names)]
        for column in single.input_columns:
            if column.name.startswith(ORDER_PREFIX):
                columns.append(f"{quote(column.field)} AS {quote(column.name)}")
                continue
            metric = next(one for one in shape.metrics if one.name == column.metric)
            if column.field == TIME_COLUMN:
                millis = f"{quote(EXACT_COLUMN)} // 1000"
                columns.append(f"CAST({millis} AS {SQL_TYPE[column.type]}) AS {quote(column.name)}")
                continue
            value = _value(metric, column, table.schema.field(column.field).type)
            _check_fits(con, metric, column, value)
            columns.append(f"{value} AS {quote(column.name)}")
        source = f"(SELECT {', '.join(columns)} FROM raw)"
        return con.sql(part_sql(single, source)).to_arrow_table()


def _value(metric: Metric, column: InputColumn, held: pa.DataType) -> str:
    """Return the SQL of what a raw row gives to a metric, as an ingestion coerces it: null where it does not fit.

    Args:
        held: Type of the input column, which may be another one than that of the metric.
    """
    value = quote(column.field)
    if metric.is_state or column.type.is_sketch:
        return value
    if column.type is ColumnType.LONG and pa.types.is_floating(held):
        value = f"trunc({value})"  # the whole part; a cast would round
    return f"TRY_CAST({value} AS {SQL_TYPE[column.type]})"


def _check_fits(con: Any, metric: Metric, column: InputColumn, value: str) -> None:
    """Refuse to lose a value: an ingestion would put its row into quarantine, which a rewrite does not have.

    Raises:
        Invalid: Some value of the column has no place in the metric's type.
    """
    field = quote(column.field)
    if value == field:
        return
    lost = f"SELECT count(*) FROM raw WHERE {field} IS NOT NULL AND {value} IS NULL"
    [(count,)] = con.sql(lost).fetchall()
    if count:
        raise Invalid(
            f"metric {metric.name} is a {metric.type}, which {count} values of column {column.field} are not"
            f" (not a number, or too large); use a double metric",
            metric=metric.name,
        )
