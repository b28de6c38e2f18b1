"""The result of a query, in the form that its user likes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from carnac.core.showing import ROWS_MAX, html_table
from carnac.core.words import counted, unique_names
from carnac.errors import Invalid
from carnac.ports.python_values import to_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from carnac.ports import QueryResult
    from carnac.ports.answers import Receipt

INTERVAL = "month_day_nano_interval"
"""Arrow's name of the type of intervals."""


class Result:
    """Rows of one query over one revision.

    Attributes:
        revision: The one revision that was read.
        segments_total: Live segments of the datasources that the query names.
        segments_read: Segments left after pruning by time, partition and column statistics.
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
        """Return the rows as a pandas DataFrame.

        Raises:
            Invalid: A date or a time of day is one that Python has not.
        """
        try:
            frame: pd.DataFrame = self.arrow().to_pandas()
        except (OverflowError, ValueError):
            self._check_values()
            raise
        return frame

    def df(self) -> pd.DataFrame:
        """Return what `pandas` returns, under the name that DuckDB gives it."""
        return self.pandas()

    def polars(self) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame; Polars must be installed.

        Repeated names get the suffixes `_1`, `_2`.

        Raises:
            Invalid: A column holds intervals, whose months have no length; Polars has not its like.
        """
        import polars as pl

        table = self._named()
        for field in table.schema:
            if INTERVAL in str(field.type):
                raise Invalid(
                    f"column '{field.name}' holds intervals, which Polars has not; select a number of seconds,"
                    " EXTRACT(EPOCH FROM …), or a text, CAST(… AS VARCHAR)",
                    column=field.name,
                )
        frame = pl.from_arrow(table)
        if isinstance(frame, pl.DataFrame):
            return frame
        return frame.to_frame()

    def rows(self) -> list[dict[str, object]]:
        """Return the rows as dictionaries by column, in the order of the query; instants are aware datetimes.

        Repeated names get the suffixes `_1`, `_2`, so no column is lost.

        Raises:
            Invalid: A time is outside of the years 1 to 9999, which Python has not.
        """
        return list(_dicts(self._named()))

    def __len__(self) -> int:
        return int(self.arrow().num_rows)

    def __iter__(self) -> Iterator[dict[str, object]]:
        """Yield the rows as `rows` returns them, a batch at a time."""
        for batch in self._named().to_batches():
            yield from _dicts(batch)

    def _named(self) -> pa.Table:
        """Return the rows under names that differ, for what holds a name once."""
        table = self.arrow()
        return table.rename_columns(unique_names(table.column_names))

    def _check_values(self) -> None:
        table = self._named()
        for name, column in zip(table.column_names, table.columns, strict=True):
            to_python(name, column)

    def __repr__(self) -> str:
        return f"<Result: {self._summary}>"

    def _repr_html_(self) -> str:
        """Return the first rows as a table, for a notebook."""
        table = self.arrow()
        shown = zip(*map(_shown, table.slice(0, ROWS_MAX)), strict=True)
        rest = f", the first {ROWS_MAX} shown" if len(self) > ROWS_MAX else ""
        rows = ([_text(value) for value in row] for row in shown)
        return html_table(table.column_names, rows, note=self._summary + rest)

    @property
    def _summary(self) -> str:
        return (
            f"{counted(len(self), 'row')} of {counted(self.arrow().num_columns, 'column')} at revision "
            f"{self.revision}, {self.segments_read} of {counted(self.segments_total, 'segment')} read"
        )


def _dicts(rows: pa.Table | pa.RecordBatch) -> Iterator[dict[str, object]]:
    names = rows.schema.names
    columns = [to_python(name, column) for name, column in zip(names, rows.columns, strict=True)]
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _shown(column: pa.ChunkedArray) -> list[object]:
    """Return the values of a column, as text where Python has not all of them."""
    try:
        values: list[object] = column.to_pylist()
    except (OverflowError, ValueError):
        values = column.cast("string").to_pylist()
    return values


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value.isoformat() if isinstance(value, datetime) else str(value)
