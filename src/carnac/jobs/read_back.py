"""A Spark DataFrame over the segments of a revision.

Spark gets the list of files and reads them with its own Parquet reader, at full speed and with its own column pruning
and filter pushdown. Files of one schema and one clip are read together; schemas are united by name from the records,
so no footer is opened on the driver. Spark compares nothing with a checksum: our tasks do before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from carnac.core.quoting import quote_for_spark
from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import ELEMENT_TYPES, TIME_COLUMN, ColumnType, Segment
from carnac.core.time.intervals import IntervalSet
from carnac.errors import Invalid
from carnac.ports import SegmentInput
from carnac.rows.normalise.shape import ORDER_PREFIX
from carnac.rows.output import local_root

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SPARK_TYPE: Mapping[ColumnType, str] = {
    ColumnType.STRING: "string",
    ColumnType.LONG: "bigint",
    ColumnType.DOUBLE: "double",
    ColumnType.FLOAT: "float",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.JSON: "string",
    ColumnType.STRING_ARRAY: "array<string>",
    ColumnType.LONG_ARRAY: "array<bigint>",
    ColumnType.DOUBLE_ARRAY: "array<double>",
    ColumnType.HLL: "binary",
    ColumnType.THETA: "binary",
    ColumnType.QUANTILES: "binary",
}
"""Spark's names for column types."""

TIME_TYPE = "timestamp_ltz"
"""An instant, whatever a session takes `timestamp` for (`spark.sql.timestampType`)."""
_READING = {
    "__globPaths__": "false",  # paths are no patterns
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}
"""Options of Spark with which all files are read, whatever a session or a cluster is set to."""
_PATTERN = re.compile(r"[\[\]{}*?\\]")
"""In a path: Spark 4.3 takes it for a pattern, and for each one that it has of these it lists all paths again."""
_NO_FILE_SYSTEM = re.compile(r"Class [\w.$]*FileSystem not found|No FileSystem for scheme")

_Group = tuple[tuple[tuple[str, ColumnType], ...], IntervalSet | None]


def frame_of(
    session: SparkSession,
    inputs: Sequence[SegmentInput],
    output_url: str,
    *,
    columns: Mapping[str, ColumnType] | None = None,
) -> DataFrame:
    """Return a DataFrame over the visible rows of `inputs`; reads nothing yet.

    Columns: `__time` (timestamp, not null), then `columns` (None: the united columns of the segments; see
    `SPARK_TYPE`), without the hidden columns of `first` and `last` metrics. Rows: those that the clips show, in no
    order.

    Raises:
        Invalid: There is nothing to read and `columns` is None, so there is no schema; or the columns of two segments
            cannot be united; or Spark lacks the classes to read the object store.
    """
    if not inputs and columns is None:
        raise Invalid(
            "there are no rows at that revision and interval, so a DataFrame has no columns"
        )
    united = columns
    if united is None:
        united = unite_columns(source.segment.columns for source in inputs)
    wanted = {name: kind for name, kind in united.items() if not name.startswith(ORDER_PREFIX)}
    groups: dict[_Group, list[str]] = defaultdict(list)
    for source in inputs:
        clip = None if source.visible == IntervalSet((source.segment.span,)) else source.visible
        groups[_schema(source.segment), clip].append(_url(output_url, source.segment))
    if not groups:
        fields = ", ".join(
            f"{quote_for_spark(name)} {SPARK_TYPE[kind]}" for name, kind in wanted.items()
        )
        declared = f"{TIME_COLUMN} {TIME_TYPE}" + (f", {fields}" if fields else "")
        return session.createDataFrame([], declared)
    with _file_system_there(output_url):
        frames = [
            _select(session, paths, dict(schema), clip, wanted)
            for (schema, clip), paths in groups.items()
        ]
    return reduce(lambda left, right: left.unionByName(right), frames)


@contextmanager
def _file_system_there(output_url: str) -> Iterator[None]:
    """Say in one sentence that the JVM cannot open the object store: all else reads it without the JVM."""
    try:
        yield
    except Exception as error:
        if not _NO_FILE_SYSTEM.search(str(error)):
            raise
        raise Invalid(
            f"Spark itself lacks the classes to read {output_url}; add Hadoop's package for it in the version of"
            " Spark's Hadoop, for S3 by spark_conf 'spark.jars.packages' = 'org.apache.hadoop:hadoop-aws:…'"
        ) from error


def _schema(segment: Segment) -> tuple[tuple[str, ColumnType], ...]:
    return tuple((column.name, column.type) for column in segment.columns)


def _select(
    session: SparkSession,
    paths: Sequence[str],
    schema: Mapping[str, ColumnType],
    clip: IntervalSet | None,
    wanted: Mapping[str, ColumnType],
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    fields = ", ".join(
        f"{quote_for_spark(name)} {SPARK_TYPE[kind]}" for name, kind in schema.items()
    )
    declared = f"{TIME_COLUMN} {TIME_TYPE}" + (f", {fields}" if fields else "")
    read = session.read.options(**_READING).schema(declared).parquet
    if len(paths) > 1 and any(_PATTERN.search(path) for path in paths):
        frame = reduce(lambda left, right: left.union(right), map(read, paths))
    else:
        frame = read(*paths)
    if clip is not None:
        frame = frame.where(_within(clip))
    columns = [
        _cast(F.col(quote_for_spark(name)), schema[name], kind).alias(name)
        if name in schema
        else F.lit(None).cast(SPARK_TYPE[kind]).alias(name)
        for name, kind in wanted.items()
    ]
    return frame.select(F.col(TIME_COLUMN), *columns)


def _within(clip: IntervalSet) -> Column:
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    time = F.col(TIME_COLUMN)
    return reduce(
        lambda left, right: left | right,
        [
            (time >= F.timestamp_millis(F.lit(piece.start_ms)))
            & (time < F.timestamp_millis(F.lit(piece.end_ms)))
            for piece in clip
        ],
    )


def _cast(column: Column, own: ColumnType, wanted: ColumnType) -> Column:
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    if own is wanted:
        return column
    if wanted in ELEMENT_TYPES and own not in ELEMENT_TYPES:
        inner = column.cast(SPARK_TYPE[ELEMENT_TYPES[wanted]])
        return F.when(column.isNotNull(), F.array(inner))
    return column.cast(SPARK_TYPE[wanted])


def _url(output_url: str, segment: Segment) -> str:
    root = local_root(output_url)
    if root is not None:
        return f"file://{root}/{segment.path}"
    # Hadoop's name for S3 differs from everybody else's.
    return f"{output_url.rstrip('/')}/{segment.path}".replace("s3://", "s3a://", 1)
