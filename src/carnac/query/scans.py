"""SQL over segment files: one SELECT that reads the visible rows of some entries with the columns of a datasource.

Files whose columns are alike are read by one `read_parquet`; a datasource whose segments are all alike is one scan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from carnac.core.log.entries import VisibleSegment
from carnac.core.quoting import quote, quote_path
from carnac.core.segments.segment import TIME_COLUMN, ColumnType, Segment
from carnac.core.segments.sql_columns import HIDDEN_PREFIX, SQL_TYPE
from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval, IntervalSet, format_ms
from carnac.ports.queries import LeafSlice
from carnac.query.rewriting.bucketing import hour_sql

_CLIP_GROUPS = 8
"""How many groups of clipped files are tried for a place before a new one is made."""

_RANGES_MAX = 16
"""Ranges of segments that are asked for one by one: a row of a row group that several are in is compared with each."""

TIME_SQL_TYPE = "TIMESTAMP WITH TIME ZONE"

NUMBER_COLUMN = "__carnac_number"
"""Says of which segment a row of several is, where they are kept together."""

HOUR_COLUMN = "__carnac_hour"
"""The number of the hour of a row's time, which rows kept together have beside it (see `hours`)."""

HOUR_SQL = hour_sql(quote(TIME_COLUMN))
"""Computes it."""

_BEGIN = re.compile(
    r"(?P<explain>EXPLAIN (?:ANALYZE )?)?(?P<with>WITH (?:RECURSIVE )?)?(?P<select>SELECT\b|\()?"
)
"""Of a statement as DuckDB prints it; a description of rows has none of the three."""

Signature = tuple[tuple[str, ColumnType], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """Where the rows of a segment are kept besides its file.

    Attributes:
        number: Their value in `NUMBER_COLUMN`.
        of: How many segments the table has.
    """

    table: str
    number: int
    of: int


def signature_of(segment: Segment) -> Signature:
    """Return the columns of a file; files with the same are read by one scan."""
    return tuple([(column.name, column.type) for column in segment.columns])


def with_views(sql: str, views: Mapping[str, str]) -> str:
    """Return a printed statement in which views stand, so that they are planned with it and not before as well.

    Args:
        views: The SELECT of each, by its name.
    """
    if not views:
        return sql
    begin = _BEGIN.match(sql)
    if begin is None:
        raise AssertionError("the pattern matches nothing, too")
    listed = ", ".join(
        f"{quote(name)} AS NOT MATERIALIZED ({select})" for name, select in views.items()
    )
    explain, recursive = begin["explain"] or "", begin["with"]
    if recursive:
        return f"{explain}{recursive}{listed}, {sql[begin.end('with') :]}"
    rest = sql[len(explain) :]
    return f"{explain}WITH {listed} {rest if begin['select'] else f'FROM ({rest})'}"


def shown_columns(columns: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """Return the columns that a user sees, without `__time`."""
    return {name: kind for name, kind in columns.items() if not name.startswith(HIDDEN_PREFIX)}


def slices_of(entries: Iterable[VisibleSegment]) -> list[LeafSlice]:
    """Return each segment once, with all of its visible instants."""
    found: dict[str, LeafSlice] = {}
    for item in entries:
        segment, clip = item.segment, item.entry.clip
        before = found.get(segment.segment_id)
        if before is not None:
            clip = None if before.clip is None or clip is None else before.clip.union(clip)
        if clip is not None and clip.contains(segment.span):
            clip = None
        found[segment.segment_id] = LeafSlice(segment=segment, clip=clip)
    return list(found.values())


def rows_in(slices: Iterable[LeafSlice]) -> int:
    """Return the rows of the segments."""
    return sum(one.segment.rows for one in slices)


def scan_sql(
    columns: Mapping[str, ColumnType],
    slices: Sequence[LeafSlice],
    paths: Mapping[str, Path],
    tables: Mapping[str, str] | None = None,
    kept: Mapping[str, KeptRows] | None = None,
    *,
    with_hours: bool = False,
) -> str:
    """Return the SELECT of the visible rows.

    Args:
        columns: The columns to give, without `__time`, which comes first.
        paths: Where the file of each segment is, by segment id.
        tables: Names of the tables with the rows of the other segments, by segment id.
        kept: Segments whose rows need not be read from files.
        with_hours: Whether `HOUR_COLUMN` is given, too.
    """
    groups: dict[Signature, list[LeafSlice]] = {}
    for piece in slices:
        groups.setdefault(signature_of(piece.segment), []).append(piece)
    selects = []
    for signature, members in groups.items():
        names = _select_list(columns, dict(signature))
        for clip_sql, files in _by_clip(members):
            for source, part_sql, hour in _sources(files, paths, tables or {}, kept or {}):
                given = f"{names}, {hour} AS {quote(HOUR_COLUMN)}" if with_hours else names
                conditions = " AND ".join(f"({one})" for one in (part_sql, clip_sql) if one)
                where = f" WHERE {conditions}" if conditions else ""
                selects.append(f"SELECT {given} FROM {source}{where}")
    if not selects:
        nulls = [f"CAST(NULL AS {TIME_SQL_TYPE}) AS {quote(TIME_COLUMN)}"]
        nulls += [
            f"CAST(NULL AS {SQL_TYPE[kind]}) AS {quote(name)}" for name, kind in columns.items()
        ]
        nulls += [f"CAST(NULL AS INTEGER) AS {quote(HOUR_COLUMN)}"] * with_hours
        return f"SELECT {', '.join(nulls)} WHERE false"
    return " UNION ALL ".join(selects)


def _sources(
    files: Sequence[Segment],
    paths: Mapping[str, Path],
    tables: Mapping[str, str],
    kept: Mapping[str, KeptRows],
) -> Iterator[tuple[str, str, str]]:
    """Yield what holds the rows of files of one schema, the condition on those that are theirs, and their hours.

    An empty condition: all are.
    """
    together: dict[str, list[KeptRows]] = {}
    places: list[Path] = []
    for one in files:
        rows = kept.get(one.segment_id)
        if rows is not None:
            together.setdefault(rows.table, []).append(rows)
        elif one.segment_id not in tables:
            places.append(paths[one.segment_id])
    for table, some in together.items():
        numbers = sorted(rows.number for rows in some)
        condition = "" if len(numbers) == some[0].of else _one_of(numbers)
        yield table, condition, quote(HOUR_COLUMN)
    if places:
        listed = ", ".join(quote_path(place) for place in places)
        yield f"read_parquet([{listed}], hive_partitioning = false)", "", HOUR_SQL
    for one in files:
        if one.segment_id in tables and one.segment_id not in kept:
            yield tables[one.segment_id], "", HOUR_SQL


def _one_of(numbers: Sequence[int]) -> str:
    """Return the condition that rows are of one of the segments.

    Ranges skip row groups, and let DuckDB begin a search for the newest rows at the newest; a list does neither.
    """
    column = quote(NUMBER_COLUMN)
    known = set(numbers)
    firsts = [one for one in numbers if one - 1 not in known]
    lasts = [one for one in numbers if one + 1 not in known]
    if len(firsts) > _RANGES_MAX:
        inside = f"{column} BETWEEN {numbers[0]} AND {numbers[-1]}"
        return f"{inside} AND {column} IN ({', '.join(map(str, numbers))})"
    ranges = zip(firsts, lasts, strict=True)
    return " OR ".join(f"{column} BETWEEN {first} AND {last}" for first, last in ranges)


def _select_list(columns: Mapping[str, ColumnType], stored: Mapping[str, ColumnType]) -> str:
    parts = [quote(TIME_COLUMN)]
    for name, kind in columns.items():
        parts.append(_column_sql(name, kind, stored.get(name)))
    return ", ".join(parts)


def _column_sql(name: str, kind: ColumnType, stored: ColumnType | None) -> str:
    column, wanted = quote(name), SQL_TYPE[kind]
    if stored is None:
        return f"CAST(NULL AS {wanted}) AS {column}"
    if SQL_TYPE[stored] == wanted:
        return column
    if wanted.endswith("[]") and not SQL_TYPE[stored].endswith("[]"):
        element = f"CAST({column} AS {wanted.removesuffix('[]')})"
        return f"CASE WHEN {column} IS NULL THEN NULL ELSE [{element}] END AS {column}"
    return f"CAST({column} AS {wanted}) AS {column}"


@dataclass(slots=True)
class _ClipGroup:
    """Clipped files that one condition on time clips all right: it holds what one shows and nothing another hides."""

    segments: list[Segment] = field(default_factory=list)
    shown: IntervalSet = field(default_factory=IntervalSet)
    hidden: IntervalSet = field(default_factory=IntervalSet)

    def takes(self, piece: LeafSlice, shown: IntervalSet, hidden: IntervalSet) -> bool:
        """Add the file if it fits."""
        if self.shown.intersect(hidden) or self.hidden.intersect(shown):
            return False
        self.segments.append(piece.segment)
        self.shown = self.shown.union(shown)
        self.hidden = self.hidden.union(hidden)
        return True


def _by_clip(slices: Sequence[LeafSlice]) -> list[tuple[str, list[Segment]]]:
    """Return conditions and the files that each applies to; the empty one first."""
    whole = [piece.segment for piece in slices if piece.clip is None]
    groups: list[_ClipGroup] = []
    for piece in slices:
        if piece.clip is None:
            continue
        span = IntervalSet((piece.segment.span,))
        shown, hidden = span.intersect(piece.clip), span.minus(piece.clip)
        if not any(group.takes(piece, shown, hidden) for group in groups[-_CLIP_GROUPS:]):
            groups.append(_ClipGroup([piece.segment], shown, hidden))
    found = [("", whole)] if whole else []
    return found + [(_clip_sql(group), group.segments) for group in groups]


def _clip_sql(group: _ClipGroup) -> str:
    if len(group.hidden) < len(group.shown):
        return "NOT (" + _inside(group.hidden) + ")"
    return _inside(group.shown)


def _inside(instants: IntervalSet) -> str:
    if not instants:
        return "false"
    return " OR ".join(f"({_within(interval)})" for interval in instants)


def _within(interval: Interval) -> str:
    column, parts = quote(TIME_COLUMN), []
    if interval.start_ms > MIN_MS:
        parts.append(f"{column} >= TIMESTAMPTZ '{format_ms(interval.start_ms)}'")
    if interval.end_ms < MAX_MS:
        parts.append(f"{column} < TIMESTAMPTZ '{format_ms(interval.end_ms)}'")
    return " AND ".join(parts) or "true"
