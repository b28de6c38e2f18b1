"""Records of segments and of schemas: see `record_form` for how all records are written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Raw, field
from msgspec.json import Decoder

from carnac.core.segments.lateness import LATENESSES, Lateness, LateRows
from carnac.core.segments.record_form import (
    RECORD_FORMAT,
    Record,
    StoredRecord,
    Written,
    dumps,
    load,
    read_scalar,
    write_scalar,
)
from carnac.core.segments.segment import (
    Column,
    ColumnType,
    HashedPartition,
    Metric,
    MetricKind,
    Partition,
    RangePartition,
    RollupSpec,
    Scalar,
    Segment,
)
from carnac.core.time.intervals import Interval

UNNAMED_ROW_HASH = 3
"""The version of the row hash of a record that names none. It stays 3, whatever version is computed now."""


class _Column(Record):
    name: str
    type: ColumnType
    null_count: int | None = None
    min: Written = None
    max: Written = None


class MetricRecord(Record):
    """The record of a metric: its parameters are an object."""

    name: str
    kind: MetricKind
    type: ColumnType
    input: str | None = None
    params: dict[str, int] = field(default_factory=dict)
    is_state: bool = False


class _Rollup(Record):
    query_granularity: str
    dimensions: tuple[str, ...]
    metrics: list[MetricRecord]
    is_perfect: bool


class _Hashed(Record, tag_field="type", tag="hashed"):
    dimensions: tuple[str, ...]
    bucket: int
    buckets: int
    function: str


class _Range(Record, tag_field="type", tag="range"):
    dimensions: tuple[str, ...]
    start: list[Written] | None
    end: list[Written] | None


class _Late(Record):
    rows: dict[Lateness, int]
    is_folded: bool = False


class _Segment(StoredRecord):
    segment_id: str
    datasource: str
    chunk: tuple[int, int]
    path: str
    size_bytes: int
    rows: int
    input_rows: int
    min_time_ms: int
    max_time_ms: int
    columns: Raw
    """Most of a record, and rarely wanted: `_COLUMNS` decodes them."""
    query_granularity: str
    checksum: str
    row_hash: int
    created_at_ms: int
    row_hash_version: int = UNNAMED_ROW_HASH
    blocks: str = ""
    sort_columns: tuple[str, ...] = ()
    rollup: _Rollup | None = None
    partition: _Hashed | _Range | None = None
    attributes: dict[str, Written] = field(default_factory=dict)
    late: _Late | None = None


_SEGMENT = Decoder(_Segment)
_COLUMNS = Decoder(list[_Column])
_SCHEMA = Decoder(list[tuple[str, ColumnType]])


def dump_segment(segment: Segment) -> str:
    """Return the record of a segment."""
    columns = [
        _Column(
            name=one.name,
            type=one.type,
            null_count=one.null_count,
            min=write_scalar(one.min_value),
            max=write_scalar(one.max_value),
        )
        for one in segment.columns
    ]
    rollup, partition, late = segment.rollup, segment.partition, segment.late
    return dumps(
        _Segment.of(
            segment,
            record_format=RECORD_FORMAT,
            chunk=(segment.chunk.start_ms, segment.chunk.end_ms),
            columns=Raw(dumps(columns)),
            rollup=None
            if rollup is None
            else _Rollup.of(rollup, metrics=write_metrics(rollup.metrics)),
            partition=None if partition is None else _write_partition(partition),
            attributes={name: write_scalar(value) for name, value in segment.attributes.items()},
            late=None if late is None else _write_late(late),
        )
    )


def load_segment(text: str) -> Segment:
    """Return the segment of a record.

    Raises:
        Corrupt: The record is damaged, or was written by a newer Carnac.
    """
    segment = load_stored_segment(text)
    _ = segment.columns
    return segment


def load_stored_segment(text: str) -> Segment:
    """Return the segment of a record that is in the store; its columns are decoded when they are first asked for.

    Lists of segments, plans and ledgers never look at them.

    Raises:
        Corrupt: As of `load_segment`; for damage in the columns, when they are asked for.
    """
    return load("segment", text, _SEGMENT, _segment)


def _segment(record: _Segment) -> Segment:
    rollup, partition, late = record.rollup, record.partition, record.late
    segment = record.to(
        Segment,
        chunk=Interval(*record.chunk),
        columns=(),
        rollup=None
        if rollup is None
        else rollup.to(RollupSpec, metrics=read_metrics(rollup.metrics)),
        partition=None if partition is None else _read_partition(partition),
        attributes={name: read_scalar(value) for name, value in record.attributes.items()},
        late=None if late is None else _read_late(late),
    )
    segment.leave_columns(_load_columns, bytes(record.columns))
    return segment


def _load_columns(text: bytes) -> tuple[Column, ...]:
    return load("segment's columns", text, _COLUMNS, _columns)


def _columns(records: list[_Column]) -> tuple[Column, ...]:
    return tuple(
        [
            Column(
                name=one.name,
                type=one.type,
                null_count=one.null_count,
                min_value=read_scalar(one.min),
                max_value=read_scalar(one.max),
            )
            for one in records
        ]
    )


def dump_schema(columns: Sequence[Column]) -> str:
    """Return names and types of columns, without their statistics: equal texts are equal schemas."""
    return _dump_pairs(tuple([(column.name, column.type) for column in columns]))


@lru_cache(maxsize=1024)
def _dump_pairs(pairs: tuple[tuple[str, ColumnType], ...]) -> str:
    return dumps(pairs)


def load_schema(text: str) -> tuple[Column, ...]:
    """Return the columns, without statistics, that `dump_schema` wrote.

    Raises:
        Corrupt: The text is damaged.
    """
    return load(
        "schema", text, _SCHEMA, lambda pairs: tuple(Column(name=n, type=kind) for n, kind in pairs)
    )


def write_metrics(metrics: Sequence[Metric]) -> list[MetricRecord]:
    """Return the records of metrics."""
    return [MetricRecord.of(one, params=dict(one.params)) for one in metrics]


def read_metrics(records: Sequence[MetricRecord]) -> tuple[Metric, ...]:
    """Return the metrics of records."""
    return tuple(one.to(Metric, params=tuple(sorted(one.params.items()))) for one in records)


def _write_partition(partition: Partition) -> _Hashed | _Range:
    if isinstance(partition, HashedPartition):
        return _Hashed.of(partition)
    start, end = _write_bound(partition.start), _write_bound(partition.end)
    return _Range.of(partition, start=start, end=end)


def _read_partition(record: _Hashed | _Range) -> Partition:
    if isinstance(record, _Hashed):
        return record.to(HashedPartition)
    return record.to(RangePartition, start=_read_bound(record.start), end=_read_bound(record.end))


def _write_bound(bound: tuple[Scalar, ...] | None) -> list[Written] | None:
    return None if bound is None else [write_scalar(value) for value in bound]


def _read_bound(record: list[Written] | None) -> tuple[Scalar, ...] | None:
    return None if record is None else tuple(read_scalar(value) for value in record)


def _write_late(late: LateRows) -> _Late:
    rows = {name: count for name, count in zip(LATENESSES, late.counts, strict=True) if count}
    return _Late(rows=rows, is_folded=late.is_folded)


def _read_late(record: _Late) -> LateRows:
    return LateRows(
        counts=tuple(record.rows.get(name, 0) for name in LATENESSES), is_folded=record.is_folded
    )
