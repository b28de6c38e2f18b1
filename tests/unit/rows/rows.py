"""What the tests of the pipeline's tail share: shapes, rows, part files, and a naive rollup to compare with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from carnac.core.segments.segment import TIME_COLUMN, ColumnType, Metric, MetricKind, Segment
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval
from carnac.rows.duck import connect, translated
from carnac.rows.merge import merge_parts
from carnac.rows.merge_task import MergeTask, Part
from carnac.rows.normalise.shape import DimensionShape, RowShape
from carnac.rows.parts import CHUNK_COLUMN, PartFiles
from carnac.rows.rollup import part_sql
from carnac.rows.segment_writer import ARROW_TYPE, TIME_TYPE
from carnac.specs.ingest.layout import DynamicPartitions

DAY_MS = 86_400_000
CHUNK = Interval(0, DAY_MS)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = Mapping[str, Any]


def dimensions(**types: str) -> tuple[DimensionShape, ...]:
    return tuple(DimensionShape(name=name, type=ColumnType(kind)) for name, kind in types.items())


def metric(name: str, kind: str, kind_of_value: str, **more: Any) -> Metric:
    source = None if kind == "count" else f"field of {name}"
    return Metric(
        **{
            "name": name,
            "kind": MetricKind(kind),
            "input": source,
            "type": ColumnType(kind_of_value),
            **more,
        }
    )


def at(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def normalised(shape: RowShape, rows: Sequence[Row]) -> pa.Table:
    """Return rows, `__time` in ms, as the normalised rows of a shape."""
    columns = {TIME_COLUMN: pa.array([row[TIME_COLUMN] * 1000 for row in rows], TIME_TYPE)}
    for name, kind in shape.normalised_columns:
        columns[name] = pa.array([row.get(name) for row in rows], ARROW_TYPE[kind])
    return pa.table(columns)


def write_part(folder: Path, shape: RowShape, rows: Sequence[Row]) -> Part:
    """Write one part file of some rows, as pass 1 does."""
    span = Interval(
        min((row[TIME_COLUMN] for row in rows), default=0),
        max((row[TIME_COLUMN] for row in rows), default=0) + 1,
    )
    with (
        translated("pass 1"),
        connect(temp_dir=str(folder / "spill"), memory_bytes=1 << 28) as con,
    ):
        con.register("source", normalised(shape, rows))
        query = part_sql(shape, "source", span=span)
        return write_table(folder, con.sql(query).to_arrow_table())


def write_table(folder: Path, rows: pa.Table) -> Part:
    """Write one part file of part rows."""
    name = f"part-{len(list(folder.rglob('part-*')))}"
    numbered = rows.append_column(CHUNK_COLUMN, pa.array([0] * rows.num_rows, pa.int32()))
    with PartFiles(str(folder), (CHUNK,), name=name) as files:
        for batch in numbered.to_batches():
            files.add(batch)
    (part,) = files.parts
    return part


def task(folder: Path, shape: RowShape, parts: Iterable[Part], **more: Any) -> MergeTask:
    return MergeTask(
        **{
            "datasource": "events",
            "parts": tuple(parts),
            "shape": shape,
            "chunk": CHUNK,
            "partitions": DynamicPartitions(),
            "output_url": (folder / "store").as_uri(),
            "path_prefix": "events/1970",
            "id_prefix": "abc",
            "created_at_ms": 7,
            "temp_dir": str(folder / "temp"),
            **more,
        }
    )


def ingest(folder: Path, shape: RowShape, groups: Sequence[Sequence[Row]], **more: Any) -> Any:
    """Write one part for each group of rows, merge them, and return the segments."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [write_part(folder, shape, rows) for rows in groups if rows]
    return merge_parts(task(folder, shape, parts, **more))


def read(folder: Path, segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """Return the rows of segments in order, `__time` in ms."""
    rows: list[dict[str, Any]] = []
    for segment in segments:
        for row in pq.read_table(folder / "store" / segment.path).to_pylist():
            row[TIME_COLUMN] = (row[TIME_COLUMN] - EPOCH) // timedelta(milliseconds=1)
            rows.append(row)
    return rows


def naive_rollup(shape: RowShape, rows: Sequence[Row]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return metrics by (bucket start, dimensions), sketches left out, computed one row at a time."""
    granularity = parse_granularity(shape.query_granularity)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        start = max(granularity.bucket(row[TIME_COLUMN]).start_ms, CHUNK.start_ms)
        key = (start, *(row.get(name) for name in shape.dimension_names))
        groups.setdefault(key, []).append(row)
    return {
        key: {m.name: _naive(m, members) for m in shape.metrics if not m.type.is_sketch}
        for key, members in groups.items()
    }


def _naive(one: Metric, rows: Sequence[Row]) -> Any:
    field = f"__in_{one.name}"
    values = [row[field] for row in rows if row.get(field) is not None]
    match one.kind:
        case MetricKind.COUNT:
            return len(rows)
        case MetricKind.SUM:
            return sum(values) if values else None
        case MetricKind.MIN:
            return min(values, default=None)
        case MetricKind.MAX:
            return max(values, default=None)
        case MetricKind.FIRST:
            earliest = min(row[TIME_COLUMN] for row in rows)
            tied = [row.get(field) for row in rows if row[TIME_COLUMN] == earliest]
            return min((value for value in tied if value is not None), default=None)
        case _:
            latest = max(row[TIME_COLUMN] for row in rows)
            tied = [row.get(field) for row in rows if row[TIME_COLUMN] == latest]
            return max((value for value in tied if value is not None), default=None)


def with_sort(shape: RowShape, *names: str) -> RowShape:
    return replace(shape, sort_columns=names)
