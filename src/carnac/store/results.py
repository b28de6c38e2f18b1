"""The result of a query, in the form that its user likes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from carnac.core.showing import ROWS_MAX, html_table
from carnac.core.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from carnac.ports import QueryResult
    from carnac.ports.answers import Receipt


class Result:
    """Rows of one query over one revision.

    Attributes:
        revision: The one revision that was read.
        segments_total: Live segments of the datasources that the query names.
        segments_read: Those left after pruning by time, partition and column statistics.
    """

    def __init__(self, result: QueryResult, receipt: Callable[[pa.Table], Receipt]) -> None:
        self._table = result.table
        self._make_receipt = receipt
        self.revision = result.revision
        self.segments_total = result.segments_total
        self.segments_read = result.segments_read

    @property
    def receipt(self) -> Receipt:
        """The receipt of the rows, by which others derive them again; made on first use, while the store is open.

        Raises:
            NotFound: The revision is not kept any more.
        """
        return self._make_receipt(self._table)

    def arrow(self) -> pa.Table:
        """Return the rows as a `pyarrow.Table`; instants are in UTC, sketches are bytes."""
        return self._table

    def pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        frame: pd.DataFrame = self.arrow().to_pandas()
        return frame

    def df(self) -> pd.DataFrame:
        """Return what `pandas` returns, under the name that DuckDB gives it."""
        return self.pandas()

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

    def __iter__(self) -> Iterator[dict[str, object]]:
        """Yield the rows as `rows` returns them, a batch at a time."""
        for batch in self.arrow().to_batches():
            yield from batch.to_pylist()

    def __repr__(self) -> str:
        return f"<Result: {self._summary}>"

    def _repr_html_(self) -> str:
        """Return the first rows as a table, for a notebook."""
        table = self.arrow()
        shown = zip(*(column.to_pylist() for column in table.slice(0, ROWS_MAX)), strict=True)
        rest = f", the first {ROWS_MAX} shown" if len(self) > ROWS_MAX else ""
        rows = ([_text(value) for value in row] for row in shown)
        return html_table(table.column_names, rows, note=self._summary + rest)

    @property
    def _summary(self) -> str:
        return (
            f"{counted(len(self), 'row')} of {counted(self.arrow().num_columns, 'column')} at revision "
            f"{self.revision}, {self.segments_read} of {counted(self.segments_total, 'segment')} read"
        )


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value.isoformat() if isinstance(value, datetime) else str(value)
