"""Answers of statements for people: rows as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.cli.tables import Column, counted, number_text

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.cli.output import Output
    from carnac.store.results import Result


def print_table(output: Output, result: Result, rows_max: int | None, *, took: str = "") -> None:
    """Print rows as a table, and what was read for them.

    Args:
        rows_max: None: all.
        took: How long, in words; empty: nothing is said of it.
    """
    from carnac.query.export.values import iterate_rows, to_text

    table = result.arrow()
    rows = [[to_text(value) for value in row] for row in iterate_rows(table.slice(0, rows_max))]
    output.table(table_columns(table), rows, is_folded=True)
    hidden = table.num_rows - len(rows)
    if hidden:
        output.note(
            f"… and {number_text(hidden)} more rows; --max-rows 0 shows all, -o FILE writes all to a file"
        )
    output.note(
        f"{counted(table.num_rows, 'row')} at revision {result.revision}, "
        f"{number_text(result.segments_read)} of {counted(result.segments_total, 'segment')} read"
        + (f", {took}" if took else "")
    )


def table_columns(table: pa.Table) -> list[Column]:
    """Return the titles of the table's columns; numbers are right-aligned, times are of no use when they are cut."""
    import pyarrow.types as kinds

    return [
        Column(
            field.name,
            kinds.is_integer(field.type)
            or kinds.is_floating(field.type)
            or kinds.is_decimal(field.type),
            is_whole=kinds.is_temporal(field.type),
        )
        for field in table.schema
    ]
