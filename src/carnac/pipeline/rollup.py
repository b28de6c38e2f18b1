"""Rollup as SQL: from normalised rows to parts, from parts to segment rows. Pure text, no engine.

What a metric is for no value, as Druid has it since nulls are SQL's (`druid.generic.useDefaultValueForNull=false`):
`count` counts rows, whatever they hold; `sum`, `min` and `max` ignore nulls and are null if there is nothing else;
`first` and `last` do not ignore nulls (Source: Druid's pull request 9161): the row that is earliest (latest) decides,
also if its value is null; sketches ignore nulls and are null if there is nothing else.
"""

from __future__ import annotations

from carnac.core.intervals import Interval
from carnac.pipeline.shape import RowShape


def part_sql(shape: RowShape, source: str, *, span: Interval | None = None) -> str:
    """Return a query that makes part rows of normalised rows; the one that pass 1 runs for each group of rows.

    With rollup it groups; without it, it maps every row. Columns: `__time` (truncated), the dimensions, the metrics
    (`__at_` columns beside `first` and `last`; lists of input values in place of sketches) and, with rollup, `__rows`.
    The order of rows is undefined.

    Args:
        source: A table name or a parenthesised query that yields normalised rows.
        span: Holds the time of every row; needed only if `needs_span(shape)`.

    Raises:
        Invalid: The granularity has too many buckets in `span`.
    """
    raise NotImplementedError


def needs_span(shape: RowShape) -> bool:
    """Whether truncation to the query granularity must know the range of times (months, zones)."""
    raise NotImplementedError


def merge_sql(shape: RowShape, source: str) -> str:
    """Return a query that makes rows of segments (lists in place of sketches, and `__rows`) of part rows.

    Without rollup it selects them as they are. `merge_sql` of `part_sql` of all rows equals `merge_sql` of the union
    of `part_sql` of any division of them, but for the last bits of sums of floats.
    """
    raise NotImplementedError
