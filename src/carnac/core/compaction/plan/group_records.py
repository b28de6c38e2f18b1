"""Compaction groups as JSON, for the specs of tasks. Names are camelCase; a field that is None or empty is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar, cast

from msgspec import ValidationError, convert, field, to_builtins

from carnac.core.compaction.plan.groups import (
    DEFAULT_TARGET_ROWS,
    CompactionGroup,
    CompactionTarget,
    GroupKind,
    Partitioning,
    PartitionKind,
)
from carnac.core.segments.record import MetricRecord, read_metrics, write_metrics
from carnac.core.segments.record_form import Record
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid

Json: TypeAlias = dict[str, object]
Kind = TypeVar("Kind", bound=Record)


class _Partitioning(Record):
    kind: PartitionKind = field(default="dynamic", name="type")
    dimensions: tuple[str, ...] = ()
    buckets: int | None = None


class _Target(Record):
    target_rows: int = DEFAULT_TARGET_ROWS
    target_bytes: int | None = None
    partitioning: _Partitioning | None = None
    sort_by: tuple[str, ...] | None = None
    segment_granularity: str | None = None
    query_granularity: str | None = None
    dimensions: tuple[str, ...] | None = None
    metrics: list[MetricRecord] | None = None
    filter: str | None = None
    allow_lossy: bool = False


class _Group(Record):
    kind: GroupKind
    interval: tuple[int, int]
    group_id: str = field(name="id")
    datasource: str = field(name="dataSource")
    segment_ids: tuple[str, ...] = field(default=(), name="segments")
    target: _Target | None = None
    rows: int = 0
    size_bytes: int = 0
    revision: int | None = None


def group_to_json(group: CompactionGroup) -> Json:
    """Return the group as JSON."""
    target = None if group.target == CompactionTarget() else _write_target(group.target)
    interval = (group.interval.start_ms, group.interval.end_ms)
    return cast("Json", to_builtins(_Group.of(group, interval=interval, target=target)))


def group_from_json(record: Mapping[str, object]) -> CompactionGroup:
    """Return the group that `group_to_json` wrote.

    Raises:
        Invalid: It is none; names the field.
    """
    group = _read("group", record, _Group)
    target = CompactionTarget() if group.target is None else _read_target(group.target)
    return group.to(CompactionGroup, interval=Interval(*group.interval), target=target)


def target_from_json(record: Mapping[str, object]) -> CompactionTarget:
    """Return the target that the JSON of a group or of a spec gives.

    Raises:
        Invalid: It is none; names the field.
    """
    return _read_target(_read("target", record, _Target))


def target_to_json(target: CompactionTarget) -> Json:
    """Return the JSON of a target."""
    return cast("Json", to_builtins(_write_target(target)))


def _write_target(target: CompactionTarget) -> _Target:
    is_plain = target.partitioning == Partitioning()
    return _Target.of(
        target,
        partitioning=None if is_plain else _Partitioning.of(target.partitioning),
        metrics=None if target.metrics is None else write_metrics(target.metrics),
    )


def _read_target(record: _Target) -> CompactionTarget:
    given = record.partitioning
    return record.to(
        CompactionTarget,
        partitioning=Partitioning() if given is None else given.to(Partitioning),
        metrics=None if record.metrics is None else read_metrics(record.metrics),
    )


def _read(what: str, record: object, kind: type[Kind]) -> Kind:
    try:
        return convert(record, kind)
    except ValidationError as error:
        text = (
            str(error).replace("`", "").replace("Object contains unknown field", "it has no field")
        )
        raise Invalid(f"a compaction {what} is not written as it should be: {text}") from None
