"""The first half of the front end of `spark_rows`: files become typed columns that Spark's expressions can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from carnac.core.quoting import quote
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.jobs.ingest.read_pass import PassOne, SplitTask
from carnac.rows.duck import translated
from carnac.rows.normalise.coerce import Field
from carnac.rows.normalise.projection import prepare, time_cell
from carnac.rows.normalise.shape import (
    INPUT_PREFIX,
    ORDER_PREFIX,
    DimensionShape,
    RowShape,
)
from carnac.rows.parts import open_staged
from carnac.rows.read.columnar import describe
from carnac.rows.read.discover import SeenFields, type_of
from carnac.rows.read.far_times import held_rows
from carnac.rows.read.reading import ReadCounts, load_rows
from carnac.rows.read.rejections import Rejections
from carnac.spark.progress import Tally
from carnac.spark.tasks import attempt_number
from carnac.specs.ingest.schema import TimestampSpec

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.specs.ingest.transforms import Transforms

PARSED_TIME = TimestampSpec(column=TIME_COLUMN, format="auto")
"""How the second half reads the time that this half parsed."""
BATCH_ROWS = 1 << 16
_EMPTY_SHAPE = RowShape(dimensions=())
_FRAME = "__carnac_frame"


def parse_shape(
    shape: RowShape, transforms: Transforms, seen: SeenFields, declared: Mapping[str, str]
) -> RowShape:
    """Return the shape of the first half's rows: inputs of expressions, and columns that need none.

    Args:
        declared: Types that the spec gives to fields.
    """
    made = set(transforms.made)
    dimensions = {one.name: one for one in shape.dimensions if one.name not in made}
    for name in sorted(transforms.inputs & seen.kinds.keys() - dimensions.keys() - {TIME_COLUMN}):
        kind = declared.get(name)
        column_type = type_of(seen.kinds[name]) if kind is None else ColumnType(kind)
        dimensions[name] = DimensionShape(name=name, type=column_type, multi_value="array")
    for name, one in dimensions.items():
        has_arrays = any(kind.endswith("[]") for kind in seen.kinds.get(name, ()))
        if one.type is ColumnType.STRING and has_arrays:
            dimensions[name] = replace(one, type=ColumnType.STRING_ARRAY)
        if name in transforms.inputs:  # values are sorted when they are stored, not before
            dimensions[name] = replace(dimensions[name], multi_value="array")
    return replace(
        shape,
        dimensions=tuple(dimensions.values()),
        metrics=tuple(metric for metric in shape.metrics if metric.input not in made),
        order_fields=tuple(pair for pair in shape.order_fields if pair[1] not in made),
        is_rollup=False,
        query_granularity="none",
        sort_columns=(),
    )


def load_parsed_shape(shape: RowShape, transforms: Transforms) -> RowShape:
    """Return the job's shape with the inputs of metrics called as the first half calls them."""
    made = set(transforms.made)
    return replace(
        shape,
        metrics=tuple(
            metric
            if metric.input is None or metric.input in made
            else replace(metric, input=INPUT_PREFIX + metric.name)
            for metric in shape.metrics
        ),
        order_fields=tuple(
            (metric, field if field in made else ORDER_PREFIX + metric)
            for metric, field in shape.order_fields
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The findings of one attempt at parsing; left in the staging folder for the second half."""

    counts: ReadCounts
    rejections: Rejections


def parse_split(shape: RowShape, tally: Tally) -> Callable[[SplitTask], Iterator[pa.RecordBatch]]:
    """Return the function that gives the rows of a task which could be parsed; it runs in a task of Spark."""

    def run(task: SplitTask) -> Iterator[pa.RecordBatch]:
        common, number = task.common, attempt_number()
        with common.connect() as con:
            parsed, relation = parsed_rows(con, task, shape, f"{task.index}-{number}")
            tally.add(rows=parsed.counts.rows_read, rejected=parsed.rejections.count)
            save_parsed(common, number, parsed)
            yield from con.sql(f"FROM {relation}").to_arrow_reader(BATCH_ROWS)

    return run


def parsed_rows(
    con: duckdb.DuckDBPyConnection, task: SplitTask, shape: RowShape, name: str
) -> tuple[Parsed, str]:
    """Parse the files of a task; return the findings, and the rows as a FROM item.

    The values that order `first` and `last` are numbers here; the returned rows have them as times.

    Args:
        name: Name of the file of rejected rows, unique in the job.
    """
    common = task.common
    read = replace(task.read, scratch_dir=common.scratch_dir(), within=None)
    counts = load_rows(con, read, shape)
    rejections = common.keep_rejected(con, counts, name)
    orders = [one for one, _ in shape.normalised_columns if one.startswith(ORDER_PREFIX)]
    instants = ", ".join(f"make_timestamptz({quote(one)}) AS {quote(one)}" for one in orders)
    parsed = Parsed(counts=counts, rejections=rejections)
    return parsed, f"(SELECT * REPLACE ({instants}) FROM rows)" if orders else "rows"


def save_parsed(common: PassOne, number: int, parsed: Parsed) -> None:
    """Leave what an attempt saw where the second half of the same attempt finds it."""
    with open_staged(_parsed_path(common, number)) as file:
        file.write(msgspec.json.encode(parsed))


def load_parsed(common: PassOne, number: int) -> Parsed:
    """Return what the first half of this attempt saw."""
    import fsspec

    with fsspec.open(_parsed_path(common, number), "rb") as file:
        return msgspec.json.decode(file.read(), type=Parsed)


def _parsed_path(common: PassOne, number: int) -> str:
    return f"{common.cut.staging_url}/parsed/{number}.json"


def add_time(
    common: PassOne, timestamp: TimestampSpec
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` that adds `__time` to typed rows, null where it cannot be read."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with common.connect(threads=1) as con:
            prepare(con, _EMPTY_SHAPE)
            con.execute("SET preserve_insertion_order = true").complete()
            for batch in batches:
                yield from _with_time(con, batch, timestamp)

    return run


def _with_time(
    con: duckdb.DuckDBPyConnection, batch: pa.RecordBatch, timestamp: TimestampSpec
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    table = pa.Table.from_batches([held_rows(batch)])
    con.register(_FRAME, table)
    kinds = describe(con, _FRAME)
    field = Field(kind="absent")
    if timestamp.column in kinds:
        kind = str(kinds[timestamp.column])
        field = Field(kind="typed", sql=quote(timestamp.column), sql_type=kind)
    value = time_cell(field, quote(TIME_COLUMN), timestamp).value
    with translated("reading the timestamps"):
        times = con.sql(f"SELECT {value} AS {quote(TIME_COLUMN)} FROM {_FRAME}").to_arrow_table()
    con.unregister(_FRAME)
    others = [name for name in table.schema.names if name != TIME_COLUMN]
    merged = table.select(others).append_column(TIME_COLUMN, times.column(TIME_COLUMN))
    yield from merged.combine_chunks().to_batches()
