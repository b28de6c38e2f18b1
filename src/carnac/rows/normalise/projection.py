"""The columns of normalised rows as one list of SQL expressions over the fields of an input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from carnac.core.quoting import quote, quote_text
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.errors import Invalid
from carnac.rows.normalise import changes, coerce, timestamps
from carnac.rows.normalise.changes import Change
from carnac.rows.normalise.coerce import Field, Target, coerce_cell
from carnac.rows.normalise.shape import ORDER_PREFIX, RowShape
from carnac.rows.normalise.timestamps import TimeCell, text_time, typed_time
from carnac.specs.ingest.schema import TimestampSpec

if TYPE_CHECKING:
    import duckdb

LINE = "__carnac_line"
OFFSET = "__carnac_offset"
RAW = "__carnac_raw"
"""The text of a bad record; of a good one the marks of what was changed."""
SEPARATOR = "\x1f"
FILE = "__carnac_file"
REASON = "__carnac_reason"
LOADED = "__carnac_loaded"
"""The table that holds everything read: rows without a reason are good."""
_WITH_MACROS: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
_SKETCHES: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[ColumnType]] = WeakKeyDictionary()
"""By connection, the types of sketches that it can tell from other bytes."""
_MADE: WeakKeyDictionary[duckdb.DuckDBPyConnection, tuple[str, str]] = WeakKeyDictionary()
"""By connection, the statements that made its table and its view."""
PARSED_MAX = 32
"""Statements that a connection keeps as parsed: to parse one takes as long as to run it on a thousand rows."""
_PARSED: WeakKeyDictionary[duckdb.DuckDBPyConnection, dict[str, duckdb.Statement]] = (
    WeakKeyDictionary()
)

_TIME_TEXT = {
    "json": "json_extract_string({}, '$')",
    "text": "{}",
    "absent": "CAST(NULL AS VARCHAR)",
}
PARSED = Field(kind="typed", sql=f"epoch_ms({quote(TIME_COLUMN)})", sql_type="BIGINT")
"""The time of a row as the input of a metric: epoch milliseconds, as Druid's expressions see it."""
_AUTO = TimestampSpec(column="?", format="auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The projection of the fields of a record.

    Attributes:
        values: Quoted name and expression of each column, in the order of normalised rows.
        reasons: Expressions over fields and values: text if the row is bad.
        cuts: Mark of a change, and whether a record has it, as a condition over fields and values.
    """

    values: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    cuts: tuple[tuple[str, str], ...] = ()

    @property
    def reason(self) -> str:
        """The first reason that holds, or null."""
        there = [reason for reason in self.reasons if reason != "NULL"]
        return f"COALESCE({', '.join(there)})" if len(there) > 1 else there[0]

    @property
    def cut(self) -> str:
        """The marks of what was changed, as text, or null."""
        marks = [f"CASE WHEN TRY({cut}) THEN {quote_text(mark)} END" for mark, cut in self.cuts]
        return f"nullif(concat_ws('{SEPARATOR}', {', '.join(marks)}), '')" if marks else "NULL"

    @property
    def select_list(self) -> str:
        """The values, named; null where the engine has none, so that no cell ends a load."""
        return ", ".join(f"TRY({value}) AS {name}" for name, value in self.values)

    @property
    def names(self) -> str:
        """The names, in order."""
        return ", ".join(name for name, _ in self.values)


def field_names(shape: RowShape, timestamp: TimestampSpec) -> tuple[str, ...]:
    """Return the input fields that a shape needs, none twice."""
    inputs = [column.field for column in shape.input_columns if column.field != TIME_COLUMN]
    return tuple(dict.fromkeys([timestamp.column, *shape.dimension_names, *inputs]))


def targets(shape: RowShape) -> list[Target]:
    """Return what the columns beside `__time` must become, in order."""
    wanted = [
        Target(
            field=dimension.name,
            out=quote(dimension.name),
            type=dimension.type,
            multi_value=dimension.multi_value,
            may_split=True,
        )
        for dimension in shape.dimensions
    ]
    wanted += [
        Target(field=column.field, out=quote(column.name), type=column.type)
        for column in shape.input_columns
    ]
    return wanted


def reads_time(target: Target) -> bool:
    """Whether the column is made of the time of the row, not of a field of the input."""
    return target.field == TIME_COLUMN


def is_instant(target: Target) -> bool:
    """Whether the column is the instant that orders `first` and `last`."""
    return target.out.startswith('"' + ORDER_PREFIX)


def make_projection(
    shape: RowShape,
    timestamp: TimestampSpec,
    resolve: Callable[[str], Field],
    *,
    list_delimiter: str | None = None,
) -> Projection:
    """Return the columns of normalised rows.

    Args:
        resolve: Gives the field of a name.
        list_delimiter: Text between several values in one cell of text.

    Raises:
        Invalid: A field's type can never become its column's type.
        SeveralValues: A field is an array, its column a string.
    """
    time = time_cell(resolve(timestamp.column), quote(TIME_COLUMN), timestamp)
    values = [(quote(TIME_COLUMN), time.value)]
    reasons = [time.reason]
    cuts = time_cuts(time, timestamp)
    several: set[str] = set()
    for target in targets(shape):
        source = PARSED if reads_time(target) else resolve(target.field)
        try:
            cell = (
                instant_cell(source, target)
                if is_instant(target)
                else coerce_cell(source, target, list_delimiter=list_delimiter)
            )
        except coerce.SeveralValues as found:
            several.update(found.columns)
            continue
        values.append((target.out, cell.value))
        reasons.append(cell.reason)
        if cell.cut is not None:
            change, condition = cell.cut
            cuts.append((changes.mark(change, target.field), condition))
    if several:
        raise coerce.SeveralValues(several)
    return Projection(values=tuple(values), reasons=tuple(reasons), cuts=tuple(cuts))


def time_cell(source: Field, out: str, timestamp: TimestampSpec) -> TimeCell:
    """Return the time of a field."""
    if source.kind == "typed":
        return typed_time(source.sql, out, source.sql_type, timestamp)
    return text_time(_TIME_TEXT[source.kind].format(source.sql), out, timestamp)


def time_cuts(time: TimeCell, timestamp: TimestampSpec) -> list[tuple[str, str]]:
    """Return the change of a time as `Projection.cuts` has it."""
    return [] if time.cut is None else [(changes.mark(Change.TIME, timestamp.column), time.cut)]


def instant_cell(source: Field, target: Target) -> coerce.Cell:
    """Return epoch microseconds of a field that holds a time (ISO 8601, or milliseconds)."""
    at = _AUTO.model_copy(update={"column": target.field})
    time = time_cell(source, target.out, at)
    there = source.sql if source.kind != "json" else _TIME_TEXT["json"].format(source.sql)
    reason = quote_text(f"not a time: {target.field}")
    return coerce.Cell(
        value=f"_time_us({time.value})",
        reason=f"CASE WHEN {there} IS NOT NULL AND ({target.out} IS NULL OR {time.has_far_offset}) THEN {reason} END",
    )


def check_names(shape: RowShape) -> None:
    """Refuse columns whose names differ only in case, which the engine cannot tell apart.

    Raises:
        Invalid: There are such columns; names them.
    """
    seen: dict[str, str] = {TIME_COLUMN: TIME_COLUMN}
    for name, _ in shape.normalised_columns:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise Invalid(
                f"columns '{other}' and '{name}' differ only in case; leave one out or rename it"
            )


def run(
    con: duckdb.DuckDBPyConnection, statement: str, parameters: dict[str, object] | None = None
) -> None:
    """Run a statement that returns nothing, to its end."""
    con.execute(parsed(con, statement), parameters).complete()


def parsed(con: duckdb.DuckDBPyConnection, statement: str) -> duckdb.Statement:
    """Return the statement as parsed, which the connection keeps for the next time."""
    known = _PARSED.setdefault(con, {})
    if statement not in known:
        if len(known) == PARSED_MAX:
            known.clear()
        [known[statement]] = con.extract_statements(statement)
    return known[statement]


def count(con: duckdb.DuckDBPyConnection, query: str) -> int:
    """Return the one number that a query yields."""
    return int(con.execute(query).fetchall()[0][0])


def prepare(con: duckdb.DuckDBPyConnection, shape: RowShape) -> None:
    """Set the session up and make an empty table for the rows that are read.

    Raises:
        Invalid: Two columns' names differ only in case.
    """
    check_names(shape)
    make_macros(con)
    _make_sketch_functions(con, shape)
    columns = ", ".join(
        f"{quote(name)} {SQL_TYPE[kind]}" for name, kind in shape.normalised_columns
    )
    table = (
        f"CREATE OR REPLACE TEMP TABLE {LOADED} ({FILE} INTEGER, {LINE} BIGINT, {OFFSET} BIGINT,"
        f" {REASON} VARCHAR, {RAW} VARCHAR, {quote(TIME_COLUMN)} TIMESTAMPTZ"
        f"{', ' if columns else ''}{columns})"
    )
    run(con, table)
    if _MADE.get(con, ("", ""))[0] != table:
        _MADE[con] = table, ""


def make_view(con: duckdb.DuckDBPyConnection, shape: RowShape, condition: str) -> None:
    """Make the view `rows`: those of the table that are good and for which the condition holds."""
    names = ", ".join(map(quote, (TIME_COLUMN, *(name for name, _ in shape.normalised_columns))))
    view = f"CREATE OR REPLACE TEMP VIEW rows AS SELECT {names} FROM {LOADED} WHERE {condition}"
    table, before = _MADE[con]
    if view != before:
        run(con, view)
        _MADE[con] = table, view


def make_macros(con: duckdb.DuckDBPyConnection) -> None:
    """Set UTC and make what the expressions call, unless this connection has it.

    That takes as long as to read a thousand rows.
    """
    if con in _WITH_MACROS:
        return
    run(con, "SET TimeZone = 'UTC'")
    for macro in (*timestamps.MACROS, *coerce.MACROS):
        run(con, macro)
    _WITH_MACROS.add(con)


def _make_sketch_functions(con: duckdb.DuckDBPyConnection, shape: RowShape) -> None:
    known = _SKETCHES.setdefault(con, set())
    for kind in {kind for _, kind in shape.normalised_columns if kind.is_sketch} - known:
        coerce.make_sketch_functions(con, kind)
        known.add(kind)


def insert_sql(projection: Projection, source: str, *, raw: str = RAW) -> str:
    """Return the statement that reads `source` into the table.

    Args:
        source: A query with the columns FILE, LINE and OFFSET and the fields.
        raw: Expression of the record's text; evaluated for bad rows only.
    """
    return (
        f"INSERT INTO {LOADED} SELECT {FILE}, {LINE}, {OFFSET}, {REASON},"
        f" CASE WHEN {REASON} IS NOT NULL THEN {raw} ELSE {projection.cut} END, {projection.names}"
        f" FROM (SELECT *, {projection.reason} AS {REASON}"
        f" FROM (SELECT *, {projection.select_list} FROM ({source})))"
    )
