"""Parquet, ORC and Arrow: typed columns. Rows are numbered from 1, as lines are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from carnac.core.quoting import quote, quote_path, quote_text
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.texts import check_keepable, first_line
from carnac.core.words import first_of
from carnac.errors import Invalid
from carnac.ports.temporary import make_private
from carnac.rows.normalise.coerce import Field
from carnac.rows.normalise.projection import (
    FILE,
    LINE,
    OFFSET,
    RAW,
    count,
    field_names,
    insert_sql,
    make_projection,
    run,
)
from carnac.rows.normalise.shape import RowShape
from carnac.rows.read.arrow_types import bytes_as_text, changed_rows, changed_schema
from carnac.rows.read.far_times import held_times
from carnac.rows.read.lines import long_array
from carnac.rows.read.paths import FieldPaths, engine_place, engine_values, without_nulls
from carnac.specs.ingest.inputs import OrcFormat
from carnac.specs.ingest.json_paths import EVERY, Step

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.specs.ingest.inputs import ColumnarFormat
    from carnac.specs.ingest.schema import TimestampSpec

T = TypeVar("T")
SOURCE_LINE = "__carnac_row"
COLUMNS_AT_ONCE = 64
"""Columns of a sample that are read, or looked at, in one statement: all of a wide table would not fit into memory."""
ROW_NUMBER = "file_row_number"
"""Column of the engine's own with the number of a row of Parquet, from 0; a column of the file hides it."""

SCHEMAS_MAX = 100
"""Number of Arrow schemas that are remembered with the engine's types of their columns."""
_OF_SCHEMAS: dict[bytes, dict[str, Any]] = {}
_F = "__carnac_f"
_FAR = re.compile(
    r"Could not convert (Timestamp|Interval)|convert TIMESTAMPTZ|out of range in timestamp|Overflow in \w+ of INT64"
)
"""Words of the engine about times that it has no room for, which end a statement before an expression sees them."""
_OF_ENGINE = re.compile(r".*_\d+|C\d+", re.DOTALL)
"""Names that the engine gives to columns that share one with another, or have none."""


class FarTimes(Invalid):
    """A file holds a time that the engine has no room for."""


@dataclass(frozen=True, slots=True)
class TypedSource:
    """A relation of typed columns.

    Attributes:
        relation: Text after FROM.
        row: Expression of the row's number, from 1.
        types: DuckDB's type of each column, by name.
        name: Of the file, for errors.
    """

    relation: str
    row: str
    types: dict[str, Any]
    name: str


def parquet_source(
    con: duckdb.DuckDBPyConnection, path: Path, name: str, *, binary_as_string: bool
) -> TypedSource:
    """Open a Parquet file.

    Raises:
        Invalid: It is no Parquet file, or a damaged one, or two of its columns have one name; names it.
    """
    binary = ", binary_as_string=true" if binary_as_string else ""
    relation = f"read_parquet({quote_path(path)}, hive_partitioning=false{binary})"
    with unreadable(name, "Parquet"):
        types = describe(con, relation)
    if any("\0" in column or _OF_ENGINE.fullmatch(column) for column in types):
        import pyarrow.parquet as pq

        require_own_names(pq.read_schema(path).names, name)
    if ROW_NUMBER not in map(str.lower, types):
        return TypedSource(relation, f"{ROW_NUMBER} + 1", types, name)
    relation = f"(SELECT *, row_number() OVER () AS {SOURCE_LINE} FROM {relation})"
    return TypedSource(relation, SOURCE_LINE, types, name)


def parquet_rows(con: duckdb.DuckDBPyConnection, path: Path) -> int:
    """Return how many rows a Parquet file has."""
    metadata = f"parquet_file_metadata({quote_path(path)})"
    return count(con, f"SELECT coalesce(sum(num_rows), 0) FROM {metadata}")


def read_parquet(path: Path, scratch_dir: str, read: Callable[[Path], T]) -> T:
    """Read a Parquet file; one with far times is read from a copy in which they are infinite."""
    try:
        return read(path)
    except FarTimes:
        import pyarrow.parquet as pq

        target = make_private(Path(scratch_dir)) / f"near-{path.name}"
        file = pq.ParquetFile(path, coerce_int96_timestamp_unit="ms")
        schema = changed_schema(file.schema_arrow, held_times)
        try:
            with pq.ParquetWriter(target, schema, compression="lz4") as writer:
                for batch in file.iter_batches():
                    writer.write_batch(changed_rows(batch, held_times))
            return read(target)
        finally:
            target.unlink(missing_ok=True)


def parquet_sample(
    con: duckdb.DuckDBPyConnection, path: Path, name: str, scratch_dir: str, rows: int
) -> tuple[pa.Table, bool]:
    """Return so many first rows of a Parquet file and as many of its last ones, and whether they are all.

    Raises:
        Invalid: As of `parquet_source`.
    """
    import pyarrow as pa

    def read(path: Path) -> tuple[pa.Table, bool]:
        source = parquet_source(con, path, name, binary_as_string=False)
        total = parquet_rows(con, path)
        columns = list(source.types)
        wheres = (f"{source.row} <= {rows}", f"{source.row} > {max(rows, total - rows)}")

        def part(where: str) -> pa.Table:
            found: dict[str, pa.ChunkedArray] = {}
            for start in range(0, len(columns), COLUMNS_AT_ONCE):
                some = columns[start : start + COLUMNS_AT_ONCE]
                names = ", ".join(map(quote, some))
                table = con.sql(
                    f"SELECT {names} FROM {source.relation} WHERE {where}"
                ).to_arrow_table()
                found.update(zip(some, table.columns, strict=True))
            return pa.table(found)

        con.execute("SET arrow_lossless_conversion = true").complete()  # JSON stays JSON
        try:
            with unreadable(name, "Parquet"):
                tables = [part(where) for where in wheres]
        finally:
            con.execute("RESET arrow_lossless_conversion").complete()
        return pa.concat_tables(tables), total <= rows

    return read_parquet(path, scratch_dir, read)


def arrow_source(
    con: duckdb.DuckDBPyConnection, relation: str, name: str, schema: pa.Schema
) -> TypedSource:
    """Return a registered Arrow reader made by `numbered`.

    Args:
        schema: Of the data.

    Raises:
        Invalid: Two of its columns have one name.
    """
    require_own_names(schema.names, name)
    key = schema.serialize().to_pybytes()
    types = _OF_SCHEMAS.get(key)
    if types is None:
        types = describe(con, relation)
        del types[SOURCE_LINE]
        if len(_OF_SCHEMAS) >= SCHEMAS_MAX:
            _OF_SCHEMAS.clear()
        _OF_SCHEMAS[key] = types
    return TypedSource(relation, SOURCE_LINE, types, name)


def batches_of(file_format: ColumnarFormat, path: Path, name: str) -> pa.RecordBatchReader:
    """Open a file of ORC or Arrow.

    Raises:
        Invalid: It is no such file, or a damaged one; names it.
    """
    import pyarrow as pa

    is_orc = isinstance(file_format, OrcFormat)
    found = _orc_batches(path, name) if is_orc else _arrow_batches(path, name)
    if not file_format.binary_as_string:
        return found
    schema = changed_schema(found.schema, bytes_as_text)
    return pa.RecordBatchReader.from_batches(
        schema, (changed_rows(batch, bytes_as_text) for batch in found)
    )


def _arrow_batches(path: Path, name: str) -> pa.RecordBatchReader:
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from found
        except (pa.ArrowException, OSError) as error:
            raise _not_readable(name, "Arrow", error) from error

    try:
        source = pa.memory_map(str(path))
        magic = source.read(4)
        source.seek(0)
        if magic == b"FEA1":
            raise Invalid(f"{name} is Feather of version 1; write it anew as version 2", url=name)
        if magic == b"ARRO":
            file = pa.ipc.open_file(source)
            found = (file.get_batch(index) for index in range(file.num_record_batches))
            schema = file.schema
        else:
            stream = pa.ipc.open_stream(source)
            found, schema = iter(stream), stream.schema
    except (pa.ArrowException, OSError) as error:
        raise _not_readable(name, "Arrow", error) from error
    return pa.RecordBatchReader.from_batches(schema, batches())


def _orc_batches(path: Path, name: str) -> pa.RecordBatchReader:
    import pyarrow as pa
    from pyarrow import orc

    try:
        file = orc.ORCFile(path)
        schema = file.schema
    except (pa.ArrowException, OSError) as error:
        raise _not_readable(name, "ORC", error) from error

    def batches() -> Iterator[pa.RecordBatch]:
        for stripe in range(file.nstripes):
            try:
                yield file.read_stripe(stripe)
            except (pa.ArrowException, OSError) as error:
                raise _not_readable(name, "ORC", error) from error

    return pa.RecordBatchReader.from_batches(schema, batches())


def numbered(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, first_row: int = 1
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the batches with the number of each row as a further column."""
    import numpy as np
    import pyarrow as pa

    wide = schema.append(pa.field(SOURCE_LINE, pa.int64()))

    def widened() -> Iterator[pa.RecordBatch]:
        row = first_row
        for batch in batches:
            rows = long_array(np.arange(row, row + batch.num_rows, dtype=np.int64))
            row += batch.num_rows
            yield pa.RecordBatch.from_arrays([*batch.columns, rows], schema=wide)

    return wide, widened()


def require_own_names(names: Sequence[str], source: str) -> None:
    """Refuse columns that the engine cannot tell apart, and those without a name: it gives them names of its own.

    Raises:
        Invalid: There are such, or one has no name, or one that no statement could say.
    """
    if "" in names:
        raise Invalid(
            f"column {list(names).index('') + 1} of input {source} has no name; give it one"
        )
    alike: dict[str, list[str]] = {}
    for name in names:
        check_keepable(name, f"the name of a column of input {source}")
        alike.setdefault(name.lower(), []).append(name)
    for group in alike.values():
        if len(group) > 1:
            differs = "" if len(set(group)) == 1 else " (they differ in case only)"
            raise Invalid(
                f"input {source} has {len(group)} columns named {' and '.join(dict.fromkeys(group))}{differs}; "
                "rename all but one",
                columns=group,
            )


def require_time(
    spec: TimestampSpec, columns: Sequence[str], source: str, *, hint: str = ""
) -> None:
    """Refuse an input of which no row has a time.

    Args:
        columns: All that it has, without that of the spec.
        hint: Another possible mistake, for the message.

    Raises:
        Invalid: The spec says nothing of rows without one.
    """
    if spec.missing_value is not None or not columns:
        return
    shown = first_of([name if len(name) <= 40 else f"{name[:40]}…" for name in columns], 10)
    if TIME_COLUMN in columns:  # of rows that were read from a datasource
        hint = f"; rename {TIME_COLUMN} to {spec.column}, or give a spec with timestampSpec.column {TIME_COLUMN}"
    raise Invalid(
        f"input {source} has no column '{spec.column}', in which timestampSpec looks for the time: "
        f"its columns are {shown}{hint}",
        column=spec.column,
        url=source,
    )


def load_typed(
    con: duckdb.DuckDBPyConnection,
    source: TypedSource,
    shape: RowShape,
    timestamp: TimestampSpec,
    paths: FieldPaths,
    *,
    file: int,
) -> None:
    """Read the relation into the table, good and bad.

    Raises:
        Invalid: A column's type can never become what the spec says; there is none for the time.
        SeveralValues: A column is an array, its dimension a string.
    """
    names = field_names(shape, timestamp)
    fields: dict[str, Field] = {}
    selected: list[str] = []
    for index, name in enumerate(names):
        found = locate(source.types, paths.find(name))
        if found is None:
            fields[name] = Field(kind="absent")
            continue
        sql, sql_type = found
        selected.append(f"{sql} AS {_F}{index}")
        fields[name] = Field(kind="typed", sql=f"{_F}{index}", sql_type=str(sql_type))
    if fields[timestamp.column].kind == "absent":
        require_time(timestamp, list(source.types), source.name)
    try:
        projection = make_projection(shape, timestamp, fields.__getitem__)
    except Invalid as error:
        if type(error) is not Invalid:
            raise
        raise Invalid(f"input {source.name}: {error.message}", **error.ids) from None
    raw = ", ".join(
        f"{quote(name)} := {field.sql}" for name, field in fields.items() if field.kind != "absent"
    )
    packed = f"CAST(to_json(struct_pack({raw})) AS VARCHAR)" if raw else "''"
    query = (
        f"SELECT {file} AS {FILE}, {source.row} AS {LINE}, CAST(NULL AS BIGINT) AS {OFFSET}, NULL AS {RAW}"
        f"{''.join(', ' + one for one in selected)} FROM {source.relation}"
    )
    statement = insert_sql(projection, query, raw=packed)
    with unreadable(source.name, "input"):
        run(con, statement)


def locate(types: dict[str, Any], steps: tuple[Step, ...] | None) -> tuple[str, Any] | None:
    """Return the expression of a nested place and its type; None if there is none."""
    if steps is None:
        return None
    import duckdb

    found: _Found | None
    if not steps or not isinstance(steps[0], str):
        fields = ", ".join(f"{quote(name)} := {quote(name)}" for name in types)
        found = _within(f"to_json(struct_pack({fields}))", duckdb.sqltype("JSON"), steps)
    elif steps[0] not in types:
        return None
    else:
        found = _within(quote(steps[0]), types[steps[0]], steps[1:])
    if found is None or not found.is_several:
        return None if found is None else (found.sql, found.type)
    is_json = str(found.type) == "JSON"
    values = without_nulls(found.sql, is_json=is_json)
    if is_json:
        return f"to_json({values})", found.type
    return values, duckdb.list_type(found.type)


class _Found(NamedTuple):
    """An expression and its type; of several values, a list, the type of one."""

    sql: str
    type: Any
    is_several: bool = False


def _within(sql: str, kind: Any, steps: tuple[Step, ...]) -> _Found | None:
    """Return what is at a path inside of an expression; None if its type has no such place."""
    if not steps:
        return _Found(sql, kind)
    step, rest = steps[0], steps[1:]
    if kind.id in {"varchar", "json"} or str(kind) == "JSON":
        return _within_json(sql, steps)
    if step is EVERY:
        return _every(sql, kind, steps)
    if kind.id == "struct" and isinstance(step, str):
        children = dict(kind.children)
        return _within(f"{sql}.{quote(step)}", children[step], rest) if step in children else None
    if kind.id in {"list", "array"} and isinstance(step, int):
        return _within(f"{sql}[{step + 1 if step >= 0 else step}]", kind.children[0][1], rest)
    if kind.id == "map" and isinstance(step, str):
        return _within(f"{sql}[{quote_text(step)}]", dict(kind.children)["value"], rest)
    return None


def _within_json(sql: str, steps: tuple[Step, ...]) -> _Found:
    import duckdb

    kind = duckdb.sqltype("JSON")
    if EVERY in steps:
        return _Found(engine_values(sql, steps), kind, is_several=True)
    return _Found(f"TRY(json_extract({engine_place(sql, steps)}))", kind)


def _every_member(sql: str, kind: Any, steps: tuple[Step, ...]) -> _Found:
    """Return what is at a path inside of every field of a struct, as JSON where that is of several types."""
    inner = [
        found
        for name, child in kind.children
        if (found := _within(f"{sql}.{quote(name)}", child, steps[1:])) is not None
    ]
    if len({(str(one.type), one.is_several) for one in inner}) != 1:
        return _within_json(f"to_json({sql})", steps)
    values = f"[{', '.join(one.sql for one in inner)}]"
    first = inner[0]
    return _Found(f"flatten({values})" if first.is_several else values, first.type, is_several=True)


def _every(sql: str, kind: Any, steps: tuple[Step, ...]) -> _Found | None:
    """Return what is at a path inside of every value of a list, map or struct."""
    if kind.id == "struct":
        return _every_member(sql, kind, steps)
    if kind.id == "map":
        sql, element = f"map_values({sql})", dict(kind.children)["value"]
    elif kind.id in {"list", "array"}:
        element = kind.children[0][1]
    else:
        return None
    one = f"e{len(steps)}"  # a name of its own, however deep
    inner = _within(one, element, steps[1:])
    if inner is None:
        return None
    values = f"list_transform({sql}, lambda {one}: {inner.sql})" if inner.sql != one else sql
    return _Found(f"flatten({values})" if inner.is_several else values, inner.type, is_several=True)


def describe(con: duckdb.DuckDBPyConnection, relation: str) -> dict[str, Any]:
    """Return the type of each column of a relation."""
    cursor = con.execute(f"SELECT * FROM {relation} LIMIT 0")
    described = {name: kind for name, kind, *_ in cursor.description or []}
    cursor.complete()
    return described


@contextmanager
def unreadable(name: str, kind: str) -> Iterator[None]:
    """Turn DuckDB's errors about a damaged file into ours.

    Args:
        name: Of the file.
        kind: Kind of file that it should have been.

    Raises:
        Invalid: There was such an error.
    """
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise _not_readable(name, kind, error) from error


def _not_readable(name: str, kind: str, error: BaseException) -> Invalid:
    text = first_line(error)
    what = "input" if kind == "input" else f"{kind} file"
    is_far = _FAR.search(text) is not None
    if is_far:
        text = "it holds a time or a duration further from now than 290,000 years; correct it where the file is written"
    return (FarTimes if is_far else Invalid)(f"{what} {name} cannot be read: {text}", url=name)
