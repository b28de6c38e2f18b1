"""Answers of statements for people: rows as a table, and the end of a statement that does not end."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from carnac.cli.tables import Column, counted, format_count
from carnac.errors import Unavailable

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.cli.output import Output
    from carnac.cli.session import Session
    from carnac.store.results import Result

GRACE_MS = 2_000
"""How long a statement that was stopped may take to end."""


@contextmanager
def ended_after(
    session: Session, limit_ms: int, *, before_end: Callable[[], None] | None = None
) -> Iterator[None]:
    """End the process if a statement does not even heed that it is stopped: one function over one huge value.

    What it leaves, a folder of temporary files and a lease, others remove.

    Args:
        limit_ms: After which it is stopped; 0: never.
        before_end: What is still to be done before the process ends; None: nothing.
    """
    if not session.owns_process or not limit_ms:
        yield
        return

    def end() -> None:
        detail = f"the query took longer than {limit_ms} ms and could not be stopped"
        if before_end is not None:
            before_end()
        session.show_error(Unavailable(f"{detail}; its process was ended"))
        sys.stderr.flush()
        os._exit(Unavailable.exit_code)

    timer = threading.Timer((limit_ms + GRACE_MS) / 1000, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_table(output: Output, result: Result, rows_max: int | None, *, took: str = "") -> None:
    """Print rows as a table, and what was read for them.

    Args:
        rows_max: None: all.
        took: How long, in words; empty: nothing is said of it.
    """
    from carnac.query.export.values import iterate_rows, to_text

    table = result.arrow()
    rows = [[to_text(value) for value in row] for row in iterate_rows(table.slice(0, rows_max))]
    output.table(table_columns(table), rows)
    hidden = table.num_rows - len(rows)
    if hidden:
        output.note(
            f"… and {format_count(hidden)} more rows; --max-rows 0 shows all, -o FILE writes all to a file"
        )
    output.note(
        f"{counted(table.num_rows, 'row')} at revision {result.revision}, "
        f"{format_count(result.segments_read)} of {counted(result.segments_total, 'segment')} read"
        + (f", {took}" if took else "")
    )


def table_columns(table: pa.Table) -> list[Column]:
    """Return the titles of the table's columns; numbers are right-aligned."""
    import pyarrow.types as kinds

    return [
        Column(
            field.name,
            kinds.is_integer(field.type)
            or kinds.is_floating(field.type)
            or kinds.is_decimal(field.type),
        )
        for field in table.schema
    ]
