"""Rows of a rewrite on their way to the merge that ingestions use: as part rows, in local part files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from carnac.core.intervals import Interval
from carnac.core.segments import MetricKind
from carnac.errors import Corrupt
from carnac.pipeline.compact_read import EXACT_COLUMN, micros, within
from carnac.pipeline.compact_shape import Family
from carnac.pipeline.segment_writer import one_array
from carnac.pipeline.shape import INPUT_PREFIX, ORDER_PREFIX, ROWS_COLUMN, RowShape, quote


class Stage:
    """Local part files of the rows of a family, one for each time chunk."""

    def __init__(self, family: Family, chunks: Sequence[Interval], folder: Path) -> None:
        self._family = family
        self._chunks = chunks
        self._folder = folder
        self._writers: dict[Interval, pq.ParquetWriter] = {}

    def __enter__(self) -> Stage:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.close()

    def add(self, table: pa.Table) -> None:
        """Write rows, as `as_parts` makes them of what was read."""
        parts = as_parts(self._family, table)
        times = None if len(self._chunks) == 1 else micros(parts)
        for chunk in self._chunks:
            mine = parts if times is None else parts.filter(pa.array(within(times, [chunk])))
            if mine.num_rows:
                self._writer(chunk, mine.schema).write_table(mine)

    def parts(self) -> Iterator[tuple[Interval, str]]:
        """Yield chunk and path of every part file, in order of time."""
        for chunk in self._chunks:
            if chunk in self._writers:
                yield chunk, str(self._path(chunk))

    def _writer(self, chunk: Interval, schema: pa.Schema) -> pq.ParquetWriter:
        if chunk not in self._writers:
            self._writers[chunk] = pq.ParquetWriter(
                self._path(chunk), schema, compression="lz4", store_schema=True
            )
        return self._writers[chunk]

    def _path(self, chunk: Interval) -> Path:
        return self._folder / f"part-{chunk.start_ms}.parquet"


def as_parts(family: Family, table: pa.Table, *, keeps_words: bool = False) -> pa.Table:
    """Return rows that were read as part rows: states as lists of one, `__rows`, plain texts unless `keeps_words`."""
    if family.rolls_up_raw:
        return table  # `as_raw_states` has made parts of them
    arrays, names = [], []
    sketches = {one.name for one in family.shape.metrics if one.type.is_sketch}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        array = one_array(column)
        if pa.types.is_dictionary(array.type) and not keeps_words:
            array = array.dictionary_decode()
        if name in sketches:
            lengths = array.is_valid().cast(pa.int32()).to_numpy(zero_copy_only=False)
            offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
            array = pa.ListArray.from_arrays(pa.array(offsets), array.drop_null())
        arrays.append(array)
        names.append(name)
    if family.shape.is_rollup:
        arrays.append(pa.array(np.ones(table.num_rows, np.int64)))
        names.append(ROWS_COLUMN)
    return pa.table(arrays, names=names)


def as_raw_states(shape: RowShape, table: pa.Table) -> pa.Table:
    """Return raw rows rolled up as far as this table goes, through the SQL that ingestions use.

    Raises:
        Corrupt: The engine did not take all rows.
    """
    import duckdb

    from carnac.pipeline.rollup import part_sql

    ordered = [one.name for one in shape.metrics if one.kind in {MetricKind.FIRST, MetricKind.LAST}]
    single = replace(  # times have been truncated; the exact ones decide what is first and last
        shape,
        query_granularity="none",
        order_fields=tuple((name, EXACT_COLUMN) for name in ordered),
    )
    columns = [quote("__time"), *map(quote, shape.dimension_names)]
    for column in single.input_columns:
        metric = next(one for one in shape.metrics if one.name == column.metric)
        value = quote(column.field)
        if column.name.startswith(ORDER_PREFIX):
            columns.append(f"{value} AS {quote(column.name)}")
            continue
        if metric.kind in {MetricKind.HLL, MetricKind.THETA} and not metric.is_state:
            value = f"CAST({value} AS VARCHAR)"
        elif metric.kind is MetricKind.QUANTILES and not metric.is_state:
            value = f"CAST({value} AS DOUBLE)"
        columns.append(f"{value} AS {quote(INPUT_PREFIX + metric.name)}")
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("SET TimeZone = 'UTC'").complete()
        con.register("raw", table)
        source = f"(SELECT {', '.join(columns)} FROM raw)"
        parts = con.sql(part_sql(single, source)).to_arrow_table()
    if pc.sum(parts.column(ROWS_COLUMN)).as_py() != table.num_rows:
        raise Corrupt(f"the rollup of {table.num_rows} rows did not take all of them")
    return parts
