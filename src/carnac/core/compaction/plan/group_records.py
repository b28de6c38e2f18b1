"""Compaction groups as JSON, for the specs of tasks. Names are camelCase; what is None or empty is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from carnac.core.compaction.plan.groups import (
    DEFAULT_TARGET_ROWS,
    CompactionGroup,
    CompactionTarget,
    GroupKind,
    Partitioning,
    PartitionKind,
)
from carnac.core.segments.segment import ColumnType, Metric, MetricKind
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid

Json: TypeAlias = dict[str, object]

_GROUP_FIELDS = frozenset(
    {"id", "dataSource", "kind", "interval", "segments", "target", "rows", "sizeBytes", "revision"}
)
_TARGET_FIELDS = frozenset(
    {
        "targetRows",
        "targetBytes",
        "partitioning",
        "sortBy",
        "segmentGranularity",
        "queryGranularity",
        "dimensions",
        "metrics",
        "filter",
        "allowLossy",
    }
)


def group_to_json(group: CompactionGroup) -> Json:
    """Return the group as JSON."""
    record: Json = {
        "id": group.group_id,
        "dataSource": group.datasource,
        "kind": group.kind.value,
        "interval": [group.interval.start_ms, group.interval.end_ms],
        "segments": list(group.segment_ids),
        "target": target_to_json(group.target),
        "rows": group.rows,
        "sizeBytes": group.size_bytes,
        "revision": group.revision,
    }
    return {name: value for name, value in record.items() if value not in (None, [], {}, 0)}


def group_from_json(record: Mapping[str, object]) -> CompactionGroup:
    """Return the group that `group_to_json` wrote.

    Raises:
        Invalid: It is none; names the field.
    """
    _check_fields("compaction group", record, _GROUP_FIELDS)
    try:
        start_ms, end_ms = cast("list[int]", record["interval"])
        return CompactionGroup(
            group_id=str(record["id"]),
            datasource=str(record["dataSource"]),
            kind=GroupKind(str(record["kind"])),
            interval=Interval(int(start_ms), int(end_ms)),
            segment_ids=_texts(record.get("segments")) or (),
            target=target_from_json(cast("Json", record.get("target", {}))),
            rows=_number(record.get("rows")) or 0,
            size_bytes=_number(record.get("sizeBytes")) or 0,
            revision=_number(record.get("revision")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid(f"a compaction group is not written as it should be: {error!r}") from None


def target_to_json(target: CompactionTarget) -> Json:
    """Return the target as JSON; defaults are left out."""
    partitioning: Json = {
        "type": target.partitioning.kind,
        "dimensions": list(target.partitioning.dimensions),
        "buckets": target.partitioning.buckets,
    }
    record: Json = {
        "targetRows": target.target_rows if target.target_rows != DEFAULT_TARGET_ROWS else None,
        "targetBytes": target.target_bytes,
        "partitioning": (
            None
            if target.partitioning == Partitioning()
            else {name: value for name, value in partitioning.items() if value not in (None, [])}
        ),
        "sortBy": None if target.sort_by is None else list(target.sort_by),
        "segmentGranularity": target.segment_granularity,
        "queryGranularity": target.query_granularity,
        "dimensions": None if target.dimensions is None else list(target.dimensions),
        "metrics": None
        if target.metrics is None
        else [_dump_metric(one) for one in target.metrics],
        "filter": target.filter,
        "allowLossy": target.allow_lossy or None,
    }
    return {name: value for name, value in record.items() if value is not None}


def target_from_json(record: Mapping[str, object]) -> CompactionTarget:
    """Return the target that `target_to_json` wrote.

    Raises:
        Invalid: It is none; names the field.
    """
    _check_fields("compaction target", record, _TARGET_FIELDS)
    try:
        block = cast("Json", record.get("partitioning", {}))
        return CompactionTarget(
            target_rows=_number(record.get("targetRows")) or DEFAULT_TARGET_ROWS,
            target_bytes=_number(record.get("targetBytes")),
            partitioning=Partitioning(
                kind=_partition_kind(block.get("type", "dynamic")),
                dimensions=_texts(block.get("dimensions")) or (),
                buckets=_number(block.get("buckets")),
            ),
            sort_by=_texts(record.get("sortBy")),
            segment_granularity=_text(record.get("segmentGranularity")),
            query_granularity=_text(record.get("queryGranularity")),
            dimensions=_texts(record.get("dimensions")),
            metrics=_metrics(record.get("metrics")),
            filter=_text(record.get("filter")),
            allow_lossy=bool(record.get("allowLossy", False)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Invalid(f"a compaction target is not written as it should be: {error!r}") from None


def _partition_kind(value: object) -> PartitionKind:
    if value not in ("dynamic", "hashed", "range"):
        raise ValueError(f"there is no partitioning of type {value}")
    return value


def _number(value: object) -> int | None:
    if value is not None and not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(values: object) -> tuple[str, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list of texts")
    return tuple(str(value) for value in values)


def _dump_metric(metric: Metric) -> Json:
    record: Json = {
        "name": metric.name,
        "kind": metric.kind.value,
        "input": metric.input,
        "type": metric.type.value,
        "params": dict(metric.params),
        "isState": metric.is_state or None,
    }
    return {name: value for name, value in record.items() if value not in (None, {})}


def _metrics(values: object) -> tuple[Metric, ...] | None:
    if values is None:
        return None
    return tuple(
        Metric(
            name=str(value["name"]),
            kind=MetricKind(str(value["kind"])),
            input=_text(value.get("input")),
            type=ColumnType(str(value["type"])),
            params=tuple(sorted(cast("dict[str, int]", value.get("params", {})).items())),
            is_state=bool(value.get("isState", False)),
        )
        for value in cast("list[Json]", values)
    )


def _check_fields(what: str, record: Mapping[str, object], known: frozenset[str]) -> None:
    if not isinstance(record, Mapping):
        raise Invalid(f"a {what} is a JSON object")
    unknown = sorted(set(record) - known)
    if unknown:
        raise Invalid(f"a {what} has no field {', '.join(unknown)}")
