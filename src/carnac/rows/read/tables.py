"""Tables in memory, of whatever library, as Arrow tables that the engine reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
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
_WORDS = {
    **dict.fromkeys(("NoneType", "NaTType", "NAType", "float"), ""),  # among times all are null
    **dict.fromkeys(("datetime", "datetime64"), "times"),
    **dict.fromkeys(("timedelta", "timedelta64"), "durations"),
    **dict.fromkeys(("bytes", "bytearray", "memoryview"), "bytes"),
    "date": "dates",
    "time": "times of day",
    "int": "numbers",
    "integer": "numbers",
    "str": "texts",
}
"""By name of a class, the words for values that Arrow makes others of where these stand first; empty: null."""


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
    require_single(table.column_names)
    return known_rows(table)


def require_single(names: Sequence[str]) -> None:
    """Refuse rows of which two columns have one name.

    Raises:
        Invalid: They have.
    """
    if len(set(names)) < len(names):
        repeated = sorted(name for name, times in Counter(names).items() if times > 1)
        raise Invalid(f"the rows have the column {', '.join(repeated)} more than once; rename one")


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
        return _of_pandas(rows)
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
    return pa.table({name: _column(name, [row.get(name) for row in found]) for name in names})


def _column(name: str, values: list[Any]) -> pa.Array:
    """Return values as a column; what pandas writes for null is null where it goes with nothing else."""
    import pyarrow as pa

    try:
        try:
            column = pa.array(values)
        except (pa.ArrowException, ValueError):
            column = pa.array(values, from_pandas=True)
    except (ValueError, TypeError, NotImplementedError) as error:
        kinds = sorted({type(one).__name__ for one in values if one is not None})
        words = f"it holds {' beside '.join(kinds)}" if len(kinds) > 1 else _words_of(error)
        raise ValueError(f"column '{name}': {words}") from error
    _require_alike(name, values, column.type)
    return column


def _of_pandas(frame: Any) -> pa.Table:
    import pyarrow as pa

    index = frame.index
    if index.names == [None] and index.dtype.kind == "M":
        raise Invalid(
            "the index of the DataFrame holds times and has no name; rename_axis('time') makes a column of it, and"
            " reset_index(drop=True) leaves it out"
        )
    named = [name for name in index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(named) if named else frame
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for place, (name, kind) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if frame.dtypes.iloc[place] == "object":
            _require_alike(name, frame.iloc[:, place].tolist(), kind)
    return table


def _require_alike(name: str, values: Sequence[Any], kind: pa.DataType) -> None:
    """Refuse values of which Arrow makes others without a word: a date of a time, bytes of a text.

    Raises:
        ValueError: Some are not of the kind of the others.
    """
    import pyarrow.types as kinds

    if kinds.is_struct(kind):
        for field in kind:
            parts = [one.get(field.name) for one in values if isinstance(one, Mapping)]
            _require_alike(f"{name}.{field.name}", parts, field.type)
    elif kinds.is_list(kind):
        nested = kinds.is_nested(kind.value_type)
        if nested or kinds.is_temporal(kind.value_type) or kinds.is_binary(kind.value_type):
            lists = (one for one in values if isinstance(one, list | tuple | set))
            _require_alike(name, list(chain.from_iterable(lists)), kind.value_type)
    elif kinds.is_temporal(kind) or kinds.is_binary(kind):
        words = {_words_for(one) for one in set(map(type, values))} - {""}
        if len(words) > 1:
            raise ValueError(f"column '{name}' holds {' and '.join(sorted(words))}")
        if "times" in words and len({_has_zone(one) for one in values} - {None}) > 1:
            raise ValueError(f"column '{name}' holds times with and without a time zone")


def _has_zone(value: object) -> bool | None:
    """Return whether a time has a zone; None: it is no time, as the null of pandas."""
    if not isinstance(value, datetime) or type(value).__name__ == "NaTType":
        return None
    return value.tzinfo is not None


def _words_for(kind: type) -> str:
    return next(
        (_WORDS[one.__name__] for one in kind.__mro__ if one.__name__ in _WORDS), kind.__name__
    )
