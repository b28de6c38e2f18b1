"""What the rows of a rewrite become: inputs that can share segments are put together, with the shape of their rows.

Raw rows and rolled-up rows never share a segment, nor do rows whose metrics mean different things. So a rewrite works
on *families* of inputs, each of which becomes segments of its own, and never has to refuse a mixture. Columns are
united by name, types upwards; a dimension that a segment lacks is null there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from carnac.core.compaction.families import Blend, Kin, find_families, kin_of, truncated
from carnac.core.compaction.filtering import filter_of
from carnac.core.compaction.groups import CompactionTarget
from carnac.core.granularity import NONE, parse_granularity
from carnac.core.schemas import unite_columns
from carnac.core.segments import (
    TIME_COLUMN,
    ColumnType,
    Metric,
    MetricKind,
    RollupSpec,
)
from carnac.errors import Invalid
from carnac.pipeline.shape import DimensionShape, RowShape
from carnac.ports import SegmentInput

_NUMERIC = frozenset({ColumnType.LONG, ColumnType.DOUBLE, ColumnType.FLOAT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Inputs whose rows can share segments. Picklable.

    Attributes:
        shape: Of the rows that are written. Sketch metrics take states, since that is what segments hold.
        truncates: Times are to be truncated to the shape's query granularity.
        rolls_up_raw: The inputs are raw and the outputs are not.
        recorded_metrics: As the segments' records shall have them.
        condition: In Spark SQL: which rows are kept; None: all.
        elsewhere: Columns that the family lacks and others of the rewrite have: a condition may name them.
    """

    inputs: tuple[SegmentInput, ...]
    shape: RowShape
    truncates: bool
    rolls_up_raw: bool
    recorded_metrics: tuple[Metric, ...]
    condition: str | None = None
    elsewhere: tuple[tuple[str, ColumnType], ...] = ()

    @property
    def input_columns(self) -> tuple[tuple[str, ColumnType], ...]:
        """All columns that the inputs hold, types united."""
        united = unite_columns(source.segment.columns for source in self.inputs)
        return tuple(united.items())

    def rollup_spec(self, *, is_perfect: bool) -> RollupSpec | None:
        """Return how the written segments are rolled up, for their records."""
        spec = self.shape.rollup_spec(is_perfect=is_perfect)
        return None if spec is None else replace(spec, metrics=self.recorded_metrics)


def plan_families(inputs: Sequence[SegmentInput], target: CompactionTarget) -> tuple[Family, ...]:
    """Return the inputs in families.

    Raises:
        Invalid: A step would lose something and the target does not allow it, or the target names a column that
            there is not.
    """
    ordered = sorted(inputs, key=lambda one: (one.segment.created_at_ms, one.segment.segment_id))
    kins = [truncated(kin_of(source.segment), target) for source in ordered]
    groups: dict[int, _Members] = {}
    for source, kin, number in zip(ordered, kins, find_families(kins), strict=True):
        if number in groups:
            groups[number].add(source, kin)
        else:
            groups[number] = _Members(source, kin)
    families = tuple(_family(group, target) for group in groups.values())
    if target.filter is None:
        return families
    return tuple(_with_condition(family, families, target.filter) for family in families)


def _with_condition(family: Family, families: Sequence[Family], condition: str) -> Family:
    if all(filter_of(source.segment) == condition for source in family.inputs):
        return family  # done before, and maybe with columns that are gone
    own = {name for name, _ in family.input_columns}
    others = {
        name: kind for other in families for name, kind in other.input_columns if name not in own
    }
    return replace(family, condition=condition, elsewhere=tuple(others.items()))


class _Members:
    """A family in the making."""

    def __init__(self, source: SegmentInput, kin: Kin) -> None:
        self.inputs = [source]
        self.granularity = kin.query_granularity
        self.is_rollup = kin.is_rollup
        self._blend = Blend(kin)

    def add(self, source: SegmentInput, kin: Kin) -> None:
        self.inputs.append(source)
        self._blend.add(kin)

    @property
    def dimensions(self) -> Mapping[str, ColumnType]:
        """Dimensions with united types; of raw segments, all columns."""
        return self._blend.dimensions

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics with united types."""
        return tuple(self._blend.metrics.values())


def _family(group: _Members, target: CompactionTarget) -> Family:
    inputs = tuple(group.inputs)
    truncates = any(
        parse_granularity(source.segment.query_granularity) != parse_granularity(group.granularity)
        for source in inputs
    )
    rolls_up_raw = target.metrics is not None and not group.is_rollup
    metrics = target.metrics or () if rolls_up_raw else group.metrics
    used = {metric.input for metric in metrics} | {metric.name for metric in metrics}
    kept = _kept(group, target, used if rolls_up_raw else set())
    _check_loss(group, target, kept, used, truncates=truncates, rolls_up_raw=rolls_up_raw)
    shape = RowShape(
        dimensions=tuple(DimensionShape(name=name, type=group.dimensions[name]) for name in kept),
        metrics=metrics if rolls_up_raw else tuple(map(_as_state, metrics)),
        query_granularity=group.granularity,
        is_rollup=group.is_rollup or rolls_up_raw,
    )
    return Family(
        inputs=inputs,
        shape=replace(
            shape,
            sort_columns=_sort_columns(inputs, shape, target),
            absent=_absent(shape, target),
        ),
        truncates=truncates and parse_granularity(group.granularity) != NONE,
        rolls_up_raw=rolls_up_raw,
        recorded_metrics=metrics,
    )


def _kept(group: _Members, target: CompactionTarget, used: set[str | None]) -> tuple[str, ...]:
    known = group.dimensions
    if target.dimensions is None:
        return tuple(name for name in known if name not in used)
    return tuple(name for name in target.dimensions if name in known)


def _as_state(metric: Metric) -> Metric:
    return replace(metric, is_state=True) if metric.type.is_sketch else metric


def _check_loss(
    group: _Members,
    target: CompactionTarget,
    kept: Sequence[str],
    used: set[str | None],
    *,
    truncates: bool,
    rolls_up_raw: bool,
) -> None:
    datasource = group.inputs[0].segment.datasource
    if rolls_up_raw:
        missing = sorted(
            metric.input
            for metric in target.metrics or ()
            if metric.input is not None and metric.input not in group.dimensions
        )
        if missing:
            raise Invalid(
                f"metrics need column {', '.join(missing)}, which {datasource} does not have"
            )
        _check_numbers(group, target)
    losses = []
    if truncates:
        losses.append(f"truncates times to {group.granularity}")
    dropped = sorted(set(group.dimensions) - set(kept) - used)
    if dropped:
        losses.append(f"leaves out column {', '.join(dropped)}")
    if rolls_up_raw:
        losses.append("rolls raw rows up")
    if target.filter is not None:
        losses.append("leaves out rows")
    if losses and not target.allow_lossy:
        raise Invalid(
            f"this rewrite of {datasource} {' and '.join(losses)}, which cannot be undone; "
            f"set allowLossy if that is meant",
            datasource=datasource,
        )


def _check_numbers(group: _Members, target: CompactionTarget) -> None:
    """Refuse to calculate with columns of another kind: the largest of texts is not the largest number."""
    for metric in target.metrics or ():
        if metric.input is None:
            continue
        held = group.dimensions[metric.input]
        needs = metric.type in _NUMERIC or metric.kind is MetricKind.QUANTILES
        if needs and held not in {*_NUMERIC, ColumnType.BOOLEAN}:
            raise Invalid(
                f"metric {metric.name} calculates with column {metric.input}, which holds {held}, not numbers; "
                f"declare the column's type where it is ingested"
            )


def _absent(shape: RowShape, target: CompactionTarget) -> tuple[str, ...]:
    """Return what rows are to be partitioned by and do not have: it counts as null, as in Druid.

    Raises:
        Invalid: It is a metric, or the time.
    """
    absent = [name for name in target.partitioning.dimensions if name not in shape.dimension_names]
    for name in absent:
        if name == TIME_COLUMN or name in {column for column, _ in shape.segment_columns}:
            raise Invalid(f"rows cannot be partitioned by '{name}', which is no dimension")
    return tuple(absent)


def _sort_columns(
    inputs: Sequence[SegmentInput], shape: RowShape, target: CompactionTarget
) -> tuple[str, ...]:
    """Return by what rows are sorted: as told, else as most rows of the inputs are."""
    present = {TIME_COLUMN, *(name for name, _ in shape.segment_columns)}
    wanted = target.sort_by
    if wanted is None:
        votes: Counter[tuple[str, ...]] = Counter()
        for source in inputs:
            votes[source.segment.sort_columns] += source.segment.rows
        wanted = max(votes, key=lambda columns: (votes[columns], columns))
    known = tuple(name for name in wanted if name in present)
    return known or (TIME_COLUMN, *shape.dimension_names)
