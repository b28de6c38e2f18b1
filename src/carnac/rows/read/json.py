"""JSON lines: a fast pass over all lines, and a close look at the few that it could not settle.

The fast pass takes the fields out of a line with one parse (`json_transform`), numbers as doubles. It says of each line
whether it can have gone wrong: a malformed line, a number that is not there although its field is, a number too large
for a double to be exact, text that may be an array. Such lines are parsed again with the exact rules of `coerce`, which
alone decide. So both passes must agree wherever the fast one is sure; a property test says so.

Blank lines are skipped. Of a key that is there twice, the first counts.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.core.quoting import quote, quote_text
from carnac.core.segments.segment import NUMBER_TYPES, TIME_COLUMN, ColumnType
from carnac.rows.normalise import changes
from carnac.rows.normalise.changes import Change
from carnac.rows.normalise.coerce import EXACT, Cell, Field, Target, coerce_cell
from carnac.rows.normalise.projection import (
    FILE,
    LINE,
    LOADED,
    OFFSET,
    PARSED,
    RAW,
    REASON,
    Projection,
    count,
    field_names,
    insert_sql,
    instant_cell,
    is_instant,
    make_projection,
    reads_time,
    run,
    targets,
    time_cuts,
)
from carnac.rows.normalise.shape import RowShape
from carnac.rows.normalise.timestamps import text_time
from carnac.rows.read.paths import (
    FieldPaths,
    engine_array,
    engine_path,
    engine_place,
    field_paths,
    has_plain_path,
)
from carnac.specs.ingest.json_paths import EVERY, Step

if TYPE_CHECKING:
    import duckdb

    from carnac.specs.ingest.inputs import FlattenSpec
    from carnac.specs.ingest.schema import TimestampSpec

REASON_MALFORMED = "malformed json"
REASON_NOT_OBJECT = "not a json object"
BLANK = "?blank"
SUSPECT = "?suspect"

_LINE_COLUMNS = f"{FILE}, {LINE}, {OFFSET}, {RAW}"
_F, _N, _J, _K, _P = "__carnac_f", "__carnac_n", "__carnac_j", "__carnac_k", "__carnac_p"
_JT, _BROKEN = "__carnac_jt", "__carnac_broken"
_EXACT = 9_007_199_254_740_992
_IS_BLANK = f"trim({RAW}, E' \\t\\r\\n') = ''"


class JsonPlan:
    """The statements that read JSON lines of one job, from a relation with FILE, LINE, OFFSET and RAW."""

    def __init__(
        self, shape: RowShape, timestamp: TimestampSpec, flatten: FlattenSpec | None
    ) -> None:
        self._shape = shape
        self._timestamp = timestamp
        self._paths: FieldPaths = field_paths(flatten)
        self._place: dict[str, tuple[Step, ...]] = {}
        for name in field_names(shape, timestamp):
            steps = self._paths.find(name)
            if steps is not None:
                self._place[name] = steps
        self._kinds = self._fast_kinds()
        self._index = {name: i for i, name in enumerate(self._place)}

    def load(self, con: duckdb.DuckDBPyConnection, lines: str) -> None:
        """Read the relation `lines` into the table, good and bad."""
        run(con, self.fast_sql(lines))
        if count(con, f"SELECT count(*) FROM {LOADED} WHERE {REASON} = '{SUSPECT}'"):
            run(con, self.exact_sql())

    def exact_sql(self, source: str | None = None) -> str:
        """Return the statement of the exact pass, over what the fast one suspects (or another source of lines)."""
        lines = source or f"(FROM {LOADED} WHERE {REASON} = '{SUSPECT}')"
        names = list(self._place)
        paths, alias = self._extracted(names)
        parsed = f"TRY(json_extract({RAW}, [{', '.join(paths)}]))" if paths else "NULL"
        fields = "".join(f", {alias[name]} AS {_F}{i}" for i, name in enumerate(names))
        numbers = "".join(f", _json_number({_F}{i}) AS {_N}{i}" for i in range(len(names)))
        query = (
            f"SELECT *{numbers} FROM (SELECT {_LINE_COLUMNS}, {_JT}{fields}"
            f" FROM (SELECT {_LINE_COLUMNS}, TRY(json_type({RAW})) AS {_JT}, {parsed} AS {_P}"
            f" FROM {lines}))"
        )
        projection = make_projection(self._shape, self._timestamp, self._exact_field)
        syntax = (
            f"CASE WHEN {_IS_BLANK} THEN '{BLANK}' WHEN {_JT} IS NULL THEN '{REASON_MALFORMED}'"
            f" WHEN {_JT} <> 'OBJECT' THEN '{REASON_NOT_OBJECT}' END"
        )
        checked = replace(projection, reasons=(syntax, *projection.reasons))
        return insert_sql(checked, query)

    def _extracted(self, names: list[str]) -> tuple[list[str], dict[str, str]]:
        """Return the paths to be taken out as the list `_P`, and of each field what it is then."""
        paths: list[str] = []
        alias: dict[str, str] = {}
        for name in names:
            steps = self._place[name]
            if has_plain_path(steps):
                paths.append(quote_text(engine_path(steps)))
                alias[name] = f"{_P}[{len(paths)}]"
            elif EVERY in steps:
                alias[name] = engine_array(RAW, steps)
            else:
                alias[name] = f"TRY(json_extract({engine_place(RAW, steps)}))"
        return paths, alias

    def _exact_field(self, name: str) -> Field:
        at = self._index.get(name)
        return (
            Field(kind="absent")
            if at is None
            else Field(kind="json", sql=f"{_F}{at}", number=f"{_N}{at}")
        )

    def _fast_kinds(self) -> dict[str, str]:
        """Say how the fast pass takes each field out: `number`, `text` or `json`."""
        wanted: dict[str, set[str]] = {name: set() for name in self._place}
        if self._timestamp.column in wanted:
            wanted[self._timestamp.column].add("text")
        for target in targets(self._shape):
            if target.field in wanted and not reads_time(target):
                wanted[target.field].add(_fast_kind(target))
        return {
            name: next(iter(kinds)) if len(kinds) == 1 and self._is_root(name) else "json"
            for name, kinds in wanted.items()
        }

    def _is_root(self, name: str) -> bool:
        steps = self._place[name]
        return len(steps) == 1 and isinstance(steps[0], str)

    def fast_sql(self, lines: str) -> str:
        """Return the statement of the fast pass."""
        structure: dict[str, str] = {}
        alias: dict[str, str] = {}
        nested: list[str] = []
        folded: set[str] = set()
        for name, kind in self._kinds.items():
            key = self._place[name][0] if self._is_root(name) else None
            if isinstance(key, str) and key.lower() not in folded:
                folded.add(key.lower())
                structure[key] = {"number": "DOUBLE", "text": "VARCHAR", "json": "JSON"}[kind]
                alias[name] = f"{_J}.{quote(key)}"
            else:
                self._kinds[name] = "json"
                nested.append(name)
        paths, extracted = self._extracted(nested)
        alias |= extracted
        numbers = [name for name, kind in self._kinds.items() if kind == "number"]
        again = self._numbers_as_text(numbers, alias)
        fields = "".join(f", {alias[name]} AS {_F}{i}" for name, i in self._index.items())
        placed = f", TRY(json_extract({RAW}, [{', '.join(paths)}])) AS {_P}" if paths else ""
        parsed = (
            f"TRY(json_transform({RAW}, {quote_text(json.dumps(structure, ensure_ascii=False))}))"
            if structure
            else f"TRY(json_type({RAW}))"
        )
        query = (
            f"SELECT {_LINE_COLUMNS}, {_J} IS NULL AS {_BROKEN}{fields}{again} FROM"
            f" (SELECT {_LINE_COLUMNS}, {parsed} AS {_J}"
            f"{placed} FROM {lines})"
        )
        return insert_sql(self._fast_projection(numbers), query)

    def _numbers_as_text(self, numbers: list[str], alias: dict[str, str]) -> str:
        """Parse a line again, as text, where a number is null (is its field null too?) or may have been rounded."""
        if not numbers:
            return ""
        keys = {str(self._place[name][0]): "VARCHAR" for name in numbers}
        exact: dict[str, int] = {}
        for target in targets(self._shape):
            if target.type in EXACT and not reads_time(target):
                most = EXACT[target.type]
                exact[target.field] = min(exact.get(target.field, most), most)
        unsure = " OR ".join(_unsure(alias[name], exact.get(name)) for name in numbers)
        structure = quote_text(json.dumps(keys, ensure_ascii=False))
        return f", CASE WHEN {unsure} THEN TRY(json_transform({RAW}, {structure})) END AS {_K}"

    def _number_text(self, name: str) -> str:
        """Return a field of `_K`."""
        return f"{_K}.{quote(str(self._place[name][0]))}"

    def _fast_projection(self, numbers: list[str]) -> Projection:
        suspect = [_BROKEN]
        for name in numbers:
            text = self._number_text(name)
            suspect.append(f"({_F}{self._index[name]} IS NULL AND trim({text}) <> '')")
        time_field = self._fast_field(self._timestamp.column)
        text = {
            "json": f"json_extract_string({time_field.sql}, '$')",
            "absent": "CAST(NULL AS VARCHAR)",
        }.get(time_field.kind, time_field.sql)
        time = text_time(text, quote(TIME_COLUMN), self._timestamp)
        values = [(quote(TIME_COLUMN), time.value)]
        cuts = time_cuts(time, self._timestamp)
        suspect.append(f"({time.reason}) IS NOT NULL")
        if self._timestamp.missing_value is not None:
            suspect.append(f"({text}) IS NULL")
        for target in targets(self._shape):
            cell = self._fast_cell(target)
            values.append((target.out, cell.value))
            if cell.cut is not None:
                change, condition = cell.cut
                cuts.append((changes.mark(change, target.field), condition))
            if cell.reason != "NULL":
                suspect.append(cell.reason)
        reason = f"CASE WHEN {' OR '.join(suspect)} THEN '{SUSPECT}' END"
        return Projection(values=tuple(values), reasons=(reason,), cuts=tuple(cuts))

    def _fast_field(self, name: str) -> Field:
        at = self._index.get(name)
        if at is None:
            return Field(kind="absent")
        return Field(kind="json" if self._kinds[name] == "json" else "text", sql=f"{_F}{at}")

    def _fast_cell(self, target: Target) -> Cell:
        """Return a column whose `reason` is a condition here: whether to look closer."""
        is_time = reads_time(target)
        source = PARSED if is_time else self._fast_field(target.field)
        kind = None if is_time else self._kinds.get(target.field)
        if kind == "number":
            return _fast_number(source.sql, target, self._number_text(target.field))
        if kind == "text" and target.type is ColumnType.STRING:
            text = source.sql
            return Cell(
                value=text, reason=f"(starts_with({text}, '[') OR starts_with({text}, '{{'))"
            )
        cell = instant_cell(source, target) if is_instant(target) else coerce_cell(source, target)
        if cell.reason == "NULL":
            return cell
        return replace(cell, reason=f"({cell.reason}) IS NOT NULL")


def _unsure(number: str, exact: int | None) -> str:
    """Return whether a number is null, or may have been rounded: one of a type that has all numbers below `exact`."""
    return f"{number} IS NULL" if exact is None else f"(abs({number}) < {exact}) IS NOT TRUE"


def _fast_kind(target: Target) -> str:
    if is_instant(target):
        return "text"
    if target.type in NUMBER_TYPES:
        return "number"
    return "text" if target.type is ColumnType.STRING else "json"


def _fast_number(d: str, target: Target, text: str) -> Cell:
    kind = target.type
    if kind is ColumnType.LONG:
        return Cell(
            value=f"CASE WHEN abs({d}) < {_EXACT} THEN CAST(trunc({d}) AS BIGINT) END",
            reason=f"NOT abs({d}) < {_EXACT}",
            cut=(Change.FRACTION, f"{d} <> trunc({d})"),
        )
    cut = Change.DIGITS, f"_is_rounded({text}, {target.out}, {EXACT[kind]})"
    if kind is ColumnType.FLOAT:
        return Cell(
            value=f"TRY_CAST({d} AS FLOAT)",
            reason=f"({d} IS NOT NULL AND TRY_CAST({d} AS FLOAT) IS NULL)",
            cut=cut,
        )
    return Cell(value=d, cut=cut)
