"""Columns of a table: the type of each, and in which formats its values are times.

The expressions are those that read the rows later (`timestamps`): values that fit here are read there.

- Text that is to be typed (CSV): long where all values are whole numbers of 64 bits, double where all are numbers,
  boolean where all are `true` or `false`, else string. Numbers with zeros in front (`00501`) and whole numbers of more
  than 18 digits stay text. Words that R, pandas and databases write for null (`NULL_WORDS`) are null where a column is
  otherwise no text.
- A column holds times if nine of ten values are times (`TIME_SHARE`): the others go to quarantine.
- Numbers are times where all count to the years 1980 to 2100 from 1970 in one unit, or are such years or days. Those
  that count to no other year than 1970 even in seconds (`_SECONDS_MIN`) are durations or numbers of rows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from carnac.core.quoting import quote, quote_text
from carnac.core.segments.segment import NUMBER_TYPES, TIME_COLUMN, ColumnType
from carnac.rows.normalise.projection import make_macros
from carnac.rows.normalise.shape import is_reserved
from carnac.rows.normalise.timestamps import text_time, typed_time
from carnac.rows.read.columnar import COLUMNS_AT_ONCE, describe
from carnac.rows.read.discover import kind_of, type_of
from carnac.rows.read.far_times import held_rows
from carnac.specs.ingest.inference import SeenColumn
from carnac.specs.ingest.schema import TimestampSpec

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

TABLE = "__carnac_sample"
NULL_WORDS = (
    *("NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None", "none", "nil", "\\N"),
    *("-", "?", "."),
)
TIME_SHARE = 0.9
VALUES_MAX = 1_000
"""Values of a column that are tried as times."""
_DIGITS_MAX = 17
_EXACT_DECIMAL = 15
_YEARS = (1000, 2999)
_FIRST_S, _LAST_S = 315_532_800, 4_102_444_800  # 1980 to 2100
_SECONDS_MIN = 365 * 86_400
_EPOCHS = {"posix": 1, "millis": 1_000, "micro": 1_000_000, "nano": 1_000_000_000}
_INSTANT = re.compile(r"(TIMESTAMP|DATE)[^\[]*")
_WHOLE = re.compile(r"\s*\d+(\.0+)?\s*")
"""A whole number as text; beside nulls it is often written as a double."""
_MAYBE_TIME = re.compile(
    r"(?=.{6,40}$)(?=.*\d)(?!\s*\d{4}-(1[3-9]|[2-9]\d)\s*$)\s*(\d+[-/:. ,T]|[A-Za-z]{3,9}[ ,.-]|\d{8}).*",
    re.DOTALL,
)
_PATTERNS = (
    ("yyyy/MM/dd HH:mm:ss",),
    ("yyyy/MM/dd HH:mm",),
    ("yyyy/MM/dd",),
    *(
        (f"M{one}d{one}yyyy{time}", f"d{one}M{one}yyyy{time}")
        for one in "/-."
        for time in ("", " H:mm:ss", " H:mm", " h:mm:ss a", " h:mm a")
    ),
    ("M/d/yy", "d/M/yy"),
    ("M/d/yy H:mm", "d/M/yy H:mm"),
    ("yyyyMMdd",),
    ("yyyyMMddHHmmss",),
    ("yyyyMMdd'T'HHmmss'Z'",),
    ("d MMM yyyy",),
    ("d-MMM-yyyy",),
    ("d-MMM-yy",),
    ("d MMM yyyy HH:mm:ss",),
    ("MMM d yyyy",),
    ("MMM-d-yyyy",),
    ("MMM d, yyyy",),
    ("MMM d yyyy HH:mm:ss",),
    ("MMM yyyy",),
    ("dd/MMM/yyyy:HH:mm:ss Z",),
    ("EEE, d MMM yyyy HH:mm:ss Z",),
    ("EEE MMM d HH:mm:ss Z yyyy",),
    ("EEE MMM d yyyy",),
)
"""Patterns for times that are not ISO 8601; those of one line may read the same text in two ways."""


_SHAPES = {
    "yyyy": r"\d{4}",
    "MMM": "[A-Za-z]{3,9}",
    "y": r"\d\d",
    "E": "[A-Za-z]{3,9}",
    "a": "[AaPp][Mm]",
    "Z": r"([+-]\d\d:?\d\d|[A-Z]{1,4})",
    **dict.fromkeys("MdHhms", r"\d{1,2}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTable:
    """The findings of a sample.

    Attributes:
        null_values: Texts that stand for null.
    """

    columns: tuple[SeenColumn, ...]
    null_values: tuple[str, ...] = ()


def look_at(
    con: duckdb.DuckDBPyConnection,
    table: pa.Table,
    *,
    is_text: bool = False,
    types: Mapping[str, ColumnType] | None = None,
) -> SeenTable:
    """Return the columns of a table.

    Args:
        is_text: Its texts are to be typed, as those of CSV are.
        types: Types that are known otherwise, of columns whose values the table holds as text.
    """
    make_macros(con)
    table = held_rows(table)
    places = table.rename_columns([f"c{place}" for place in range(table.num_columns)])
    with _registered(con, places.slice(0, 0)):
        kinds = describe(con, TABLE).values()
    known = types or {}
    columns = [
        _Column(name, f"c{place}", kind, known.get(name))
        for place, (name, kind) in enumerate(zip(table.column_names, kinds, strict=True))
    ]
    for start in range(0, len(columns), COLUMNS_AT_ONCE):
        some = columns[start : start + COLUMNS_AT_ONCE]
        with _registered(con, places.select([one.place for one in some])):
            _look(con, some, is_text=is_text)
    nulls = dict.fromkeys(word for one in columns for word in one.nulls)
    seen = (one.seen() for one in columns)
    return SeenTable(
        columns=tuple(one for one in seen if not is_reserved(one.name)), null_values=tuple(nulls)
    )


def span_ms(
    con: duckdb.DuckDBPyConnection, table: pa.Table, timestamp: Mapping[str, Any]
) -> int | None:
    """Return how much time lies between the first and the last row of a table; None: no row has a time."""
    spec = TimestampSpec.model_validate(dict(timestamp))
    if spec.column not in table.column_names:
        return 0
    make_macros(con)
    name = quote(spec.column)
    with _registered(con, table.select([spec.column])):
        kind = str(describe(con, TABLE)[spec.column])
        time = typed_time(name, quote(TIME_COLUMN), kind, spec).value
        ((found,),) = con.execute(
            f"SELECT epoch_ms(max(t)) - epoch_ms(min(t)) FROM (SELECT {time} AS t FROM {TABLE})"
            " WHERE isfinite(t)"
        ).fetchall()
    return None if found is None else int(found)


def is_time(con: duckdb.DuckDBPyConnection, timestamp: Mapping[str, Any]) -> bool:
    """Whether the name of the time's column is a time as the column has them: a row was taken for the header."""
    import pyarrow as pa

    name = timestamp["column"]
    named = pa.table({name: [name]})
    (shown,) = look_at(con, named, is_text=True).columns
    return bool(shown.formats) and span_ms(con, named, timestamp) is not None


@contextmanager
def _registered(con: duckdb.DuckDBPyConnection, table: pa.Table) -> Iterator[None]:
    con.register(TABLE, held_rows(table))
    try:
        yield
    finally:
        con.unregister(TABLE)


class _Column:
    """One column, and the findings about it so far.

    Args:
        place: Its name in `TABLE`.
        known: Its type, if that is known otherwise.

    Attributes:
        values: Some of its values as text, spread over the sample, if it may hold times.
        stray: One that is no ISO 8601 time, of a column whose values look like times in no format.
    """

    def __init__(self, name: str, place: str, engine_type: Any, known: ColumnType | None) -> None:
        self._name = name
        self.place = place
        self._sql_type = str(engine_type)
        self._becomes: str | None = None
        self._type = known or self._of_type(engine_type)
        self.is_text = known in {None, ColumnType.STRING} and self._sql_type == "VARCHAR"
        self.nulls: tuple[str, ...] = ()
        self.has_nulls = False
        self.values: Sequence[str] = ()
        self.formats: tuple[str, ...] = ()
        self.stray: str | None = None

    @property
    def is_number(self) -> bool:
        """Whether its type is one of numbers."""
        return self._type in NUMBER_TYPES

    @property
    def cell(self) -> str:
        """A value as text; of a type that counts no time, only whether it is there."""
        if self._sql_type == "VARCHAR" or self.is_number:
            return f"CAST({self.place} AS VARCHAR)"
        return f"CASE WHEN {self.place} IS NOT NULL THEN 'x' END"

    def type_text(self, counts: Sequence[int], words: Sequence[str]) -> None:
        """Decide the type of text.

        Args:
            counts: Of values, and of those among them that are whole, numbers, booleans, of many digits.
            words: Those for null.
        """
        there, whole, numbers, booleans, long_ones = counts
        if not there:
            return
        if whole == there:
            self._type = ColumnType.LONG
        elif numbers == there:
            self._type = ColumnType.DOUBLE
            if long_ones:
                self._becomes = "kept as double, about 16 digits"
        elif booleans == there:
            self._type = ColumnType.BOOLEAN
        else:
            return
        self.is_text = False
        self.nulls = tuple(words)

    def seen(self) -> SeenColumn:
        """Return what the column shows."""
        formats, is_number = self.formats, self.is_number
        if self.is_text:
            if not formats and (formats := _number_formats(self.values, is_text=True)):
                is_number = (
                    True  # JSON that quotes its years: as numbers, they must be called a time
                )
        elif is_number:
            formats = _number_formats(self.values, is_text=self._sql_type == "VARCHAR")
        return SeenColumn(
            name=self._name,
            type=self._type.value,
            is_instant=_INSTANT.fullmatch(self._sql_type) is not None,
            is_number=is_number,
            may_count_time=is_number
            and any(abs(one) >= _SECONDS_MIN for one in _numbers(self.values)),
            formats=formats,
            has_nulls=self.has_nulls or bool(self.nulls),
            is_empty=self._sql_type in {'"NULL"', '"NULL"[]'},
            example=self._example()[:40],
            becomes=self._becomes,
        )

    def _example(self) -> str:
        """Return a value; of text that is not read as times, one for which that is so."""
        if not self.is_text or self.formats:
            return self.values[0] if self.values else ""
        strange = (one for one in self.values if not _may_be_time(one))
        return self.stray or next(strange, self.values[0] if self.values else "")

    def _of_type(self, engine_type: Any) -> ColumnType:
        kind = self._sql_type
        if kind == "BOOLEAN":
            return ColumnType.BOOLEAN
        if kind == "FLOAT":
            return ColumnType.FLOAT
        if kind == "BLOB":
            self._becomes = "bytes kept as base64 text"
        decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
        if decimal is not None:
            digits, scale = int(decimal[1]), int(decimal[2])
            if not scale and digits <= 18:
                return ColumnType.LONG
            if digits > _EXACT_DECIMAL:
                self._becomes = f"{kind} kept as double, about 16 digits"
            return ColumnType.DOUBLE
        if kind.endswith("HUGEINT"):
            self._becomes = "kept as double, about 16 digits"
        return type_of({kind_of(engine_type)})


def _look(con: duckdb.DuckDBPyConnection, columns: Sequence[_Column], *, is_text: bool) -> None:
    """Look at the columns that `TABLE` has, all in one statement at a time."""
    words = ", ".join(map(quote_text, NULL_WORDS))
    of_text = (
        ", count(*) FILTER (is_value),"
        " count(*) FILTER (is_value AND regexp_full_match(t, '[+-]?(0|[1-9][0-9]{0,17})')),"
        " count(*) FILTER (is_value AND TRY_CAST(t AS DOUBLE) IS NOT NULL"
        " AND NOT regexp_matches(t, '^[+-]?0[0-9_]|_') AND NOT regexp_full_match(t, '[+-]?[0-9]{19,}')),"
        " count(*) FILTER (is_value AND lower(t) IN ('true', 'false')),"
        " count(*) FILTER (is_value"
        f" AND len(regexp_replace(t, '[eE].*$|[^0-9]', '', 'g')) > {_DIGITS_MAX}),"
        f" coalesce(list_sort(list(DISTINCT x) FILTER (x IN ({words}))), [])"
    )
    for index, has_nulls, *found in con.execute(
        f"SELECT i, bool_or(x IS NULL OR x = ''){of_text if is_text else ''}"
        f" FROM (SELECT i, x, trim(x) AS t, t <> '' AND t NOT IN ({words}) AS is_value"
        f" FROM ({_cells(range(len(columns)), columns)})) GROUP BY i"
    ).fetchall():
        columns[index].has_nulls = has_nulls
        if found:
            columns[index].type_text(found[:-1], found[-1])
    _take_values(con, columns)
    _find_formats(con, columns)


def _cells(indexes: Iterable[int], columns: Sequence[_Column]) -> str:
    """Return the query for the cells of some columns as text, `x`, with the index `i` of the column."""
    chosen = list(indexes)
    cells = ", ".join(columns[index].cell for index in chosen)
    return f"SELECT unnest({chosen}) AS i, unnest([{cells}]) AS x FROM {TABLE}"


def _take_values(con: duckdb.DuckDBPyConnection, columns: Sequence[_Column]) -> None:
    wanted = [index for index, one in enumerate(columns) if one.is_text or one.is_number]
    if not wanted:
        return
    nulls = [f"({index}, {quote_text(word)})" for index in wanted for word in columns[index].nulls]
    is_null = f" AND (i, trim(x)) NOT IN ({', '.join(nulls)})" if nulls else ""
    rows = con.execute(
        "SELECT i, list(x ORDER BY h) FROM (SELECT i, x, hash(x) AS h"
        f" FROM (SELECT DISTINCT i, x FROM ({_cells(wanted, columns)}) WHERE trim(x) <> ''{is_null})"
        f" QUALIFY row_number() OVER (PARTITION BY i ORDER BY h) <= {VALUES_MAX}) GROUP BY i"
    ).fetchall()
    for index, values in rows:
        columns[index].values = values


def _find_formats(con: duckdb.DuckDBPyConnection, columns: Sequence[_Column]) -> None:
    """Find the formats of texts that are times."""
    texts = [one for one in columns if one.is_text and one.values]
    texts = [one for one in texts if _is_most(sum(map(_may_be_time, one.values)), one)]
    by_shape: dict[tuple[tuple[str, ...], ...], list[_Column]] = defaultdict(list)
    for one, fits in zip(texts, _count_fits(con, ["iso"], texts), strict=True):
        if _is_most(fits["iso"], one):
            one.formats = ("iso",)
        else:
            by_shape[_shaped(one)].append(one)
    for shaped, alike in by_shape.items():
        formats = [one for line in shaped for one in line]
        for one, fits in zip(alike, _count_fits(con, formats, alike), strict=True):
            best = max(fits.values(), default=0)
            if _is_most(best, one):
                one.formats = next(
                    found
                    for line in shaped
                    if (found := tuple(name for name in line if fits[name] == best))
                )
    if strange := [one for one in texts if not one.formats]:
        _find_strays(con, strange)


def _find_strays(con: duckdb.DuckDBPyConnection, columns: Sequence[_Column]) -> None:
    """Find of each column a value that is no ISO 8601 time."""
    indexes = [index for index, one in enumerate(columns) for _ in one.values]
    values = [value for one in columns for value in one.values]
    strays = con.execute(
        f"SELECT i, min(x) FILTER (NOT coalesce({_is_time('iso')}, false)) FROM"
        " (SELECT unnest(?::INTEGER[]) AS i, unnest(?::VARCHAR[]) AS x) GROUP BY i",
        [indexes, values],
    ).fetchall()
    for index, stray in strays:
        columns[index].stray = stray


def _may_be_time(value: str) -> bool:
    return _MAYBE_TIME.match(value) is not None


def _is_most(count: int, column: _Column) -> bool:
    return count >= TIME_SHARE * len(column.values)


def _shaped(column: _Column) -> tuple[tuple[str, ...], ...]:
    """Return of the lines of patterns those whose shape most values have."""
    lines = (
        tuple(one for one in line if _is_most(sum(map(_looks_like(one), column.values)), column))
        for line in _PATTERNS
    )
    return tuple(line for line in lines if line)


def _count_fits(
    con: duckdb.DuckDBPyConnection, formats: Sequence[str], columns: Sequence[_Column]
) -> list[dict[str, int]]:
    """Return how many values of each column each format reads."""
    found: list[dict[str, int]] = [{} for _ in columns]
    if not formats or not columns:
        return found
    indexes = [index for index, one in enumerate(columns) for _ in one.values]
    values = [value for one in columns for value in one.values]
    for index, *counts in con.execute(
        f"SELECT i, {', '.join(map(_fit, formats))}"
        " FROM (SELECT unnest(?::INTEGER[]) AS i, unnest(?::VARCHAR[]) AS x) GROUP BY i",
        [indexes, values],
    ).fetchall():
        found[index] = dict(zip(formats, counts, strict=True))
    return found


def _fit(chosen: str) -> str:
    return f"count(*) FILTER ({_is_time(chosen)})"


def _is_time(chosen: str) -> str:
    cell = text_time("x", "t", TimestampSpec(column="x", format=chosen))
    return (
        f"({cell.value}) BETWEEN TIMESTAMPTZ '1000-01-01' AND TIMESTAMPTZ '3000-01-01'"
        f" AND NOT {cell.has_far_offset}"
    )


@cache
def _looks_like(chosen: str) -> Callable[[str], bool]:
    """Return whether a text has the shape of a pattern: cheaper than to parse it."""
    shape = "".join(
        _SHAPES.get(piece, _SHAPES.get(piece[0], re.escape(piece.strip("'"))))
        for piece in (found[0] for found in re.finditer(r"'[^']*'|([A-Za-z])\1*|.", chosen))
    )
    fits = re.compile(rf"\s*{shape}\s*")
    return lambda text: fits.fullmatch(text) is not None


def _numbers(values: Sequence[str]) -> list[float]:
    """Return values as numbers; none where one is no number."""
    try:
        return [float(value) for value in values]
    except ValueError:
        return []


def _number_formats(values: Sequence[str], *, is_text: bool) -> tuple[str, ...]:
    numbers = _numbers(values)
    if not numbers:
        return ()
    low, high = min(numbers), max(numbers)
    whole = all(number.is_integer() for number in numbers)
    for name, unit in _EPOCHS.items():
        if low >= _FIRST_S * unit and high < _LAST_S * unit:
            return ("ruby",) if name == "posix" and not whole else (name,)
    if not whole or (is_text and not all(map(_WHOLE.fullmatch, values))):
        return ()
    if low >= _YEARS[0] and high <= _YEARS[1]:
        return ("yyyy",)
    days = [f"{number:.0f}" for number in numbers]
    if all(len(day) == 8 and "01" <= day[4:6] <= "12" and "01" <= day[6:] <= "31" for day in days):
        return ("yyyyMMdd",)
    return ()
