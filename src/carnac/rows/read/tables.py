"""Tables in memory, of whatever library, as Arrow tables that the engine reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from carnac.core.texts import cut, first_line
from carnac.errors import Invalid
from carnac.rows.read.arrow_types import known_rows

if TYPE_CHECKING:
    import pyarrow as pa

KEY_SHOWN = 40
_NOT_OF_ARROW = {
    "Object": "Python objects",  # Polars hands over their addresses in memory
    **dict.fromkeys(("Int128", "UInt128"), "numbers of 128 bits"),
}
"""By type of Polars, the words for values that Arrow has no type for."""


def arrow_table(rows: Any) -> pa.Table:
    """Return an Arrow table, a pandas or a Polars DataFrame as an Arrow table that the engine reads.

    Raises:
        Invalid: It is none of these, has no columns or two of one name, or a column mixes types, has one that cannot be
            read, or holds a number of more than 64 bits.
    """
    try:
        table = _as_table(rows)
    except (ValueError, TypeError, NotImplementedError) as error:  # Arrow's own are of these kinds
        raise Invalid(
            f"the rows cannot be read as a table: {_words_of(error)}; give each column one name and one type"
        ) from error
    except OverflowError as error:
        raise Invalid(
            "the rows hold a number of more than 64 bits; give it as a float or as a text"
        ) from error
    if not table.num_columns:
        raise Invalid(
            "the rows show no columns; give at least the one that holds the time, or a spec"
        )
    names = table.column_names
    if len(set(names)) < len(names):
        repeated = sorted(name for name, times in Counter(names).items() if times > 1)
        raise Invalid(f"the rows have the column {', '.join(repeated)} more than once; rename one")
    return known_rows(table)


def _words_of(error: Exception) -> str:
    """Return what an error says; Arrow's may say it in two parts, the second one of which column."""
    if len(error.args) > 1 and all(isinstance(part, str) for part in error.args):
        return ": ".join(part.splitlines()[0] for part in reversed(error.args) if part)
    return first_line(error)


def _as_table(rows: Any) -> pa.Table:
    import pyarrow as pa

    if isinstance(rows, list | tuple):
        return _of_mappings(rows)
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if hasattr(rows, "to_arrow") and hasattr(rows, "schema"):
        for name, kind in rows.schema.items():
            if str(kind) in _NOT_OF_ARROW:
                raise ValueError(f"column {name} holds {_NOT_OF_ARROW[str(kind)]}")
        return pa.table(rows.to_arrow())
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):
        named = [name for name in rows.index.names if name is not None and name not in rows.columns]
        return pa.Table.from_pandas(
            rows.reset_index(named) if named else rows, preserve_index=False
        )
    raise Invalid(
        f"rows of type {type(rows).__name__} cannot be read; give a Spark, pandas or Polars DataFrame,"
        " an Arrow table or a list of dicts"
    )


def _of_mappings(rows: Sequence[object]) -> pa.Table:
    """Return rows that are mappings as a table; columns that a row does not name are null there."""
    import pyarrow as pa

    names: dict[str, None] = {}
    for index, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise Invalid(
                f"row {index} is of type {type(row).__name__}, not a dict of column and value"
            )
        for key in row:
            if not isinstance(key, str):
                raise Invalid(
                    f"row {index} has a column named by {cut(repr(key), KEY_SHOWN)}, which is no text;"
                    " name each column by a text"
                )
            names[str.__str__(key)] = None  # also of an enumeration of texts
    found = [row for row in rows if isinstance(row, Mapping)]
    return pa.table({name: _column([row.get(name) for row in found]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    """Return values as a column; what pandas writes for null is null where it goes with nothing else."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, ValueError):
        return pa.array(values, from_pandas=True)
