"""The shape of a rewrite's rows: inputs that can share segments are put together, with the shape of their rows.

Raw rows and rolled-up rows never share a segment, nor do rows whose metrics mean different things. So a rewrite works
on *input groups*, each of which becomes segments of its own, and never has to refuse a mixture. Raw rows that the
target rolls up are of one input group with rows that have been rolled up like that before: each kind is a *read unit*
of the input group, read in its own way. Columns are united by name, types upwards; a dimension that a segment lacks is
null there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.input_groups import (
    Blend,
    Kin,
    find_input_groups,
    kin_of,
    rewritten,
)
from carnac.core.compaction.plan.notes import filter_of
from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import (
    NUMBER_TYPES,
    TIME_COLUMN,
    ColumnType,
    Metric,
    MetricKind,
    RollupSpec,
)
from carnac.core.time.granularity import NONE, parse_granularity
from carnac.errors import Invalid
from carnac.ports import SegmentInput
from carnac.rows.normalise.shape import DimensionShape, RowShape

Columns: TypeAlias = tuple[tuple[str, ColumnType], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUnit:
    """Inputs of an input group that are read alike. Picklable.

    Attributes:
        shape: Shape of the rows that the input group writes.
        raw_shape: Shape that raw inputs are rolled up to as they are read. It is that of the input group if this is its
            only unit; else their rows are brought to the shape of the input group afterwards. None: rows are read as
            they are written.
        truncates: Whether times are truncated to the shape's query granularity.
        condition: Condition in Spark SQL for the rows to keep; None: all.
        elsewhere: Columns that the inputs lack and others of the rewrite have; a condition may name them.
    """

    inputs: tuple[SegmentInput, ...]
    shape: RowShape
    raw_shape: RowShape | None
    truncates: bool
    condition: str | None = None
    elsewhere: Columns = ()

    @property
    def input_columns(self) -> Columns:
        """All columns that the inputs hold, types united."""
        united = unite_columns(source.segment.columns for source in self.inputs)
        return tuple(united.items())

    @property
    def read_columns(self) -> Columns:
        """The columns that are read: those that are written, or those that raw rows are rolled up from."""
        if self.raw_shape is None:
            return self.shape.segment_columns
        own = dict(self.input_columns)
        read = {one.name: one.type for one in self.raw_shape.dimensions}
        for one in self.raw_shape.input_columns:
            if one.field != TIME_COLUMN:
                read[one.field] = own[one.field]
        return tuple(read.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class InputGroup:
    """Inputs whose rows can share segments. Picklable.

    Attributes:
        units: Read units, at least one.
        shape: Shape of the rows that are written. Sketch metrics take states, since segments hold states; where all
            inputs are raw, they take the values that the sketches are built of.
        recorded_metrics: Metrics for the segments' records.
    """

    units: tuple[ReadUnit, ...]
    shape: RowShape
    recorded_metrics: tuple[Metric, ...]

    @property
    def inputs(self) -> tuple[SegmentInput, ...]:
        """The inputs of all units."""
        return tuple(source for unit in self.units for source in unit.inputs)

    @property
    def has_condition(self) -> bool:
        """Whether some rows are left out."""
        return any(unit.condition is not None for unit in self.units)

    def rollup_spec(self, *, is_perfect: bool) -> RollupSpec | None:
        """Return how the written segments are rolled up, for their records."""
        spec = self.shape.rollup_spec(is_perfect=is_perfect)
        return None if spec is None else replace(spec, metrics=self.recorded_metrics)


def plan_input_groups(
    inputs: Sequence[SegmentInput],
    target: CompactionTarget,
    kept_apart: frozenset[str] = frozenset(),
) -> tuple[InputGroup, ...]:
    """Return the inputs in input groups; `kept_apart`: see `RewriteJob`.

    Raises:
        Invalid: A step would lose something and the target does not allow it, or the target names a column that
            there is not.
    """
    ordered = sorted(inputs, key=lambda one: (one.segment.created_at_ms, one.segment.segment_id))
    kins = [rewritten(kin_of(source.segment, kept_apart), target) for source in ordered]
    groups: dict[int, _Members] = {}
    for source, kin, number in zip(ordered, kins, find_input_groups(kins), strict=True):
        if number in groups:
            groups[number].add(source, kin)
        else:
            groups[number] = _Members(source, kin)
    input_groups = tuple(_input_group(group, target) for group in groups.values())
    if target.filter is None:
        return input_groups
    everything = [unit for input_group in input_groups for unit in input_group.units]
    return tuple(
        replace(
            input_group,
            units=tuple(
                _with_condition(unit, everything, target.filter) for unit in input_group.units
            ),
        )
        for input_group in input_groups
    )


def _with_condition(unit: ReadUnit, units: Sequence[ReadUnit], condition: str) -> ReadUnit:
    if all(filter_of(source.segment) == condition for source in unit.inputs):
        return unit  # done before, and maybe with columns that are gone
    own = {name for name, _ in unit.input_columns}
    others = {
        name: kind for other in units for name, kind in other.input_columns if name not in own
    }
    return replace(unit, condition=condition, elsewhere=tuple(others.items()))


class _Members:
    """A input group in the making."""

    def __init__(self, source: SegmentInput, kin: Kin) -> None:
        self.inputs = [source]
        self.granularity = kin.query_granularity
        self.is_rollup = kin.is_rollup
        self._blend = Blend(kin)

    def add(self, source: SegmentInput, kin: Kin) -> None:
        self.inputs.append(source)
        self._blend.add(kin)

    def dimensions(self, target: CompactionTarget) -> tuple[DimensionShape, ...]:
        """Return the dimensions of what is written, with united types, in the target's order if it has one."""
        known = self._blend.dimensions
        names = known if target.dimensions is None else target.dimensions
        return tuple(DimensionShape(name=name, type=known[name]) for name in names if name in known)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics of what is written, with united types."""
        return tuple(self._blend.metrics.values())

    @property
    def datasource(self) -> str:
        """The datasource of all inputs."""
        return self.inputs[0].segment.datasource


def _input_group(group: _Members, target: CompactionTarget) -> InputGroup:
    is_rolled_up = [source.segment.rollup is not None for source in group.inputs]
    rolls_up_raw = target.metrics is not None and not all(is_rolled_up)
    is_mixed = rolls_up_raw and any(is_rolled_up)
    shape = RowShape(
        dimensions=group.dimensions(target),
        metrics=(
            group.metrics if rolls_up_raw and not is_mixed else tuple(map(_as_state, group.metrics))
        ),
        query_granularity=group.granularity,
        is_rollup=group.is_rollup,
    )
    shape = replace(
        shape,
        sort_columns=_sort_columns(group.inputs, shape, target),
        absent=_absent(shape, target),
    )
    kinds = [
        [source for source, known in zip(group.inputs, is_rolled_up, strict=True) if known is kind]
        for kind in (True, False)
    ]
    units = tuple(_unit(inputs, shape, target) for inputs in kinds if inputs)
    _check_loss(group.datasource, units, target)
    return InputGroup(units=units, shape=shape, recorded_metrics=group.metrics)


def _unit(inputs: Sequence[SegmentInput], shape: RowShape, target: CompactionTarget) -> ReadUnit:
    granularity = parse_granularity(shape.query_granularity)
    own = (parse_granularity(source.segment.query_granularity) for source in inputs)
    unit = ReadUnit(
        inputs=tuple(inputs),
        shape=shape,
        raw_shape=None,
        truncates=granularity != NONE and any(one != granularity for one in own),
    )
    if target.metrics is None or inputs[0].segment.rollup is not None:
        return unit
    kinds = dict(unit.input_columns)
    fed = {metric.input for metric in target.metrics}
    mine = {
        name
        for source in inputs
        for name, _ in rewritten(kin_of(source.segment), target).dimensions
    }
    raw_shape = replace(
        shape,
        dimensions=tuple(
            replace(one, type=kinds[one.name]) if one.name in fed else one
            for one in shape.dimensions
            if one.name in mine
        ),
        metrics=target.metrics,
    )
    return replace(unit, raw_shape=raw_shape)


def _as_state(metric: Metric) -> Metric:
    return replace(metric, is_state=True) if metric.type.is_sketch else metric


def _check_loss(datasource: str, units: Sequence[ReadUnit], target: CompactionTarget) -> None:
    losses = []
    if any(unit.truncates for unit in units):
        losses.append(f"truncates times to {units[0].shape.query_granularity}")
    dropped = sorted({name for unit in units for name in _dropped(datasource, unit)})
    if dropped:
        losses.append(f"leaves out column {', '.join(dropped)}")
    if any(unit.raw_shape is not None for unit in units):
        losses.append("rolls raw rows up")
    if target.filter is not None:
        losses.append("leaves out rows")
    if losses and not target.allow_lossy:
        raise Invalid(
            f"this rewrite of {datasource} {' and '.join(losses)}, which cannot be undone; "
            f"set allowLossy if that is meant",
            datasource=datasource,
        )


def _dropped(datasource: str, unit: ReadUnit) -> set[str]:
    """Return the columns whose values go into nothing that is written.

    Raises:
        Invalid: Raw rows cannot be rolled up like that.
    """
    known = dict(unit.input_columns)
    if unit.raw_shape is None:
        kept = {name for name, _ in unit.shape.segment_columns}
        return {name for name in known if name not in kept}
    metrics = unit.raw_shape.metrics
    inputs = {metric.input for metric in metrics if metric.input is not None} - {TIME_COLUMN}
    missing = sorted(inputs - known.keys())
    if missing:
        raise Invalid(f"metrics need column {', '.join(missing)}, which {datasource} does not have")
    _check_numbers(metrics, known)
    used = {name for metric in metrics for name in (metric.input, metric.name)}
    return known.keys() - used - set(unit.raw_shape.dimension_names)


def _check_numbers(metrics: Sequence[Metric], known: Mapping[str, ColumnType]) -> None:
    """Refuse to calculate with columns of another kind: the largest of texts is not the largest number."""
    for metric in metrics:
        if metric.input is None or metric.input == TIME_COLUMN:
            continue
        held = known[metric.input]
        needs = metric.type in NUMBER_TYPES or metric.kind is MetricKind.QUANTILES
        if needs and held not in {*NUMBER_TYPES, ColumnType.BOOLEAN}:
            raise Invalid(
                f"metric {metric.name} calculates with column {metric.input}, which holds {held}, not numbers; "
                f"declare the column's type where it is ingested"
            )


def _absent(shape: RowShape, target: CompactionTarget) -> tuple[str, ...]:
    """Return the columns that rows are partitioned by and lack; they count as null, as in Druid.

    Raises:
        Invalid: A column is a metric.
    """
    absent = [name for name in target.partitioning.dimensions if name not in shape.dimension_names]
    for name in absent:
        if name in {column for column, _ in shape.segment_columns}:
            raise Invalid(f"rows cannot be partitioned by '{name}', which is no dimension")
    return tuple(absent)


def _sort_columns(
    inputs: Sequence[SegmentInput], shape: RowShape, target: CompactionTarget
) -> tuple[str, ...]:
    """Return the columns that rows are sorted by: those of the target, else those of most rows of the inputs."""
    present = {TIME_COLUMN, *(name for name, _ in shape.segment_columns)}
    wanted = target.sort_by
    if wanted is None:
        votes: Counter[tuple[str, ...]] = Counter()
        for source in inputs:
            votes[source.segment.sort_columns] += source.segment.rows
        wanted = max(votes, key=lambda columns: (votes[columns], columns))
    known = tuple(name for name in wanted if name in present)
    return known or (TIME_COLUMN, *shape.dimension_names)
