"""Columns of a table: the type of each, and in which formats its values are times.

The expressions are those that read the rows later (`timestamps`): what fits here is read there.

- Text that is to be typed (CSV): long where all values are whole numbers of 64 bits, double where all are numbers,
  boolean where all are `true` or `false`, else string. Numbers with zeros in front (`00501`) and whole numbers of more
  than 18 digits stay text. What R, pandas and databases write for null (`NULL_WORDS`) is null where a column is
  otherwise no text.
- A time is what nine of ten values are (`TIME_SHARE`): the others go to quarantine.
- Numbers are times where all count to the years 1980 to 2100 from 1970 in one unit, or are such years or days. Those
  that count to no other year than 1970 even in seconds (`_SECONDS_MIN`) are durations or numbers of rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from carnac.core.quoting import quote, quote_text
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.rows.normalise.projection import make_macros
from carnac.rows.normalise.timestamps import text_time, typed_time
from carnac.rows.read.columnar import describe
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
        types: What is known of columns otherwise, whose values the table holds as text.
    """
    make_macros(con)
    con.register(TABLE, table)
    try:
        found = [
            _Column(con, table.select([name]), str(kind), (types or {}).get(name))
            for name, kind in describe(con, TABLE).items()
        ]
        if is_text:
            for one in found:
                one.type_text()
        nulls = dict.fromkeys(word for one in found for word in one.nulls)
        return SeenTable(columns=tuple(one.seen() for one in found), null_values=tuple(nulls))
    finally:
        con.unregister(TABLE)


def span_ms(
    con: duckdb.DuckDBPyConnection, table: pa.Table, timestamp: Mapping[str, Any]
) -> int | None:
    """Return how much time lies between the first and the last row of a table; None: no row has a time."""
    spec = TimestampSpec.model_validate(dict(timestamp))
    if spec.column not in table.column_names:
        return 0
    make_macros(con)
    con.register(TABLE, table)
    try:
        name = quote(spec.column)
        kind = str(describe(con, TABLE)[spec.column])
        time = typed_time(name, quote(TIME_COLUMN), kind, spec).value
        ((found,),) = con.execute(
            f"SELECT date_diff('millisecond', min(t), max(t)) FROM (SELECT {time} AS t FROM {TABLE})"
            " WHERE isfinite(t)"
        ).fetchall()
    finally:
        con.unregister(TABLE)
    return None if found is None else int(found)


class _Column:
    """One column while it is looked at.

    Args:
        rows: The column alone: a statement over all of them takes longer the more there are.
        known: What is known of its type otherwise.
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        rows: pa.Table,
        sql_type: str,
        known: ColumnType | None,
    ) -> None:
        self._con = con
        self._rows = rows
        (self._name,) = rows.column_names
        self._sql = quote(self._name)
        self._sql_type = sql_type
        self._becomes: str | None = None
        self.nulls: tuple[str, ...] = ()
        self.type = known or self._of_type()
        self._is_text = known in {None, ColumnType.STRING} and sql_type == "VARCHAR"

    def type_text(self) -> None:
        """Find the type of text."""
        self._con.register(TABLE, self._rows)
        x = f"trim({self._sql})"
        words = ", ".join(map(quote_text, NULL_WORDS))
        ((there, whole, numbers, booleans, long_ones),) = self._con.execute(
            "SELECT count(*), count(*) FILTER (regexp_full_match(x, '[+-]?(0|[1-9][0-9]{0,17})')),"
            " count(*) FILTER (TRY_CAST(x AS DOUBLE) IS NOT NULL AND NOT regexp_matches(x, '^[+-]?0[0-9_]|_')"
            " AND NOT regexp_full_match(x, '[+-]?[0-9]{19,}')),"
            " count(*) FILTER (lower(x) IN ('true', 'false')),"
            f" count(*) FILTER (len(regexp_replace(x, '[eE].*$|[^0-9]', '', 'g')) > {_DIGITS_MAX})"
            f" FROM (SELECT {x} AS x FROM {TABLE}) WHERE x <> '' AND x NOT IN ({words})"
        ).fetchall()
        if not there:
            return
        if whole == there:
            self.type = ColumnType.LONG
        elif numbers == there:
            self.type = ColumnType.DOUBLE
            if long_ones:
                self._becomes = "kept as double, about 16 digits"
        elif booleans == there:
            self.type = ColumnType.BOOLEAN
        else:
            return
        self._is_text = False
        self.nulls = tuple(
            word
            for (word,) in self._con.execute(
                f"SELECT DISTINCT {self._sql} FROM {TABLE} WHERE {self._sql} IN ({words}) ORDER BY 1"
            ).fetchall()
        )

    def seen(self) -> SeenColumn:
        """Return what the column shows."""
        self._con.register(TABLE, self._rows)
        is_instant = self._sql_type.startswith(("TIMESTAMP", "DATE"))
        is_number = self.type in {ColumnType.LONG, ColumnType.DOUBLE, ColumnType.FLOAT}
        values = self._values() if self._is_text or is_number else []
        formats: tuple[str, ...] = ()
        if self._is_text:
            formats = self._text_formats(values)
            if not formats and (formats := _number_formats(values, is_text=True)):
                is_number = (
                    True  # JSON that quotes its years: as numbers, they must be called a time
                )
        elif is_number:
            formats = _number_formats(values, is_text=self._sql_type == "VARCHAR")
        return SeenColumn(
            name=self._name,
            type=self.type.value,
            is_instant=is_instant,
            is_number=is_number,
            may_count_time=is_number and any(abs(one) >= _SECONDS_MIN for one in _numbers(values)),
            formats=formats,
            has_nulls=self._has_nulls(),
            example=values[0][:40] if values else "",
            becomes=self._becomes,
        )

    def _of_type(self) -> ColumnType:
        kind = self._sql_type
        if kind.endswith("[]"):
            return {
                "long": ColumnType.LONG_ARRAY,
                "double": ColumnType.DOUBLE_ARRAY,
                "string": ColumnType.STRING_ARRAY,
                "json": ColumnType.JSON,
            }[_family(kind.removesuffix("[]"))]
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
        if "HUGEINT" in kind:
            self._becomes = "kept as double, about 16 digits"
        return ColumnType(_family(kind))

    def _has_nulls(self) -> bool:
        words = "".join(f", {quote_text(word)}" for word in self.nulls)
        text = f" OR {self._sql} IN (''{words})" if self._sql_type == "VARCHAR" else ""
        found = self._con.execute(
            f"SELECT 1 FROM {TABLE} WHERE {self._sql} IS NULL{text} LIMIT 1"
        ).fetchall()
        return bool(found)

    def _values(self) -> list[str]:
        """Return values as text, spread over the sample."""
        words = "".join(f", {quote_text(word)}" for word in self.nulls)
        rows = self._con.execute(
            f"SELECT DISTINCT x FROM (SELECT CAST({self._sql} AS VARCHAR) AS x FROM {TABLE})"
            f" WHERE trim(x) NOT IN (''{words}) ORDER BY hash(x) LIMIT {VALUES_MAX}"
        ).fetchall()
        return [value for (value,) in rows]

    def _text_formats(self, values: Sequence[str]) -> tuple[str, ...]:
        maybe = [value for value in values if _MAYBE_TIME.match(value)]
        if not values or len(maybe) < TIME_SHARE * len(values):
            return ()
        least = TIME_SHARE * len(values)
        if self._count_fits(["iso"], values)["iso"] >= least:
            return ("iso",)
        shaped = [
            found
            for line in _PATTERNS
            if (found := [one for one in line if sum(map(_looks_like(one), values)) >= least])
        ]
        fits = self._count_fits([one for line in shaped for one in line], values)
        best = max(fits.values(), default=0)
        if best < least:
            return ()
        return next(
            tuple(one for one in line if fits[one] == best)
            for line in shaped
            if any(fits[one] == best for one in line)
        )

    def _count_fits(self, formats: Sequence[str], values: Sequence[str]) -> dict[str, int]:
        """Return how many values each format reads."""
        if not formats:
            return {}
        sums = ", ".join(self._fit(one) for one in formats)
        (row,) = self._con.execute(
            f"SELECT {sums} FROM (SELECT unnest(?::VARCHAR[]) AS x)", [list(values)]
        ).fetchall()
        return dict(zip(formats, row, strict=True))

    @staticmethod
    def _fit(chosen: str) -> str:
        cell = text_time("x", "t", TimestampSpec(column="x", format=chosen))
        return (
            f"count(*) FILTER (({cell.value}) BETWEEN TIMESTAMPTZ '1000-01-01' AND TIMESTAMPTZ '3000-01-01'"
            f" AND NOT {cell.has_far_offset})"
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


def _family(kind: str) -> str:
    if re.fullmatch(r"U?(TINY|SMALL|BIG)INT|U?INTEGER", kind):
        return "long"
    if re.fullmatch(r"U?HUGEINT|DOUBLE|FLOAT|DECIMAL.*", kind):
        return "double"
    if kind == "BOOLEAN":
        return "long"
    if kind.startswith(("STRUCT", "MAP", "UNION", "JSON")) or kind.endswith("]"):
        return "json"
    return "string"


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
