"""The parts of a statement that are computed from one row alone go below Spark, to DuckDB in its workers.

Spark's SQL says the same as DuckDB's for the functions that are listed (`functions`); reading raw text takes many
others. So the expressions over the rows of one table, and the conditions on them, are computed where these rows are
read. Spark joins, groups, sorts and limits the results. Values that an outer join may replace by nulls stay above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from carnac.core.quoting import quote, quote_for_spark
from carnac.ports.distributed import SOURCE_ROWS, SparkRows
from carnac.query.binding import bind
from carnac.query.distributed.aggregates import SPREADING, VOLATILE, function_name, is_aggregate
from carnac.query.distributed.naming import column, key_of
from carnac.query.distributed.nesting import called
from carnac.query.relations import conjuncts
from carnac.query.rewriting.sketching import SKETCH_FUNCTIONS
from carnac.query.spark_sql.kinds import NULL, PLAIN_TIME, TEXT, TIME, Kind, refuse, spark_type
from carnac.query.syntax import (
    ROW_EXPRESSIONS,
    Node,
    conjunction,
    lambda_names,
    select_of,
    text_of,
    unparse,
    walk,
)

if TYPE_CHECKING:
    import duckdb

_OF_ROWS = ROW_EXPRESSIONS | {"COLUMN_REF", "LAMBDA", "LAMBDA_REF"}
_KEEPING_LEFT = frozenset({"INNER", "LEFT", "SEMI", "ANTI"})
"""Joins that make no rows of nulls of what stands left of them."""
_KEEPING_RIGHT = frozenset({"INNER", "RIGHT"})
_UNTYPED = frozenset({"JSON", NULL})
"""Types that Spark's SQL does not know."""
_WIDER: Mapping[Kind, Kind] = {
    PLAIN_TIME: TIME,
    "JSON": TEXT,
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INTEGER",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
    "HUGEINT": "DECIMAL(38,0)",
    NULL: "INTEGER",
}
"""Types whose values go to Spark as another one."""


def push_rows(
    cursor: duckdb.DuckDBPyConnection, statement: Node, tables: Mapping[str, Mapping[str, Kind]]
) -> list[SparkRows]:
    """Let each place of a statement that reads a table name a view of its own, in place; return the views, of tables.

    They are made in the cursor, without rows.

    Args:
        tables: Types of the columns by name, of each table that is read; they are in the cursor.

    Raises:
        NotInSpark: A `*` with names left out or replaced, or a value that Spark has no type for.
        duckdb.Error: An expression names what there is not, or puts together what does not fit.
    """
    found: list[SparkRows] = []
    for select in [one for one in walk(statement["node"]) if one.get("type") == "SELECT_NODE"]:
        sources = list(_sources(select["from_table"], is_nullable=False))
        sides = [
            _Side(node, tables[str(node["table_name"])], number, is_nullable=is_nullable)
            for number, (node, is_nullable) in enumerate(sources)
            if node.get("table_name") in tables and _is_plain(node)
        ]
        if sides and _is_regular(select["from_table"]):
            push = _Push(cursor, select, sides, knows_all=len(sides) == len(sources))
            found += push.done(len(found))
    for node in list(walk(statement["node"])):
        table = str(node.get("table_name", ""))
        if node.get("type") == "BASE_TABLE" and table in tables:
            side = _Side(node, tables[table], 0, is_nullable=False)
            found.append(side.view(cursor, len(found), list(side.columns), None))
    return found


def _sources(node: Node, *, is_nullable: bool) -> Iterator[tuple[Node, bool]]:
    """Yield what a FROM clause joins, and whether a join may make rows of nulls of it."""
    if node["type"] != "JOIN":
        if node["type"] != "EMPTY":
            yield node, is_nullable
        return
    kind = node["join_type"]
    yield from _sources(node["left"], is_nullable=is_nullable or kind not in _KEEPING_LEFT)
    yield from _sources(node["right"], is_nullable=is_nullable or kind not in _KEEPING_RIGHT)


def _is_regular(node: Node) -> bool:
    """Whether all joins of a FROM clause are by conditions: others look at columns that are not named."""
    return all(one["ref_type"] in {"REGULAR", "CROSS"} for one in _joins(node))


def _joins(node: Node) -> Iterator[Node]:
    if node["type"] == "JOIN":
        yield node
        yield from _joins(node["left"])
        yield from _joins(node["right"])


def _is_plain(node: Node) -> bool:
    return node["sample"] is None and not node["column_name_alias"]


@dataclass(slots=True)
class _Side:
    """A table in a FROM clause, and the expressions that are computed from its rows.

    Attributes:
        node: Its reference, which is rewritten in place.
        number: Of the table in the clause.
        is_nullable: Whether an outer join may put nulls in the place of its columns.
    """

    node: Node
    columns: Mapping[str, Kind]
    number: int
    is_nullable: bool
    table: str = field(init=False)
    alias: str = field(init=False)
    names: Mapping[str, str] = field(init=False)
    _pushed: dict[str, tuple[str, Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = str(self.node["table_name"])
        self.alias = str(self.node["alias"] or self.table)
        self.names = {name.lower(): name for name in self.columns}

    def name_of(self, node: Node) -> Node:
        """Return the column that stands for an expression over a row."""
        plain = node | {"alias": ""}
        key = key_of(plain)
        if key not in self._pushed:
            self._pushed[key] = f"__carnac_row_{self.number}_{len(self._pushed)}", plain
        return column(self.alias, self._pushed[key][0])

    def view(
        self,
        cursor: duckdb.DuckDBPyConnection,
        number: int,
        read: Sequence[str],
        where: Node | None,
    ) -> SparkRows:
        """Make the view, of these columns and of the expressions, and let the reference name it."""
        over = {"from_table": self.node | {"alias": self.alias}}
        expressions = [node for _, node in self._pushed.values()]
        kinds: list[Kind] = []
        if expressions:
            probe = {"node": select_of(expressions)["node"] | over, "named_param_map": []}
            kinds = list(bind(cursor, unparse(cursor, probe)).types)
        values = {name: (quote(name), self.columns[name]) for name in read}
        for (name, node), kind in zip(self._pushed.values(), kinds, strict=True):
            values[name] = (text_of(cursor, node), kind)
        values = values or {"one": ("1", "INTEGER")}
        view = f"__carnac_rows_{number}"
        _show(cursor, view, values)
        listed = ", ".join(_sent(*value, name) for name, value in values.items())
        sql = f"SELECT {listed} FROM {SOURCE_ROWS} AS {quote(self.alias)}"
        if where is not None:
            sql += f" WHERE {text_of(cursor, where)}"
        schema = ", ".join(
            f"{quote_for_spark(name)} {spark_type(_WIDER.get(kind, kind))}"
            for name, (_, kind) in values.items()
        )
        self.node.update(called(self.node, view) | {"alias": self.alias})
        return SparkRows(view=view, of=self.table, sql=sql, schema=schema)


@dataclass(slots=True)
class _Push:
    """Takes what is of one row out of a SELECT.

    Args:
        sides: The tables that it reads.
        knows_all: Whether it reads nothing else, so that a name without a table means one of theirs.

    Attributes:
        _joined: Tables whose rows are looked at before a join may put nulls in their place, while its condition is
            rewritten: by `id` of their references.
    """

    cursor: duckdb.DuckDBPyConnection
    select: Node
    sides: Sequence[_Side]
    knows_all: bool
    _joined: set[int] = field(default_factory=set)

    def done(self, first: int) -> list[SparkRows]:
        """Rewrite the SELECT; return the views that it reads.

        Args:
            first: Number of the first of them.
        """
        select, joins = self.select, list(_joins(self.select["from_table"]))
        if joins and any(item["class"] == "STAR" for item in select["select_list"]):
            return []
        items = [one for item in select["select_list"] for one in self._starred(item)]
        named = {str(one["alias"]).lower() for one in items if one["alias"]}
        where = self._where(select["where_clause"], is_alone=not joins and self.knows_all)
        for item in items:
            if not item["alias"] and item["class"] != "COLUMN_REF":
                item["alias"] = text_of(self.cursor, item)
        select["select_list"] = [self._kept(one, frozenset()) for one in items]
        for join in joins:
            self._joined = {id(join["left"]), id(join["right"])}
            join["condition"] = self._kept(join["condition"], frozenset())
        self._joined = set()
        groups = select["group_expressions"]  # in which a column wins over an alias
        select["group_expressions"] = self._kept(groups, frozenset())
        for key in ("having", "qualify", "modifiers"):
            select[key] = self._kept(select[key], frozenset(named))
        read = self._read()
        return [
            side.view(
                self.cursor,
                first + place,
                [name for lower, name in side.names.items() if lower in read],
                where,
            )
            for place, side in enumerate(self.sides)
        ]

    def _read(self) -> set[str]:
        """Return the columns that the rest of the SELECT names, at any depth, in lower case."""
        found: set[str] = set()
        for one in walk(self.select):
            if one.get("class") == "COLUMN_REF":
                found.add(str(one["column_names"][-1]).lower())
            found.update(str(name).lower() for name in one.get("using_columns") or ())
        return found

    def _where(self, condition: Node | None, *, is_alone: bool) -> Node | None:
        """Leave of WHERE what is not of one row of the one table; return the rest."""
        if condition is None:
            return None
        parts = conjuncts(condition)
        below = [one for one in parts if is_alone and self._side_of(one, frozenset())]
        self.select["where_clause"] = self._kept(
            conjunction([one for one in parts if not any(one is other for other in below)]),
            frozenset(),
        )
        return conjunction(below)

    def _kept(self, part: Any, ambiguous: frozenset[str]) -> Any:
        """Return a part of the SELECT with columns of views in place of what is computed below.

        Args:
            ambiguous: Names that may mean a column or an alias here.
        """
        if isinstance(part, list):
            return [self._kept(one, ambiguous) for one in part]
        if not isinstance(part, dict):
            return part
        if part.get("class") == "SUBQUERY":
            return part | {"child": self._kept(part.get("child"), ambiguous)}
        if is_aggregate(part):  # aggregates hold no aggregates, so a name in one means a column
            return {key: self._in_aggregate(value, ambiguous) for key, value in part.items()}
        side = None if part.get("class") == "COLUMN_REF" else self._side_of(part, ambiguous)
        if side is not None:
            return side.name_of(part) | {"alias": part["alias"]}
        return {key: self._kept(value, ambiguous) for key, value in part.items()}

    def _in_aggregate(self, part: Any, ambiguous: frozenset[str]) -> Any:
        if isinstance(part, list):
            return [self._in_aggregate(one, ambiguous) for one in part]
        if isinstance(part, dict) and part.get("class") == "COLUMN_REF":
            is_plain = str(part["column_names"][-1]).lower() not in ambiguous
            side = None if is_plain else self._side_of(part, frozenset())
            return part if side is None else side.name_of(part)
        if isinstance(part, dict) and "class" not in part:
            return {key: self._in_aggregate(value, ambiguous) for key, value in part.items()}
        return self._kept(part, frozenset())

    def _side_of(self, node: Node, ambiguous: frozenset[str]) -> _Side | None:
        """Return the table from one row of which an expression is computed; None: from none, or several, or nulls."""
        if node.get("class") not in _OF_ROWS:
            return None
        parts = list(walk(node))
        own = {one for part in parts if part.get("class") == "LAMBDA" for one in lambda_names(part)}
        found: list[_Side] = []
        for one in parts:
            kind = one.get("class")
            if kind is not None and kind not in _OF_ROWS:
                return None
            name = function_name(one)
            if is_aggregate(one) or name in VOLATILE | SPREADING | SKETCH_FUNCTIONS:
                return None
            if kind == "COLUMN_REF" and not (
                len(one["column_names"]) == 1 and one["column_names"][0] in own
            ):
                side = self._owner(one["column_names"], ambiguous)
                if side is None or (found and found[0] is not side):
                    return None
                found.append(side)
        if not found or (found[0].is_nullable and id(found[0].node) not in self._joined):
            return None
        return found[0]

    def _owner(self, path: Sequence[str], ambiguous: frozenset[str]) -> _Side | None:
        """Return the table that a column is of; None: it is not certain."""
        name = str(path[-1]).lower()
        if len(path) == 1:
            if not self.knows_all or name in ambiguous:
                return None
            owners = [one for one in self.sides if name in one.names]
        else:
            owners = [one for one in self.sides if one.alias.lower() == str(path[0]).lower()]
        if len(path) > 2 or len(owners) != 1 or name not in owners[0].names:
            return None
        return owners[0]

    def _starred(self, item: Node) -> list[Node]:
        if item["class"] != "STAR" or not self.knows_all:
            return [item]
        if any(item.get(key) for key in ("replace_list", "rename_list", "columns", "expr")):
            raise refuse("a * with names replaced")
        left_out = {str(one).lower() for one in item["exclude_list"]}
        [side] = self.sides
        return [column(name) for lower, name in side.names.items() if lower not in left_out]


def _show(
    cursor: duckdb.DuckDBPyConnection, view: str, values: Mapping[str, tuple[str, Kind]]
) -> None:
    listed = ", ".join(
        f"CAST(NULL AS {_WIDER[kind] if kind in _UNTYPED else kind}) AS {quote(name)}"
        for name, (_, kind) in values.items()
    )
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT {listed} WHERE false")


def _sent(sql: str, kind: Kind, name: str) -> str:
    wider = _WIDER.get(kind)
    return f"{sql if wider is None else f'CAST({sql} AS {wider})'} AS {quote(name)}"
