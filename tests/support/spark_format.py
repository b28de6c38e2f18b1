"""The format `carnac` as Spark drives it, without a JVM: each step gets what the one before left, pickled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.rows.segment_writer import ARROW_TYPE
from carnac.spark_format.source import CarnacSource
from carnac.store import Store

T = TypeVar("T")


def sent(thing: T) -> T:
    """Return a thing as another process gets it."""
    copy: T = cloudpickle.loads(cloudpickle.dumps(thing))
    return copy


def place_of(store: Store) -> str:
    """Return the folder of a local store."""
    path = store.deep_storage.local_path("x")
    assert path is not None
    return str(Path(path).parent.parent)


def source(of: Store, datasource: str, **options: object) -> CarnacSource:
    """Return the format for one DataFrame."""
    given = {"store": place_of(of), "path": datasource}
    given |= {name: str(value) for name, value in options.items()}
    return CarnacSource(CaseInsensitiveDict(given))


def schema_of(made: CarnacSource) -> StructType:
    """Return the schema that Spark makes of what the format says."""
    text = made.schema()
    kinds = {kind: arrow for kind, arrow in _ARROW.items() if kind in text}
    fields = []
    for part in text.split(", "):
        name, kind = part.strip().split("` ")
        fields.append((name.strip("`"), kinds[kind]))
    return from_arrow_schema(pa.schema(fields))


_ARROW = {
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "bigint": ARROW_TYPE[ColumnType.LONG],
    "double": ARROW_TYPE[ColumnType.DOUBLE],
    "float": ARROW_TYPE[ColumnType.FLOAT],
    "boolean": ARROW_TYPE[ColumnType.BOOLEAN],
    "binary": pa.binary(),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
    "array<double>": pa.list_(pa.float64()),
}


def frame(of: Store, datasource: str, **options: object) -> tuple[CarnacSource, StructType]:
    """Return a DataFrame as Spark keeps it: the format, once its schema is known."""
    made = source(of, datasource, **options)
    schema = schema_of(made)
    return sent(made), schema


def read_frame(
    made: tuple[CarnacSource, StructType],
) -> tuple[pa.Table, Sequence[InputPartition]]:
    """Run a DataFrame: return its rows and its partitions."""
    of, schema = made
    reader = sent(of).reader(schema)
    run = sent(reader.read)  # before the partitions are known, as Spark does
    partitions = reader.partitions()
    batches = [batch for one in partitions for batch in run(sent(one))]
    return pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC")), partitions


def write(
    of: Store,
    datasource: str,
    table: pa.Table,
    *,
    parts: int = 2,
    is_overwrite: bool = False,
    before_commit: Callable[[], object] | None = None,
    **options: object,
) -> None:
    """Write rows, a task for each part."""
    made = source(of, datasource, **options)
    writer = made.writer(from_arrow_schema(table.schema), is_overwrite)
    messages: list[Any] = [
        sent(sent(writer).write(iter(part.to_batches()))) for part in in_parts(table, parts)
    ]
    if before_commit is not None:
        before_commit()
    sent(writer).commit(messages)


def in_parts(table: pa.Table, parts: int) -> list[pa.Table]:
    """Return a table in so many parts, some of them perhaps empty."""
    size = -(-table.num_rows // parts)
    return [table.slice(start * size, size) for start in range(parts)]


def rows(table: pa.Table) -> list[str]:
    """Return rows in an order of their own."""
    return sorted(map(repr, table.select(sorted(table.column_names)).to_pylist()))


def sql_rows(store: Store, datasource: str, at: int | None = None) -> pa.Table:
    """Return all rows of a datasource as its SQL shows them."""
    names = ", ".join(f'"{name}"' for name in (TIME_COLUMN, *store.columns(datasource, at=at)))
    return store.sql(f"SELECT {names} FROM {datasource}", at=at).arrow()
