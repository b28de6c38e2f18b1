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
    from collections.abc import Callable, Container, Mapping

    from carnac.specs.ingest.transforms import Transforms

_ORDERED = frozenset({MetricKind.FIRST, MetricKind.LAST})


def filtered_inputs(
    shape: RowShape,
    conditions: Mapping[str, str],
    columns: Container[str],
    quoted: Callable[[str], str],
    millis: str,
) -> dict[str, str]:
    """Return the inputs of metrics that have a filter as SQL, by the names that `filtered_shape` gives them.

    Args:
        conditions: Conditions by metric, in the SQL of the engine that computes.
        columns: Columns of the rows with the transforms. Rows of files have inputs of metrics already, under the same
            names, for all rows.
        quoted: Quotes a name as that SQL does.
        millis: Its function from a time to epoch milliseconds, which are what a metric over `__time` is made of.
    """
    orders = dict(shape.order_fields)
    inputs: dict[str, str] = {}
    for metric in shape.metrics:
        if metric.name not in conditions:
            continue
        is_true, name = f"(\n{conditions[metric.name]}\n)", INPUT_PREFIX + metric.name
        if metric.input is None:
            inputs[name] = f"CASE WHEN {is_true} THEN 1 ELSE 0 END"
            continue
        pairs = [(name, metric.input)]
        if metric.kind in _ORDERED:
            pairs.append((ORDER_PREFIX + metric.name, orders.get(metric.name, TIME_COLUMN)))
        for made, field in pairs:
            there = made if made in columns else field
            if there in columns:
                is_time = there == TIME_COLUMN and made == name
                value = f"{millis}({quoted(there)})" if is_time else quoted(there)
                inputs[made] = f"CASE WHEN {is_true} THEN {value} END"
    return inputs


def filtered_shape(shape: RowShape, transforms: Transforms) -> RowShape:
    """Return the shape with the inputs of metrics that have a filter called as `filtered_inputs` calls them."""
    names = set(transforms.filtered)
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
