"""Metrics with a filter: the rows that they are not for give them nothing.

Where the condition is not true, the input of the metric is null, which sums, extremes and sketches leave out; of a
count it is 0, else 1; and of `first` and `last` the instant is null, too, which takes the row out of the choice. From
there on a metric with a filter is one like any other, so states merge without it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.core.segments.segment import TIME_COLUMN, MetricKind
from carnac.rows.normalise.shape import INPUT_PREFIX, ORDER_PREFIX, RowShape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from carnac.specs.ingest.transforms import Transforms

_ORDERED = frozenset({MetricKind.FIRST, MetricKind.LAST})


def with_filtered_inputs(frame: DataFrame, shape: RowShape, transforms: Transforms) -> DataFrame:
    """Return the rows with the inputs of metrics that have a filter, as `filtered_shape` names them.

    Args:
        frame: With the transforms. Of files it has inputs of metrics already, under the same names, for all rows.
    """
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    conditions = dict(transforms.conditions)
    own_orders = dict(shape.order_fields)
    inputs: dict[str, Column] = {}
    for metric in shape.metrics:
        if metric.name not in conditions:
            continue
        is_true = F.expr(conditions[metric.name])
        name = INPUT_PREFIX + metric.name
        if metric.input is None:
            inputs[name] = F.when(is_true, F.lit(1)).otherwise(F.lit(0))
            continue
        there = name if name in frame.columns else metric.input
        if there in frame.columns:
            inputs[name] = F.when(is_true, F.col(_quoted(there)))
        if metric.kind in _ORDERED:
            order = ORDER_PREFIX + metric.name
            there = order if order in frame.columns else own_orders.get(metric.name, TIME_COLUMN)
            if there in frame.columns:
                inputs[order] = F.when(is_true, F.col(_quoted(there)))
    kept = [F.col(_quoted(name)) for name in frame.columns if name not in inputs]
    return frame.select(*kept, *(column.alias(name) for name, column in inputs.items()))


def filtered_shape(shape: RowShape, transforms: Transforms) -> RowShape:
    """Return the shape with the inputs of metrics that have a filter called as `with_filtered_inputs` calls them."""
    names = {name for name, _ in transforms.conditions}
    ordered = {metric.name for metric in shape.metrics if metric.kind in _ORDERED} & names
    return replace(
        shape,
        metrics=tuple(
            replace(metric, input=INPUT_PREFIX + metric.name) if metric.name in names else metric
            for metric in shape.metrics
        ),
        order_fields=(
            *(pair for pair in shape.order_fields if pair[0] not in ordered),
            *((name, ORDER_PREFIX + name) for name in sorted(ordered)),
        ),
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
