"""Rows of a statement between two fetches: a few are read ahead, the rest stay with the run of the statement.

An answer that is read ahead whole gives its turn back at once, as most answers do. A longer one keeps its turn and its
revision until its rows are fetched or let go, or its time is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

from carnac.api.avatica.columns import signature, values_of
from carnac.errors import Cancelled, Invalid

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.api.avatica.columns import Values
    from carnac.api.sql.requests import SqlRequest
    from carnac.api.sql.runs import Run

AHEAD_BYTES = 4 << 20
"""So much is read before anybody fetches it, in Arrow's form."""
FRAME_BYTES = 8 << 20
"""A frame of long rows has fewer of them, but one at least."""
_GONE = "the statement was stopped, because nobody waited for its rows any more; run it again"


class Frame(TypedDict):
    """Rows as they are sent: from which of all, counted from 0, and whether these are the last ones."""

    offset: int
    done: bool
    rows: list[Sequence[object]]


class HeldRows:
    """Rows of one run of a statement. `leave` may be called by any thread, the rest by one at a time.

    Attributes:
        offset: How many rows were taken.
        is_done: Whether those are all rows.
        signature: Their description for the driver, once `open` has returned.
    """

    def __init__(self, run: Run, request: SqlRequest) -> None:
        self.offset = 0
        self.is_done = False
        self.signature: dict[str, object] = {}
        self._run = run
        self._request = request
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._values: list[Values] = []
        self._ahead: deque[pa.RecordBatch] = deque()
        self._rows_ahead = 0
        self._is_read = False
        self._is_left = False

    def open(self) -> None:
        """Have it run.

        Raises:
            CarnacError: As `Broker.run`.
        """
        rows = None if self._is_left else self._run.rows()
        if rows is None:
            raise Cancelled(_GONE)
        sql, zone = self._request.statement.sql, self._request.shape.zone
        self._batches = rows.batches
        self._values = [values_of(kind, zone) for kind in rows.schema.types]
        self.signature = signature(rows.names, rows.schema, sql)

    def take(self, rows_max: int) -> Frame:
        """Return the next frame.

        Raises:
            CarnacError: As `Broker.run`; it is over then.
        """
        try:
            self._read_ahead(rows_max)
            if self._is_left:  # a run that was stopped amid its rows may end as if it had no more
                raise Cancelled(_GONE)
            offset, rows = self.offset, self._take(rows_max)
        except BaseException:
            self.leave()
            raise
        self.offset += len(rows)
        self.is_done = self._is_read and not self._ahead
        return {"offset": offset, "done": self.is_done, "rows": rows}

    def leave(self) -> None:
        """Stop what still runs, and let go of it. Idempotent."""
        self._is_left = True
        self._run.leave()

    def _read_ahead(self, rows_max: int) -> None:
        size_bytes = sum(one.nbytes for one in self._ahead)
        while not self._is_read and (self._rows_ahead <= rows_max or size_bytes < AHEAD_BYTES):
            batch = next(self._batches, None)
            if batch is None:
                self._is_read = True
            elif batch.num_rows:
                self._ahead.append(batch)
                self._rows_ahead += batch.num_rows
                size_bytes += batch.nbytes

    def _take(self, rows_max: int) -> list[Sequence[object]]:
        taken: list[Sequence[object]] = []
        left_bytes = float(FRAME_BYTES)
        while self._ahead and len(taken) < rows_max and (left_bytes > 0 or not taken):
            batch = self._ahead.popleft()
            row_bytes = max(1.0, batch.nbytes / batch.num_rows)
            count = min(rows_max - len(taken), batch.num_rows, max(1, int(left_bytes / row_bytes)))
            columns = batch.slice(0, count).columns
            made = [values(one) for values, one in zip(self._values, columns, strict=True)]
            taken.extend(zip(*made, strict=True))
            if count < batch.num_rows:
                self._ahead.appendleft(batch.slice(count))
            self._rows_ahead -= count
            left_bytes -= count * row_bytes
        return taken


def check_offset(held: HeldRows, offset: int) -> None:
    """Check that a driver goes on where it is.

    Raises:
        Invalid: It does not: rows are not kept once they were sent.
    """
    if offset != held.offset:
        raise Invalid(
            f"rows are fetched forward only: offset {offset} is asked for, and {held.offset} is next; run the "
            "statement again"
        )
