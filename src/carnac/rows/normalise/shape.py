"""The shape of rows on their way from files to segments.

A row is seen in three forms. All three are DuckDB relations or Arrow data whose columns are united by name, so a
column that is absent counts as null:

- *normalised*: rows after reading and parsing. `__time`, the dimensions, and the inputs of the metrics.
- *part*: rows that pass 1 leaves for pass 2. With rollup, `__time` is truncated and metrics are partial states; without
  it, `__time` is truncated and metrics hold their values for one row (see `carnac.rows.rollup`).
- *segment*: rows of a segment file.

`__time` is `TIMESTAMP WITH TIME ZONE` in DuckDB and `timestamp[us, tz=UTC]` in Arrow in all of them, and never null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from carnac.core.segments.segment import TIME_COLUMN, ColumnType, Metric, MetricKind, RollupSpec
from carnac.core.segments.sql_columns import HIDDEN_PREFIX, SQL_TYPE
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.specs.ingest.spec import IngestSpec

MultiValue = Literal["sorted_array", "sorted_set", "array"]

INPUT_PREFIX = "__in_"
"""Normalised rows hold the input of metric m in `__in_m`, so a field may be a dimension and an input at once."""
ORDER_PREFIX = HIDDEN_PREFIX
"""Where the instant that decides `first` and `last` is: in normalised rows if it is not `__time`, in part files and
segments always, so that states stay mergeable. Readers hide these columns."""
ROWS_COLUMN = "__rows"
"""In part files of rolled-up rows: how many input rows went into a row."""
_ENGINE_PREFIX = "__carnac_"
"""Begins the names that statements give to what is no column."""


def is_reserved(name: str) -> bool:
    """Whether a dimension cannot be called so: the store's own columns are, on the way of rows or in segments."""
    folded = name.lower()
    return folded.startswith((INPUT_PREFIX, ORDER_PREFIX, _ENGINE_PREFIX)) or folded == ROWS_COLUMN


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionShape:
    """A dimension.

    Attributes:
        type: `STRING` holds one value. A dimension in which some row has several values is `STRING_ARRAY`.
        multi_value: Treatment of several values by the reader; it is done by the time that rows are normalised.
    """

    name: str
    type: ColumnType
    multi_value: MultiValue = "sorted_array"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputColumn:
    """A column of normalised rows that feeds a metric.

    Attributes:
        name: In the normalised rows: `__in_<metric>` or `__at_<metric>`.
        field: Input field or transform that it is read from.
        type: Type that it must have been coerced to. Sketches of distinct values (hll, theta) take strings, so that `1`
            and `"1"` are one value whatever the file's format. A sketch type means bytes of such a sketch. `__at_`
            columns are LONG, epoch microseconds.
        metric: Name of the metric.
    """

    name: str
    field: str
    type: ColumnType
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """The shape of a job's rows. Picklable; the same for all tasks of a job.

    Attributes:
        dimensions: In file order.
        metrics: In file order, after the dimensions.
        query_granularity: Canonical text, see `parse_granularity`.
        is_rollup: Whether rows of equal time and dimensions become one. Without it each row keeps its own metrics:
            `count` is 1, a sum is the value, a sketch is one of that value.
        sort_columns: Order of rows in a segment, ascending, nulls first; may name `__time`, dimensions and metrics.
        absent: Columns that rows are partitioned by and none of them has: null in all rows, and no column of a segment.
        order_fields: `(metric, field)` of `first` and `last` metrics that do not go by `__time`.
    """

    dimensions: tuple[DimensionShape, ...]
    metrics: tuple[Metric, ...] = ()
    query_granularity: str = "none"
    is_rollup: bool = False
    sort_columns: tuple[str, ...] = (TIME_COLUMN,)
    order_fields: tuple[tuple[str, str], ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """Names of the dimensions, in file order."""
        return tuple(dimension.name for dimension in self.dimensions)

    @property
    def input_columns(self) -> tuple[InputColumn, ...]:
        """The columns of normalised rows besides `__time` and the dimensions, in this order."""
        fields = dict(self.order_fields)
        columns: list[InputColumn] = []
        for metric in self.metrics:
            if metric.input is not None:
                columns.append(
                    InputColumn(
                        name=INPUT_PREFIX + metric.name,
                        field=metric.input,
                        type=_input_type(metric),
                        metric=metric.name,
                    )
                )
            if metric.name in fields:
                columns.append(
                    InputColumn(
                        name=ORDER_PREFIX + metric.name,
                        field=fields[metric.name],
                        type=ColumnType.LONG,
                        metric=metric.name,
                    )
                )
        return tuple(columns)

    @property
    def normalised_columns(self) -> tuple[tuple[str, ColumnType], ...]:
        """Name and type of all columns of normalised rows but `__time`, which comes first."""
        dimensions = [(dimension.name, dimension.type) for dimension in self.dimensions]
        return (*dimensions, *((column.name, column.type) for column in self.input_columns))

    @property
    def segment_columns(self) -> tuple[tuple[str, ColumnType], ...]:
        """Name and type of all columns of a segment file but `__time`, which comes first."""
        columns = [(dimension.name, dimension.type) for dimension in self.dimensions]
        for metric in self.metrics:
            columns.append((metric.name, metric.type))
            if self.is_rollup and metric.kind in {MetricKind.FIRST, MetricKind.LAST}:
                columns.append((ORDER_PREFIX + metric.name, ColumnType.LONG))
        return tuple(columns)

    def rollup_spec(self, *, is_perfect: bool) -> RollupSpec | None:
        """Return how segments of this shape were rolled up; None if they are raw."""
        if not self.is_rollup:
            return None
        return RollupSpec(
            query_granularity=self.query_granularity,
            dimensions=self.dimension_names,
            metrics=self.metrics,
            is_perfect=is_perfect,
        )


def part_columns(shape: RowShape) -> tuple[tuple[str, str], ...]:
    """Return name and DuckDB type of all columns of part rows, `__time` first."""
    columns = [(TIME_COLUMN, "TIMESTAMP WITH TIME ZONE")]
    columns += [(dimension.name, SQL_TYPE[dimension.type]) for dimension in shape.dimensions]
    for metric in shape.metrics:
        kind = SQL_TYPE[_input_type(metric)]
        columns.append((metric.name, f"{kind}[]" if metric.type.is_sketch else kind))
        if shape.is_rollup and metric.kind in {MetricKind.FIRST, MetricKind.LAST}:
            columns.append((ORDER_PREFIX + metric.name, "BIGINT"))
    if shape.is_rollup:
        columns.append((ROWS_COLUMN, "BIGINT"))
    return tuple(columns)


def _input_type(metric: Metric) -> ColumnType:
    if metric.type.is_sketch and not metric.is_state:
        return ColumnType.DOUBLE if metric.type is ColumnType.QUANTILES else ColumnType.STRING
    return metric.type


class _Last:
    """The last spec whose rows were given a shape that nothing but it decides; appends repeat one spec object."""

    pair: tuple[IngestSpec, RowShape] | None = None


def row_shape(
    spec: IngestSpec, discovered_columns: Sequence[tuple[str, ColumnType]] = ()
) -> RowShape:
    """Return the shape of the rows that a spec makes.

    Args:
        discovered_columns: Name and type of the dimensions that the data showed, for specs that discover dimensions
            or have some of type `auto`; a `string` dimension that showed several values stands here as
            `STRING_ARRAY`. Names that the spec lists keep their place; the others follow in the given order.

    Raises:
        Invalid: A column would be there twice.
    """
    last = _Last.pair
    if last is not None and last[0] is spec and not discovered_columns:
        return last[1]
    shape = _row_shape(spec, dict(discovered_columns))
    if not discovered_columns:
        _Last.pair = spec, shape
    return shape


def _row_shape(spec: IngestSpec, shown: dict[str, ColumnType]) -> RowShape:
    dimensions = [
        DimensionShape(
            name=dimension.name,
            type=_dimension_type(dimension.type, shown.get(dimension.name)),
            multi_value=(dimension.multi_value_handling if dimension.type == "string" else "array"),
        )
        for dimension in spec.dimensions.dimensions
    ]
    if spec.dimensions.discovers:
        listed = {dimension.name for dimension in dimensions}
        dimensions += [
            DimensionShape(name=name, type=column_type, multi_value="array")
            for name, column_type in shown.items()
            if name not in listed
        ]
    metrics = tuple(metric.to_metric() for metric in spec.metrics)
    names = [dimension.name for dimension in dimensions]
    sort = spec.tuning.sort_by or (TIME_COLUMN, *names)
    shape = RowShape(
        dimensions=tuple(dimensions),
        metrics=metrics,
        query_granularity=str(spec.granularity.query_granularity),
        is_rollup=spec.rollup != "none",
        sort_columns=sort,
        order_fields=tuple(
            (metric.name, metric.time_column)
            for metric in spec.metrics
            if metric.time_column is not None and metric.time_column != TIME_COLUMN
        ),
    )
    _check_names(shape)
    return shape


def _check_names(shape: RowShape) -> None:
    names = [TIME_COLUMN, *(name for name, _ in shape.segment_columns)]
    # SQL does not tell upper from lower case in names, so two that differ in nothing else are one.
    counts = Counter(name.lower() for name in names)
    twice = sorted({name for name in names if counts[name.lower()] > 1})
    if twice:
        raise Invalid(
            f"column {', '.join(twice)} would be there more than once (SQL takes names in upper and lower case "
            f"for the same); rename one, or leave it out (dimensionExclusions)"
        )
    reserved = [name for name in shape.dimension_names if is_reserved(name)]
    if reserved:
        raise Invalid(
            f"dimension {', '.join(reserved)} has a name that is reserved for the store; rename it"
        )


def _dimension_type(declared: str, shown: ColumnType | None) -> ColumnType:
    if declared == "auto":
        return shown or ColumnType.STRING
    if declared == "string" and shown is ColumnType.STRING_ARRAY:
        return ColumnType.STRING_ARRAY
    return ColumnType(declared)
