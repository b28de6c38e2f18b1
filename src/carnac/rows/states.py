"""Builds the sketches of rolled-up rows from the lists of values or states that SQL left in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from carnac.core.segments.segment import ColumnType, Metric
from carnac.rows.normalise.shape import RowShape


def build_sketches(shape: RowShape, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with sketches in place of lists.

    Raises:
        Invalid: A state cannot be read as a sketch of its type.
    """
    for metric in shape.metrics:
        if metric.type.is_sketch:
            index = rows.schema.get_field_index(metric.name)
            rows = rows.set_column(index, metric.name, _sketches(metric, rows.column(index)))
    return rows


def _sketches(metric: Metric, lists: pa.ListArray) -> pa.Array:
    """Return one sketch for each list; null for null and for empty lists."""
    from carnac import sketches

    params = dict(metric.params)
    values = _values(metric, lists)
    act = sketches.merge if metric.is_state else sketches.build
    offsets = np.diff(lists.offsets.to_numpy())
    ends = np.cumsum(offsets)
    built: list[bytes | None] = [
        act(metric.kind, values[end - length : end], params) if length else None
        for end, length in zip(ends.tolist(), offsets.tolist(), strict=True)
    ]
    return pa.array(built, pa.binary())


def _values(metric: Metric, lists: pa.ListArray) -> Any:
    """Return the elements of all lists, one after the other: numpy numbers, or a Python list."""
    flat = lists.flatten()
    if metric.type is ColumnType.QUANTILES and not metric.is_state:
        return flat.to_numpy(zero_copy_only=False)
    return flat.to_pylist()
