"""Records of segments and of schemas: see `records` for how all records are written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring as _quote

from carnac.core.segments.lateness import LATENESSES, LateRows
from carnac.core.segments.record_form import RECORD_FORMAT
from carnac.core.segments.record_form import dump_scalar as _dump_scalar
from carnac.core.segments.record_form import dumps as _dumps
from carnac.core.segments.record_form import guard as _guard
from carnac.core.segments.record_form import interval as _interval
from carnac.core.segments.record_form import load_record as _load
from carnac.core.segments.record_form import loads as _loads
from carnac.core.segments.record_form import require_empty as _require_empty
from carnac.core.segments.record_form import scalar as _scalar
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
from carnac.core.segments.strict_json import Json
from carnac.core.segments.strict_json import boolean as _bool
from carnac.core.segments.strict_json import items as _list
from carnac.core.segments.strict_json import members as _object
from carnac.core.segments.strict_json import text as _str
from carnac.core.segments.strict_json import texts as _strings
from carnac.core.segments.strict_json import whole_number as _int

_TYPES = {str(member): member for member in ColumnType}
_KINDS = {str(member): member for member in MetricKind}
_SCALARS = frozenset({str, int, float, bool, type(None)})
_COLUMNS, _AFTER_COLUMNS = '"columns":[', '],"queryGranularity":'
"""Where the columns of a segment begin and end in its record."""


def dump_segment(segment: Segment) -> str:
    """Return the record of a segment."""
    record: Json = {
        "recordFormat": RECORD_FORMAT,
        "segmentId": segment.segment_id,
        "datasource": segment.datasource,
        "chunk": [segment.chunk.start_ms, segment.chunk.end_ms],
        "path": segment.path,
        "sizeBytes": segment.size_bytes,
        "rows": segment.rows,
        "inputRows": segment.input_rows,
        "minTimeMs": segment.min_time_ms,
        "maxTimeMs": segment.max_time_ms,
        "columns": (),
        "queryGranularity": segment.query_granularity,
        "checksum": segment.checksum,
        "rowHash": segment.row_hash,
        "createdAtMs": segment.created_at_ms,
    }
    if segment.sort_columns:
        record["sortColumns"] = segment.sort_columns
    if segment.rollup is not None:
        record["rollup"] = _dump_rollup(segment.rollup)
    if segment.partition is not None:
        record["partition"] = _dump_partition(segment.partition)
    if segment.attributes:
        record["attributes"] = {
            name: _dump_scalar(value) for name, value in segment.attributes.items()
        }
    if segment.late is not None:
        record["late"] = _dump_late(segment.late)
    head, _, tail = _dumps(record).partition(f"{_COLUMNS}]")  # quotes in values are escaped
    return f"{head}{_COLUMNS}{','.join(map(_dump_column, segment.columns))}]{tail}"


def load_segment(text: str) -> Segment:
    """Return the segment of a record.

    Raises:
        Corrupt: The record is damaged, or was written by a newer Carnac.
    """
    return _load("segment", text, _segment)


def load_stored_segment(text: str) -> Segment:
    """Return the segment of a record that is in the store; its columns are decoded when they are first asked for.

    They are most of the text, and lists of segments, plans and ledgers never look at them.

    Raises:
        Corrupt: As of `load_segment`; for damage in the columns, when they are asked for.
    """
    start, end = text.find(_COLUMNS), text.find(_AFTER_COLUMNS)  # quotes in values are escaped
    if not 0 <= start < end:
        return load_segment(text)
    start += len(_COLUMNS) - 1
    segment = _load("segment", f"{text[:start]}[]{text[end + 1 :]}", _segment)
    segment.leave_columns(_load_columns, text[start : end + 1])
    return segment


def _load_columns(text: str) -> tuple[Column, ...]:
    return _guard(
        "segment's columns",
        text,
        lambda: tuple([_column(item) for item in _list(_loads(text))]),
    )


def _segment(record: Json) -> Segment:
    take = record.pop
    segment = Segment(
        segment_id=_str(take("segmentId")),
        datasource=_str(take("datasource")),
        chunk=_interval(take("chunk")),
        path=_str(take("path")),
        size_bytes=_int(take("sizeBytes")),
        rows=_int(take("rows")),
        input_rows=_int(take("inputRows")),
        min_time_ms=_int(take("minTimeMs")),
        max_time_ms=_int(take("maxTimeMs")),
        columns=tuple([_column(item) for item in _list(take("columns"))]),
        sort_columns=_strings(take("sortColumns", ())),
        query_granularity=_str(take("queryGranularity")),
        rollup=_rollup(take("rollup")) if "rollup" in record else None,
        partition=_partition(take("partition")) if "partition" in record else None,
        checksum=_str(take("checksum")),
        row_hash=_int(take("rowHash")),
        created_at_ms=_int(take("createdAtMs")),
        attributes={
            name: _scalar(value) for name, value in _object(take("attributes", {})).items()
        },
        late=_late(take("late")) if "late" in record else None,
    )
    _require_empty(record)
    return segment


def _dump_late(late: LateRows) -> Json:
    record: Json = {
        "rows": {
            str(name): count for name, count in zip(LATENESSES, late.counts, strict=True) if count
        }
    }
    if late.is_folded:
        record["isFolded"] = True
    return record


def _late(value: object) -> LateRows:
    record = _object(value)
    rows = _object(record.pop("rows"))
    late = LateRows(
        counts=tuple([_int(rows.pop(name, 0)) for name in LATENESSES]),
        is_folded=_bool(record.pop("isFolded", False)),
    )
    _require_empty(rows)
    _require_empty(record)
    return late


def _dump_column(column: Column) -> str:
    """Return the text of a column: the hot path of writing, most of a record is its columns."""
    text = _dump_head(column.name, column.type)
    nulls, low, high = column.null_count, column.min_value, column.max_value
    if nulls is not None:
        text += f',"nullCount":{_dump_value(nulls)}'
    if low is not None:
        text += f',"min":{_dump_value(low)}'
    if high is not None:
        text += f',"max":{_dump_value(high)}'
    return f"{text}}}"


@lru_cache(maxsize=4096)
def _dump_head(name: str, kind: ColumnType) -> str:
    return _dumps({"name": name, "type": kind})[:-1]


def _dump_value(value: Scalar) -> str:
    if type(value) is str:
        return _quote(value)
    return str(value) if type(value) is int else _dumps(_dump_scalar(value))


def _column(item: object) -> Column:
    if type(item) is not dict:  # the hot path of reading: hardly any calls, no field is taken out
        raise TypeError(f"{item!r} is not an object")
    find = item.get
    name, nulls, low, high = item["name"], find("nullCount"), find("min"), find("max")
    if type(low) is dict:
        low = _scalar(low)
    if type(high) is dict:
        high = _scalar(high)
    if (
        len(item) != 2 + (nulls is not None) + (low is not None) + (high is not None)
        or type(name) is not str
        or type(low) not in _SCALARS
        or type(high) not in _SCALARS
        or (nulls is not None and type(nulls) is not int)
    ):
        raise ValueError(f"{item!r} is not a column")
    return Column(
        name=name, type=_TYPES[item["type"]], null_count=nulls, min_value=low, max_value=high
    )


def dump_schema(columns: Sequence[Column]) -> str:
    """Return names and types of columns, without their statistics: equal texts are equal schemas."""
    return _dump_pairs(tuple([(column.name, column.type) for column in columns]))


@lru_cache(maxsize=1024)
def _dump_pairs(pairs: tuple[tuple[str, ColumnType], ...]) -> str:
    return _dumps(pairs)


def load_schema(text: str) -> tuple[Column, ...]:
    """Return the columns, without statistics, that `dump_schema` wrote.

    Raises:
        Corrupt: The text is damaged.
    """

    def build(value: object) -> tuple[Column, ...]:
        pairs = [_strings(pair) for pair in _list(value)]
        return tuple(Column(name=name, type=_TYPES[kind]) for name, kind in pairs)

    return _guard("schema", text, lambda: build(_loads(text)))


def _dump_rollup(rollup: RollupSpec) -> Json:
    return {
        "queryGranularity": rollup.query_granularity,
        "dimensions": rollup.dimensions,
        "metrics": [_dump_metric(metric) for metric in rollup.metrics],
        "isPerfect": rollup.is_perfect,
    }


def _rollup(value: object) -> RollupSpec:
    record = _object(value)
    rollup = RollupSpec(
        query_granularity=_str(record.pop("queryGranularity")),
        dimensions=_strings(record.pop("dimensions")),
        metrics=tuple(_metric(item) for item in _list(record.pop("metrics"))),
        is_perfect=_bool(record.pop("isPerfect")),
    )
    _require_empty(record)
    return rollup


def _dump_metric(metric: Metric) -> Json:
    record: Json = {"name": metric.name, "kind": metric.kind.value, "type": metric.type.value}
    if metric.input is not None:
        record["input"] = metric.input
    if metric.params:
        record["params"] = dict(metric.params)
    if metric.is_state:
        record["isState"] = True
    return record


def _metric(value: object) -> Metric:
    record = _object(value)
    metric = Metric(
        name=_str(record.pop("name")),
        kind=_KINDS[_str(record.pop("kind"))],
        input=_str(record.pop("input")) if "input" in record else None,
        type=_TYPES[_str(record.pop("type"))],
        params=tuple(
            (name, _int(size)) for name, size in _object(record.pop("params", {})).items()
        ),
        is_state=_bool(record.pop("isState", False)),
    )
    _require_empty(record)
    return metric


def _dump_partition(partition: Partition) -> Json:
    if isinstance(partition, HashedPartition):
        return {
            "type": "hashed",
            "dimensions": partition.dimensions,
            "bucket": partition.bucket,
            "buckets": partition.buckets,
            "function": partition.function,
        }
    return {
        "type": "range",
        "dimensions": partition.dimensions,
        "start": _dump_bound(partition.start),
        "end": _dump_bound(partition.end),
    }


def _partition(value: object) -> Partition:
    record = _object(value)
    kind = record.pop("type")
    dimensions = _strings(record.pop("dimensions"))
    partition: Partition
    if kind == "hashed":
        partition = HashedPartition(
            dimensions=dimensions,
            bucket=_int(record.pop("bucket")),
            buckets=_int(record.pop("buckets")),
            function=_str(record.pop("function")),
        )
    elif kind == "range":
        partition = RangePartition(
            dimensions=dimensions,
            start=_bound(record.pop("start")),
            end=_bound(record.pop("end")),
        )
    else:
        raise ValueError(f"partition type {kind!r}")
    _require_empty(record)
    return partition


def _dump_bound(bound: tuple[Scalar, ...] | None) -> list[object] | None:
    return None if bound is None else [_dump_scalar(value) for value in bound]


def _bound(value: object) -> tuple[Scalar, ...] | None:
    return None if value is None else tuple(_scalar(item) for item in _list(value))
