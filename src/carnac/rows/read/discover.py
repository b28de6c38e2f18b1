"""Fields of an input and their types, for specs that do not list their dimensions, or leave types open.

Each task returns the fields of its files. The fields of several tasks are united, so the result is that of one look at
all rows. All rows are looked at, not a sample: a field that only the last line has is a dimension too.

A field of JSON without a name (`""`) is none: no column can be called so. Fields with a name that is reserved for the
store are left out.

Types, with `useSchemaDiscovery` or type `auto` (as Druid): whole numbers and booleans are long, with other numbers
double, anything mixed with text string; arrays are arrays of that; objects, and arrays of arrays or objects, are json.
A field that is null everywhere, or an array without elements, shows no type. It has that of the datasource's column,
and is no dimension as long as there is none; one that the spec lists is string.

Without `useSchemaDiscovery`, discovered dimensions are string (`array<string>` where a row has an array, json where one
has an object).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from carnac.core.segments.segment import ELEMENT_TYPES, TIME_COLUMN, ColumnType
from carnac.core.texts import check_keepable
from carnac.rows.normalise.projection import FILE, LINE, OFFSET, RAW
from carnac.rows.normalise.shape import is_reserved
from carnac.rows.read.columnar import batches_of, describe, locate, parquet_source
from carnac.rows.read.csv import Header
from carnac.rows.read.far_times import held_schema
from carnac.rows.read.inputs import InputFile
from carnac.rows.read.paths import FieldPaths, engine_look, engine_place, engine_values, field_paths
from carnac.rows.read.sources import BATCH, csv_reader, open_bytes, open_lines, plain_file
from carnac.specs.ingest.inputs import (
    ArrowFormat,
    ColumnarFormat,
    CsvFormat,
    JsonFormat,
    OrcFormat,
    ParquetFormat,
    TsvFormat,
)
from carnac.specs.ingest.json_paths import EVERY, Step

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.rows.read.reading import ReadTask
    from carnac.specs.ingest.spec import IngestSpec

Kind = str
"""`null`, `boolean`, `whole`, `number`, `text`, `object`; with `[]` behind it: of an element of an array."""

EMPTY_ARRAY = "[]"
_JSON_KINDS = {
    "NULL": "null",
    "BOOLEAN": "boolean",
    "BIGINT": "whole",
    "UBIGINT": "whole",
    "HUGEINT": "number",
    "DOUBLE": "number",
    "VARCHAR": "text",
    "OBJECT": "object",
}
_TYPED_KINDS = {
    "boolean": "boolean",
    **dict.fromkeys("tinyint smallint integer bigint".split(), "whole"),
    **dict.fromkeys("utinyint usmallint uinteger ubigint".split(), "whole"),
    **dict.fromkeys("hugeint uhugeint float double decimal".split(), "number"),
    **dict.fromkeys("struct map union json".split(), "object"),
    **dict.fromkeys(('"null"', "null"), "null"),
}
_LISTS = {element: of_lists for of_lists, element in ELEMENT_TYPES.items()}


@dataclass(frozen=True, slots=True)
class SeenFields:
    """The fields of some rows in the order in which they were first seen, and the kinds of their values."""

    kinds: Mapping[str, frozenset[Kind]] = field(default_factory=dict)


def needs_discovery(spec: IngestSpec) -> bool:
    """Whether the shape of a job's rows depends on its data."""
    return spec.dimensions.needs_data


def discover_fields(con: duckdb.DuckDBPyConnection, task: ReadTask) -> SeenFields:
    """Return the fields that the files of a task have.

    Raises:
        Invalid: A file is damaged or not what it should be.
        NotFound: A file is not there any more.
        Unavailable: A remote file cannot be copied.
    """
    con.execute("SET TimeZone = 'UTC'").complete()
    if isinstance(task.format, JsonFormat):
        # all files in one look: making a plan costs more than reading a small file
        return _in_json(con, task.files, task.scratch_dir, field_paths(task.format.flatten))
    return unite_seen(_discover_file(con, task, file) for file in task.files)


def discover_in_arrow(con: duckdb.DuckDBPyConnection, schema: pa.Schema) -> SeenFields:
    """Return the fields that Arrow data of a schema has."""
    con.register(BATCH, held_schema(schema).empty_table())
    try:
        types = describe(con, BATCH)
    finally:
        con.unregister(BATCH)
    return _typed(types, FieldPaths())


def unite_seen(seen: Iterable[SeenFields]) -> SeenFields:
    """Return what several looks saw together; fields in the order of the first look that has them."""
    united: dict[str, frozenset[Kind]] = {}
    for one in seen:
        for name, kinds in one.kinds.items():
            united[name] = united.get(name, frozenset()) | kinds
    return SeenFields(united)


def discovered_columns(
    seen: SeenFields, spec: IngestSpec, known: Mapping[str, ColumnType] | None = None
) -> tuple[tuple[str, ColumnType], ...]:
    """Return name and type of the dimensions that the data showed, as `row_shape` takes them.

    Args:
        known: Columns of the datasource, of which fields that show no type have theirs.
    """
    dimensions = spec.dimensions
    listed = {one.name: one for one in dimensions.dimensions}
    taken = {spec.timestamp.column, TIME_COLUMN, *dimensions.exclusions}
    taken |= {metric.name for metric in spec.metrics}
    taken |= {metric.input for metric in spec.metrics if metric.input is not None}
    known = known or {}
    columns: list[tuple[str, ColumnType]] = []
    kinds_of = {name: seen.kinds.get(name, frozenset()) for name in (*seen.kinds, *listed)}
    for name, kinds in kinds_of.items():
        if name in listed:
            if listed[name].type != "auto":
                continue
        elif not dimensions.discovers or name in taken or is_reserved(name):
            continue
        typed: ColumnType | None = type_of(kinds)
        if not shows_type(kinds):
            typed = known.get(name)
        elif dimensions.keep_booleans and kinds - {"null"} == {"boolean"}:
            typed = ColumnType.BOOLEAN
        elif not dimensions.use_schema_discovery and name not in listed:
            typed = _as_text(type_of(kinds), kinds)
        if typed is not None and not typed.is_sketch:
            columns.append((name, typed))
    return tuple(columns)


def reserved_fields(seen: SeenFields, spec: IngestSpec) -> tuple[str, ...]:
    """Return the fields that would be dimensions if their names were not the store's own."""
    left_out = {spec.timestamp.column, *spec.dimensions.exclusions}
    if not spec.dimensions.discovers:
        return ()
    return tuple(name for name in seen.kinds if is_reserved(name) and name not in left_out)


def type_of(kinds: Set[Kind]) -> ColumnType:
    """Return the narrowest type that takes values of all these kinds."""
    elements = {kind.removesuffix("[]") for kind in kinds} - {"", "null"}
    is_array = any(kind.endswith("[]") for kind in kinds)
    if "object" in elements:
        return ColumnType.JSON
    if "text" in elements or not elements:
        scalar = ColumnType.STRING
    else:
        scalar = ColumnType.DOUBLE if "number" in elements else ColumnType.LONG
    return _LISTS[scalar] if is_array else scalar


def shows_type(kinds: frozenset[Kind]) -> bool:
    """Whether there is a value, or an element of an array, among these kinds."""
    return not kinds <= {"null", "null[]", EMPTY_ARRAY}


def _as_text(typed: ColumnType, kinds: frozenset[Kind]) -> ColumnType:
    if typed is ColumnType.JSON:
        return typed
    is_array = any(kind.endswith("[]") for kind in kinds)
    return ColumnType.STRING_ARRAY if is_array else ColumnType.STRING


def _discover_file(con: duckdb.DuckDBPyConnection, task: ReadTask, file: InputFile) -> SeenFields:
    match task.format:
        case CsvFormat() | TsvFormat():
            return _in_csv(file, task.scratch_dir, task.format)
        case ParquetFormat() | OrcFormat() | ArrowFormat():
            return _in_columns(con, file, task.scratch_dir, task.format)
        case JsonFormat():
            return _in_json(con, [file], task.scratch_dir, field_paths(task.format.flatten))


def _in_json(
    con: duckdb.DuckDBPyConnection, files: Sequence[InputFile], scratch_dir: str, paths: FieldPaths
) -> SeenFields:
    places: dict[str, tuple[Step, ...]] = dict(paths.listed)
    if paths.discovers:
        with open_lines(con, files, scratch_dir):
            keys = con.execute(
                f"SELECT TRY(json_keys({RAW})) AS k, min(({FILE}, {OFFSET}, {LINE})) AS first FROM {BATCH}"
                " GROUP BY k HAVING k IS NOT NULL ORDER BY first"
            ).fetchall()
        root: dict[str, tuple[int, int, int | None]] = {}
        for found, first in keys:
            root |= {key: first for key in found if key and key not in root}
        for key, (file, offset, line) in root.items():
            place = f"byte {offset}" if line is None else f"line {line}"
            check_keepable(key, f"a field of {files[file].url}, {place},")
        places = {**{key: (key,) for key in root}, **places}
    if not places:
        return SeenFields()
    single = {name: steps for name, steps in places.items() if EVERY not in steps}
    names: list[str] = []
    rows: list[tuple[list[str | None] | None]] = []
    if single:
        names, types_there = engine_look("json_type", single, RAW)
        with open_lines(con, files, scratch_dir):
            rows = con.execute(f"SELECT DISTINCT {types_there} FROM {BATCH}").fetchall()
    kinds: dict[str, set[Kind]] = {name: set() for name in places}
    arrays = places.keys() - single.keys()
    for (types,) in rows:
        for name, one in zip(names, types or (), strict=False):
            if one == "ARRAY":
                arrays.add(name)
            elif one is not None:
                kinds[name].add(_JSON_KINDS[one])
    for name in sorted(arrays):
        kinds[name] |= _element_kinds(con, files, scratch_dir, places[name])
    return SeenFields({name: frozenset(found) for name, found in kinds.items()})


def _element_kinds(
    con: duckdb.DuckDBPyConnection,
    files: Sequence[InputFile],
    scratch_dir: str,
    steps: tuple[Step, ...],
) -> set[Kind]:
    if EVERY in steps:
        values = engine_values(RAW, steps)
        types = f"TRY(list_transform({values}, lambda e: json_type(e)))"
    else:
        types = f"TRY(json_type({engine_place(RAW, steps, '[*]')}))"
    with open_lines(con, files, scratch_dir):
        rows = con.execute(f"SELECT DISTINCT unnest({types}) FROM {BATCH}").fetchall()
    found = {_JSON_KINDS.get(one, "object") + "[]" for (one,) in rows if one is not None}
    return found | {EMPTY_ARRAY}


def _in_csv(file: InputFile, scratch_dir: str, file_format: CsvFormat | TsvFormat) -> SeenFields:
    header = Header(file.url, file_format, file.columns)
    if file.messages is None and not header.is_done:
        with open_bytes(file, scratch_dir) as (stream, offset):
            reader = csv_reader(stream, offset, file, file_format)
            next(reader.tables(), None)
            header = reader.header
    return SeenFields({name: frozenset({"text"}) for name in header.columns})


def _in_columns(
    con: duckdb.DuckDBPyConnection,
    file: InputFile,
    scratch_dir: str,
    file_format: ColumnarFormat,
) -> SeenFields:
    if file.size_bytes == 0:
        return SeenFields()
    paths = field_paths(file_format.flatten)
    with plain_file(file, scratch_dir) as path:
        if not isinstance(file_format, ParquetFormat):
            schema = held_schema(batches_of(file_format, path, file.url).schema)
            con.register(BATCH, schema.empty_table())
            try:
                return _typed(describe(con, BATCH), paths)
            finally:
                con.unregister(BATCH)
        source = parquet_source(con, path, file.url, binary_as_string=file_format.binary_as_string)
        return _typed(source.types, paths)


def _typed(types: dict[str, Any], paths: FieldPaths) -> SeenFields:
    places = dict(paths.listed)
    if paths.discovers:
        places = {**{name: (name,) for name in types}, **places}
    kinds: dict[str, frozenset[Kind]] = {}
    for name, steps in places.items():
        found = locate(types, steps)
        if found is not None:
            kinds[name] = frozenset({kind_of(found[1])})
    return SeenFields(kinds)


def kind_of(kind: Any) -> Kind:
    """Return the kind of the values that have a type of the engine."""
    if kind.id in {"list", "array"}:
        element = kind_of(kind.children[0][1])
        return ("object" if element.endswith("[]") else element) + "[]"
    if str(kind) == "JSON":
        return "object"
    return _TYPED_KINDS.get(kind.id, "text")
