"""The result of a query, in the form that its user likes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from carnac.ports import QueryResult


class Result:
    """Rows of one query over one revision.

    Attributes:
        revision: The one revision that was read.
        segments_total: Live segments of the datasources that the query names.
        segments_read: Those left after pruning by time, partition and column statistics.
    """

    def __init__(self, result: QueryResult) -> None:
        self._table = result.table
        self.revision = result.revision
        self.segments_total = result.segments_total
        self.segments_read = result.segments_read

    def arrow(self) -> pa.Table:
        """Return the rows as a `pyarrow.Table`; instants are in UTC, sketches are bytes."""
        return self._table

    def pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        return self.arrow().to_pandas()

    def polars(self) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame; Polars must be installed."""
        import polars as pl

        frame = pl.from_arrow(self.arrow())
        if isinstance(frame, pl.DataFrame):
            return frame
        return frame.to_frame()

    def rows(self) -> list[dict[str, object]]:
        """Return the rows as dictionaries by column, in the order of the query; instants are aware datetimes."""
        rows: list[dict[str, object]] = self.arrow().to_pylist()
        return rows

    def __len__(self) -> int:
        return int(self.arrow().num_rows)
