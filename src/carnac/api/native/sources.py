"""Data sources of native queries: the table in FROM, and its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from carnac.core.quoting import quote, quote_text
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.segments.sql_columns import HIDDEN_PREFIX
from carnac.core.texts import short
from carnac.core.time.intervals import IntervalSet
from carnac.errors import Invalid
from carnac.specs.druid.blocks import (
    Block,
    block_of,
    check_depth,
    list_of,
    refused,
    text_of,
)
from carnac.specs.druid.terms.expressions import compile_expression
from carnac.specs.druid.terms.filters import compile_filter
from carnac.specs.druid.terms.scopes import Scope, with_time
from carnac.specs.druid.terms.values import (
    TYPES_SAID,
    Kind,
    Sql,
    cast_to,
    column,
    common_kind,
    element,
    literal,
    sql_type,
    to_bool,
)

if TYPE_CHECKING:
    from carnac.core.log.entries import VisibleSegment
    from carnac.ports.queries import Catalog

ABSENT = {"globalTable": "name the datasource as a table", "external": "ingest it first"}
KNOWN = ("table", "union", "query", "inline", "lookup", "filter", "join", "unnest")
JOINS = ("INNER", "LEFT", "RIGHT", "FULL")
CELLS_MAX = 100_000
"""Values of a data source that a query brings."""
_NOTHING = '(SELECT make_timestamptz(0) AS "__time" WHERE false)'


@dataclass(frozen=True, slots=True)
class Source:
    """A data source.

    Attributes:
        sql: It stands in FROM.
        columns: By name, in order.
        names: Datasources whose segments are read.
        is_missing: There is no such datasource, or the query that it is has none.
        narrowed: Returns it with a condition on its time; None: a WHERE does that. Rows of the right side of a join
            that no row on the left matches have no time, and stay.
    """

    sql: str
    columns: Mapping[str, Sql]
    names: Sequence[str] = ()
    is_missing: bool = False
    narrowed: Callable[[str], Source] | None = None

    @property
    def may_lack_time(self) -> bool:
        """Whether rows may have no time where others have one."""
        return self.narrowed is not None

    def within(self, test: str) -> Source:
        """Return the source with the rows that meet a condition on their time."""
        if self.narrowed is not None:
            return replace(self.narrowed(test), narrowed=self.narrowed)
        return replace(self, sql=f"(SELECT * FROM {self.sql} WHERE {test})")

    def segments(self, catalog: Catalog, intervals: IntervalSet) -> list[VisibleSegment]:
        """Return the segments that overlap intervals."""
        return [one for name in self.names for one in catalog.visible(name, intervals)]


@dataclass(slots=True)
class Sources:
    """Reads data sources.

    Args:
        translated: Returns the statement of a query that is a data source, and its columns.
    """

    catalog: Catalog
    translated: Callable[[Block, Sources], tuple[str, Mapping[str, Sql]]]
    _depth: int = field(default=0)

    def read(self, value: object) -> Source:
        """Return a data source.

        Raises:
            Invalid: It is none, or not supported.
        """
        check_depth(self._depth, "data sources")
        if isinstance(value, str):
            return self._table(value)
        block = block_of(value, "dataSource")
        kind = str(block.get("type"))
        build = {
            "table": lambda: self._table(text_of(block, "name")),
            "union": lambda: self._union(block),
            "query": lambda: self._query(block),
            "inline": lambda: _inline(block),
            "lookup": lambda: self._lookup(text_of(block, "lookup")),
            "filter": lambda: self._filtered(block),
            "join": lambda: self._joined(block),
            "unnest": lambda: self._unnested(block),
        }.get(kind)
        if build is None:
            raise refused(kind, "data source", KNOWN, ABSENT)
        self._depth += 1
        try:
            return build()
        finally:
            self._depth -= 1

    def _table(self, name: str) -> Source:
        if name not in self.catalog.datasource_names():
            return Source(_NOTHING, with_time({}), is_missing=True)
        found = {
            key: column(key, kind)
            for key, kind in self.catalog.columns(name).items()
            if not key.startswith(HIDDEN_PREFIX)
        }
        return Source(quote(name), with_time(found), [name])

    def _union(self, block: Block) -> Source:
        every = [self.read(one) for one in list_of(block, "dataSources")]
        present = [one for one in every if not one.is_missing]
        if not present:
            return Source(_NOTHING, with_time({}), is_missing=True)
        if len(present) == 1:
            return present[0]
        columns = {name: sql for one in reversed(present) for name, sql in one.columns.items()}
        selects = " UNION ALL BY NAME ".join(f"SELECT * FROM {one.sql}" for one in present)
        names = [name for one in present for name in one.names]
        return Source(f"({selects})", columns, names)

    def _query(self, block: Block) -> Source:
        sql, columns = self.translated(block_of(block.get("query"), "query"), self)
        return Source(f"({sql})", columns)

    def _lookup(self, name: str) -> Source:
        texts = {key: Sql(quote(key), "string") for key in ("k", "v")}
        return Source(f"lookup.{quote(name)}", texts)

    def _filtered(self, block: Block) -> Source:
        def around(base: Source) -> Source:
            where = compile_filter(block_of(block.get("filter"), "filter"), Scope(base.columns))
            return replace(base, sql=f"(SELECT * FROM {base.sql} WHERE {where})")

        return _around(self.read(block.get("base")), around)

    def _joined(self, block: Block) -> Source:
        left, right = self.read(block.get("left")), self.read(block.get("right"))
        prefix = text_of(block, "rightPrefix", what="a join")
        kind = str(block.get("joinType") or "INNER").upper()
        if kind not in JOINS:
            raise Invalid(f"joinType is {', '.join(JOINS)}, not {short(block['joinType'])}")
        ours = {name: _of("l", name, one) for name, one in left.columns.items()}
        theirs = {f"{prefix}{name}": _of("r", name, one) for name, one in right.columns.items()}
        scope = Scope({**ours, **theirs})
        test = to_bool(compile_expression(block.get("condition"), scope.find)).text
        more = "".join(f", {one.text} AS {quote(name)}" for name, one in theirs.items())
        columns = {name: Sql(quote(name), one.kind) for name, one in theirs.items()}

        def around(left: Source) -> Source:
            sql = f"(SELECT l.*{more} FROM {left.sql} AS l {kind} JOIN {right.sql} AS r ON {test})"
            return replace(left, sql=sql, columns={**left.columns, **columns})

        return _around(left, around, keeps_right=kind in {"RIGHT", "FULL"})

    def _unnested(self, block: Block) -> Source:
        base = self.read(block.get("base"))
        virtual = block_of(block.get("virtualColumn"), "virtualColumn")
        name = text_of(virtual, "name", what="virtualColumn")
        found = compile_expression(virtual.get("expression"), Scope(base.columns).find)
        each = f"unnest({found.text})" if found.is_array else found.text
        columns = {**base.columns, name: Sql(quote(name), element(found.kind))}
        test = compile_filter(block.get("unnestFilter"), Scope(columns))

        def around(base: Source) -> Source:
            sql = f"(SELECT *, {each} AS {quote(name)} FROM {base.sql})"
            sql = f"(SELECT * FROM {sql} WHERE {test})" if test else sql
            return replace(base, sql=sql, columns=columns)

        return _around(base, around)


def _around(
    base: Source, around: Callable[[Source], Source], *, keeps_right: bool = False
) -> Source:
    """Return a source around another one, whose rows have its time.

    Args:
        keeps_right: Whether rows are added that have no time.
    """
    if not keeps_right and base.narrowed is None:
        return around(base)
    return replace(around(base), narrowed=lambda test: around(base.within(test)))


def _of(side: str, name: str, column: Sql) -> Sql:
    """Return a column of one side of a join."""
    text = f"{side}.{quote(name)}"
    return Sql(f"epoch_ms({text})" if column.is_time else text, column.kind)


def _kind_of(cells: Sequence[object], wanted: str) -> Kind:
    """Return the type of a column that a query brings: the one that it says, else one that all values fit in."""
    kind = TYPES_SAID.get(wanted)
    are_lists = any(isinstance(one, list) for one in cells)
    if kind == "string" and are_lists:  # Druid's name of several texts, too
        return "array<string>"
    if kind is not None:
        return kind
    if any(isinstance(one, Mapping) for one in cells):
        return "json"
    if not are_lists:
        return common_kind([literal(one) for one in cells])
    items = [literal(item) for one in cells for item in (one if isinstance(one, list) else [one])]
    return f"array<{common_kind(items)}>"  # type: ignore[return-value]


def _cell(value: object, kind: Kind) -> str:
    """Return a value that a query brings, in the type of its column."""
    if value is None:
        return f"CAST(NULL AS {sql_type(kind)})"
    if kind == "json":
        return quote_text(msgspec.json.encode(value).decode())
    if isinstance(value, list) and kind.startswith("array<"):
        items = ", ".join(cast_to(literal(one), element(kind)).text for one in value)
        return f"CAST([{items}] AS {sql_type(kind)})"
    return cast_to(literal(value), kind).text


def _inline(block: Block) -> Source:
    names = [str(one) for one in list_of(block, "columnNames")]
    rows, kinds = list_of(block, "rows"), list_of(block, "columnTypes")
    if not names or not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        raise Invalid("an inline data source needs columnNames, and rows of as many values")
    if len(names) * len(rows) > CELLS_MAX:
        raise Invalid(
            f"an inline data source may have {CELLS_MAX:,} values; append them to a datasource"
        )
    columns, texts = {}, []
    for place, name in enumerate(names):
        cells = [row[place] for row in rows]
        wanted = str(kinds[place] if place < len(kinds) else "").upper()
        kind = "long" if name == TIME_COLUMN else _kind_of(cells, wanted)
        texts.append([_cell(one, kind) for one in cells])
        columns[name] = Sql(quote(name), kind)
    listed = ", ".join(map(quote, names))
    if not rows:
        nulls = ", ".join(
            f"CAST(NULL AS {sql_type(one.kind)}) AS {quote(name)}" for name, one in columns.items()
        )
        return Source(f"(SELECT {nulls} WHERE false)", columns)
    values = ", ".join(f"({', '.join(row)})" for row in zip(*texts, strict=True))
    if TIME_COLUMN in columns:
        mapped = ", ".join(
            f"make_timestamptz({quote(n)} * 1000) AS {quote(n)}" if n == TIME_COLUMN else quote(n)
            for n in names
        )
        made = f"(SELECT {mapped} FROM (VALUES {values}) AS inlined({listed}))"
        return Source(made, {**columns, **with_time({})})
    return Source(f"(SELECT * FROM (VALUES {values}) AS inlined({listed}))", columns)
