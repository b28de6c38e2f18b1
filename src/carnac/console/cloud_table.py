"""Read which server holds what from a table of segments: datasource, server, start of the segment's interval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from carnac.core.time.intervals import parse_instant
from carnac.core.words import counted
from carnac.errors import Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from carnac.console.clouds import Cloud

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}


def load_cloud(
    path: Path, *, datasource: str = "datasource", server: str = "server", start: str = "start"
) -> Cloud:
    """Return what a CSV, TSV, Parquet or JSON lines file says; its suffix tells which it is.

    Args:
        datasource, server, start: Names of the columns. A start is a time, ISO 8601 text, or epoch milliseconds.

    Raises:
        NotFound: There is no such file.
        Invalid: It is not such a table.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from carnac.console.clouds import Cloud

    needed = (datasource, server, start)
    table = read_table(path, needed)
    for name in needed:
        if table[name].null_count:
            raise Invalid(
                f"column '{name}' of table {path} is empty in {table[name].null_count:,} of "
                f"{counted(table.num_rows, 'row')}",
                path=str(path),
            )
    if not table.num_rows:
        raise Invalid(f"table {path} has no rows", path=str(path))
    names, color = _codes(pc.cast(table[datasource], pa.string()))
    servers, band = _codes(_server_key(table[server]))
    return Cloud(
        server=band,
        start_ms=_to_ms(table[start], start, path),
        color=color,
        servers=servers,
        datasources=names,
    )


def read_table(path: Path, needed: Sequence[str]) -> pa.Table:
    """Return the rows of a file; its suffix tells which kind it is.

    Args:
        needed: Columns that it must have, whatever others.

    Raises:
        NotFound: There is no such file.
        Invalid: It is of no known kind, or not what its suffix says, or a column is not there.
        Unavailable: It cannot be read.
    """
    table = _read(path)
    for name in needed:
        if name not in table.column_names:
            raise Invalid(
                f"table {path} has no column '{name}'; it has {', '.join(table.column_names)}",
                path=str(path),
            )
    return table


def _read(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet

    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise Invalid(
            f"table {path} must end in one of {', '.join(SUFFIXES)}, so that its format is known",
            path=str(path),
        )
    try:
        if kind == "parquet":
            return pyarrow.parquet.read_table(path, partitioning=None)
        if kind == "json":
            return pyarrow.json.read_json(path)
        options = pyarrow.csv.ParseOptions(delimiter="\t" if kind == "tsv" else ",")
        return pyarrow.csv.read_csv(path, parse_options=options)
    except FileNotFoundError:
        raise NotFound(f"there is no table {path}", path=str(path)) from None
    except IsADirectoryError:
        raise Invalid(f"table {path} is a directory; give a file", path=str(path)) from None
    except pa.ArrowInvalid as error:
        raise Invalid(
            f"table {path} cannot be read as {kind}: {str(error).splitlines()[0]}", path=str(path)
        ) from None
    except OSError as error:
        raise Unavailable(f"table {path} cannot be read: {error}", path=str(path)) from None


def _codes(column: pa.ChunkedArray) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the different values in order, and for each row which it is."""
    import numpy as np

    encoded = column.combine_chunks().dictionary_encode()
    values = encoded.dictionary.to_pylist()
    order = sorted(range(len(values)), key=lambda index: values[index])
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    return [str(values[index]) for index in order], rank[
        encoded.indices.to_numpy(zero_copy_only=False)
    ]


def _server_key(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return servers as text if they are not numbers: numbers are in order of size, names of the alphabet."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return column if pa.types.is_integer(column.type) else pc.cast(column, pa.string())


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    import numpy as np

    return np.asarray(column.to_numpy(), dtype=np.int64)


def _to_ms(column: pa.ChunkedArray, name: str, path: Path) -> npt.NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        in_ms = pc.cast(pc.cast(column, pa.timestamp("ms"), safe=False), pa.int64())
        return _numbers(in_ms)
    if pa.types.is_integer(kind):
        return _numbers(pc.cast(column, pa.int64()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        different, codes = _codes(column)
        import numpy as np

        try:
            instants = np.array([parse_instant(text) for text in different], np.int64)
        except Invalid as error:
            raise Invalid(
                f"column '{name}' of table {path}: {error.message}", path=str(path)
            ) from None
        return instants[codes]
    raise Invalid(
        f"column '{name}' of table {path} is of type {kind}; it must hold times, ISO 8601 text or epoch milliseconds",
        path=str(path),
    )
