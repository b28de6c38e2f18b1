"""What the rows of a rewrite become: inputs that can share segments are put together, with the shape of their rows.

Raw rows and rolled-up rows never share a segment, nor do rows whose metrics mean different things. So a rewrite works
on *families* of inputs, each of which becomes segments of its own, and never has to refuse a mixture. Raw rows that the
target rolls up are of one family with rows that have been rolled up like that before: each kind is a *share* of the
family, read in its own way. Columns are united by name, types upwards; a dimension that a segment lacks is null there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from carnac.core.compaction.plan.families import Blend, Kin, find_families, kin_of, rewritten
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.notes import filter_of
from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import (
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
_NUMERIC = frozenset({ColumnType.LONG, ColumnType.DOUBLE, ColumnType.FLOAT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUnit:
    """Inputs of a family that are read alike. Picklable.

    Attributes:
        shape: Of the rows that the family writes.
        raw_shape: What raw inputs are rolled up to as they are read; it is the family's where that has no other share,
            else their rows are made those of the family then. None: rows are read as they are written.
        truncates: Times are to be truncated to the shape's query granularity.
        condition: In Spark SQL: which rows are kept; None: all.
        elsewhere: Columns that the inputs lack and others of the rewrite have: a condition may name them.
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
        fed = (column.field for column in self.raw_shape.input_columns)
        return tuple(
            (name, own[name]) for name in dict.fromkeys([*self.raw_shape.dimension_names, *fed])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InputGroup:
    """Inputs whose rows can share segments. Picklable.

    Attributes:
        shares: At least one.
        shape: Of the rows that are written. Sketch metrics take states, since that is what segments hold; where all
            inputs are raw, they take what the sketches are built of.
        recorded_metrics: As the segments' records shall have them.
    """

    shares: tuple[ReadUnit, ...]
    shape: RowShape
    recorded_metrics: tuple[Metric, ...]

    @property
    def inputs(self) -> tuple[SegmentInput, ...]:
        """The inputs of all shares."""
        return tuple(source for share in self.shares for source in share.inputs)

    @property
    def has_condition(self) -> bool:
        """Whether some rows are left out."""
        return any(share.condition is not None for share in self.shares)

    def rollup_spec(self, *, is_perfect: bool) -> RollupSpec | None:
        """Return how the written segments are rolled up, for their records."""
        spec = self.shape.rollup_spec(is_perfect=is_perfect)
        return None if spec is None else replace(spec, metrics=self.recorded_metrics)


def plan_families(
    inputs: Sequence[SegmentInput], target: CompactionTarget
) -> tuple[InputGroup, ...]:
    """Return the inputs in families.

    Raises:
        Invalid: A step would lose something and the target does not allow it, or the target names a column that
            there is not.
    """
    ordered = sorted(inputs, key=lambda one: (one.segment.created_at_ms, one.segment.segment_id))
    kins = [rewritten(kin_of(source.segment), target) for source in ordered]
    groups: dict[int, _Members] = {}
    for source, kin, number in zip(ordered, kins, find_families(kins), strict=True):
        if number in groups:
            groups[number].add(source, kin)
        else:
            groups[number] = _Members(source, kin)
    families = tuple(_family(group, target) for group in groups.values())
    if target.filter is None:
        return families
    everything = [share for family in families for share in family.shares]
    return tuple(
        replace(
            family,
            shares=tuple(
                _with_condition(share, everything, target.filter) for share in family.shares
            ),
        )
        for family in families
    )


def _with_condition(share: ReadUnit, shares: Sequence[ReadUnit], condition: str) -> ReadUnit:
    if all(filter_of(source.segment) == condition for source in share.inputs):
        return share  # done before, and maybe with columns that are gone
    own = {name for name, _ in share.input_columns}
    others = {
        name: kind for other in shares for name, kind in other.input_columns if name not in own
    }
    return replace(share, condition=condition, elsewhere=tuple(others.items()))


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
        """Of all inputs."""
        return self.inputs[0].segment.datasource


def _family(group: _Members, target: CompactionTarget) -> InputGroup:
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
    shares = tuple(_share(inputs, shape, target) for inputs in kinds if inputs)
    _check_loss(group.datasource, shares, target)
    return InputGroup(shares=shares, shape=shape, recorded_metrics=group.metrics)


def _share(inputs: Sequence[SegmentInput], shape: RowShape, target: CompactionTarget) -> ReadUnit:
    granularity = parse_granularity(shape.query_granularity)
    own = (parse_granularity(source.segment.query_granularity) for source in inputs)
    share = ReadUnit(
        inputs=tuple(inputs),
        shape=shape,
        raw_shape=None,
        truncates=granularity != NONE and any(one != granularity for one in own),
    )
    if target.metrics is None or inputs[0].segment.rollup is not None:
        return share
    kind = dict(share.input_columns)
    mine = {
        name
        for source in inputs
        for name, _ in rewritten(kin_of(source.segment), target).dimensions
    }
    raw_shape = replace(
        shape,
        dimensions=tuple(
            replace(one, type=kind[one.name]) for one in shape.dimensions if one.name in mine
        ),
        metrics=target.metrics,
    )
    return replace(share, raw_shape=raw_shape)


def _as_state(metric: Metric) -> Metric:
    return replace(metric, is_state=True) if metric.type.is_sketch else metric


def _check_loss(datasource: str, shares: Sequence[ReadUnit], target: CompactionTarget) -> None:
    losses = []
    if any(share.truncates for share in shares):
        losses.append(f"truncates times to {shares[0].shape.query_granularity}")
    dropped = sorted({name for share in shares for name in _dropped(datasource, share)})
    if dropped:
        losses.append(f"leaves out column {', '.join(dropped)}")
    if any(share.raw_shape is not None for share in shares):
        losses.append("rolls raw rows up")
    if target.filter is not None:
        losses.append("leaves out rows")
    if losses and not target.allow_lossy:
        raise Invalid(
            f"this rewrite of {datasource} {' and '.join(losses)}, which cannot be undone; "
            f"set allowLossy if that is meant",
            datasource=datasource,
        )


def _dropped(datasource: str, share: ReadUnit) -> set[str]:
    """Return the columns whose values go into nothing that is written.

    Raises:
        Invalid: Raw rows cannot be rolled up like that.
    """
    known = dict(share.input_columns)
    if share.raw_shape is None:
        kept = {name for name, _ in share.shape.segment_columns}
        return {name for name in known if name not in kept}
    metrics = share.raw_shape.metrics
    missing = sorted(
        metric.input for metric in metrics if metric.input is not None and metric.input not in known
    )
    if missing:
        raise Invalid(f"metrics need column {', '.join(missing)}, which {datasource} does not have")
    _check_numbers(metrics, known)
    used = {name for metric in metrics for name in (metric.input, metric.name)}
    return known.keys() - used - set(share.raw_shape.dimension_names)


def _check_numbers(metrics: Sequence[Metric], known: Mapping[str, ColumnType]) -> None:
    """Refuse to calculate with columns of another kind: the largest of texts is not the largest number."""
    for metric in metrics:
        if metric.input is None:
            continue
        held = known[metric.input]
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
