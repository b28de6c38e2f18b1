"""The parts of a statement that are computed from one row alone go below Spark, to DuckDB in its workers.

Spark's SQL says the same as DuckDB's for the functions that are listed (`functions`); reading raw text takes many
others. So the expressions over the rows of one table, and the conditions on them, are computed where these rows are
read. Spark joins, groups, sorts and limits what comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from carnac.core.quoting import quote, quote_for_spark
from carnac.ports.distributed import SOURCE_ROWS
from carnac.query.distributed.aggregates import SPREADING, VOLATILE, function_name, is_aggregate
from carnac.query.distributed.binding import bind
from carnac.query.distributed.naming import column, key_of
from carnac.query.distributed.nesting import called
from carnac.query.relations import conjuncts
from carnac.query.rewriting.sketching import SKETCH_FUNCTIONS
from carnac.query.spark_sql.kinds import NULL, PLAIN_TIME, TEXT, TIME, Kind, refuse, spark_type
from carnac.query.syntax import (
    ROW_EXPRESSIONS,
    Node,
    conjunction,
    select_of,
    text_of,
    unparse,
    walk,
)

if TYPE_CHECKING:
    import duckdb

_OF_ROWS = ROW_EXPRESSIONS | {"COLUMN_REF", "LAMBDA", "LAMBDA_REF"}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A view in place of a table.

    Attributes:
        table: Whose rows it is made of.
        sql, schema: As of `SparkRows`.
    """

    view: str
    table: str
    sql: str
    schema: str


def push_rows(
    cursor: duckdb.DuckDBPyConnection, statement: Node, tables: Mapping[str, Mapping[str, Kind]]
) -> list[Pushed]:
    """Let each place of a statement that reads a table name a view of its own, in place; return the views.

    They are made in the cursor, without rows.

    Args:
        tables: Types of the columns by name, of each table that is read; they are in the cursor.

    Raises:
        NotInSpark: A `*` with names left out or replaced, or a value that Spark has no type for.
        duckdb.Error: An expression names what there is not, or puts together what does not fit.
    """
    found: list[Pushed] = []
    for select in [one for one in walk(statement["node"]) if one.get("type") == "SELECT_NODE"]:
        source = select["from_table"]
        table = str(source.get("table_name", ""))
        is_alone = source["type"] == "BASE_TABLE" and source["sample"] is None
        if is_alone and table in tables and not source["column_name_alias"]:
            push = _Push(cursor, select, tables[table], f"__carnac_rows_{len(found)}")
            found.append(push.done(table))
    for node in list(walk(statement["node"])):
        table = str(node.get("table_name", ""))
        if node.get("type") == "BASE_TABLE" and table in tables:
            whole = select_of([])["node"] | {"from_table": node}
            push = _Push(cursor, whole, tables[table], f"__carnac_rows_{len(found)}")
            found.append(push.all_of(table))
            node.update(whole["from_table"])
    return found


@dataclass(slots=True)
class _Push:
    """Takes what is of one row out of a SELECT over one table."""

    cursor: duckdb.DuckDBPyConnection
    select: Node
    columns: Mapping[str, Kind]
    view: str
    _names: dict[str, str] = field(init=False)
    _pushed: dict[str, tuple[str, Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = {name.lower(): name for name in self.columns}

    def done(self, table: str) -> Pushed:
        """Rewrite the SELECT; return the view that it reads."""
        select = self.select
        items = [one for item in select["select_list"] for one in self._starred(item)]
        named = {str(one["alias"]).lower() for one in items if one["alias"]}
        where = self._where(select["where_clause"])
        for item in items:
            if not item["alias"] and item["class"] != "COLUMN_REF":
                item["alias"] = text_of(self.cursor, item)
        select["select_list"] = [self._kept(one, frozenset()) for one in items]
        groups = select["group_expressions"]  # in which a column wins over an alias
        select["group_expressions"] = self._kept(groups, frozenset())
        for key in ("having", "qualify", "modifiers"):
            select[key] = self._kept(select[key], frozenset(named))
        return self._view(table, self._read(), where)

    def all_of(self, table: str) -> Pushed:
        """Return the view of all columns."""
        return self._view(table, list(self.columns), None)

    def _view(self, table: str, read: Sequence[str], where: Node | None) -> Pushed:
        source = self.select["from_table"]
        alias = str(source["alias"] or table)
        over = {"from_table": source | {"alias": alias}}
        expressions = [node for _, node in self._pushed.values()]
        kinds: list[Kind] = []
        if expressions:
            probe = {"node": select_of(expressions)["node"] | over, "named_param_map": []}
            kinds = list(bind(self.cursor, unparse(self.cursor, probe)).types)
        values = {name: (quote(name), self.columns[name]) for name in read}
        for (name, node), kind in zip(self._pushed.values(), kinds, strict=True):
            values[name] = (text_of(self.cursor, node), kind)
        values = values or {"one": ("1", "INTEGER")}
        self._show(values)
        listed = ", ".join(_sent(*value, name) for name, value in values.items())
        sql = f"SELECT {listed} FROM {SOURCE_ROWS} AS {quote(alias)}"
        if where is not None:
            sql += f" WHERE {text_of(self.cursor, where)}"
        schema = ", ".join(
            f"{quote_for_spark(name)} {spark_type(_WIDER.get(kind, kind))}"
            for name, (_, kind) in values.items()
        )
        self.select["from_table"] = called(source, self.view) | {"alias": alias}
        return Pushed(view=self.view, table=table, sql=sql, schema=schema)

    def _show(self, values: Mapping[str, tuple[str, Kind]]) -> None:
        listed = ", ".join(
            f"CAST(NULL AS {_WIDER[kind] if kind in _UNTYPED else kind}) AS {quote(name)}"
            for name, (_, kind) in values.items()
        )
        self.cursor.execute(
            f"CREATE OR REPLACE TEMP VIEW {self.view} AS SELECT {listed} WHERE false"
        )

    def _read(self) -> list[str]:
        """Return the columns that what is left of the SELECT names, in whatever depth."""
        named = {
            str(one["column_names"][-1]).lower()
            for one in walk({key: part for key, part in self.select.items() if key != "from_table"})
            if one.get("class") == "COLUMN_REF"
        }
        return [name for lower, name in self._names.items() if lower in named]

    def _where(self, condition: Node | None) -> Node | None:
        """Leave of WHERE what is not of one row; return the rest."""
        if condition is None:
            return None
        parts = conjuncts(condition)
        below = [one for one in parts if self._is_of_row(one, frozenset())]
        self.select["where_clause"] = self._kept(
            conjunction([one for one in parts if not any(one is other for other in below)]),
            frozenset(),
        )
        return conjunction(below)

    def _kept(self, part: Any, ambiguous: frozenset[str]) -> Any:
        """Return a part of the SELECT with columns of the view in place of what is computed below.

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
        if part.get("class") != "COLUMN_REF" and self._is_of_row(part, ambiguous):
            return column(self._name_of(part)) | {"alias": part["alias"]}
        return {key: self._kept(value, ambiguous) for key, value in part.items()}

    def _in_aggregate(self, part: Any, ambiguous: frozenset[str]) -> Any:
        if isinstance(part, list):
            return [self._in_aggregate(one, ambiguous) for one in part]
        if isinstance(part, dict) and part.get("class") == "COLUMN_REF":
            is_plain = str(part["column_names"][-1]).lower() not in ambiguous
            if is_plain or not self._is_of_row(part, frozenset()):
                return part
            return column(self._name_of(part))
        if isinstance(part, dict) and "class" not in part:
            return {key: self._in_aggregate(value, ambiguous) for key, value in part.items()}
        return self._kept(part, frozenset())

    def _name_of(self, node: Node) -> str:
        plain = node | {"alias": ""}
        key = key_of(plain)
        if key not in self._pushed:
            self._pushed[key] = f"__carnac_row_{len(self._pushed)}", plain
        return self._pushed[key][0]

    def _is_of_row(self, node: Node, ambiguous: frozenset[str]) -> bool:
        """Whether an expression is computed from the columns of one row, and from one at least."""
        if node.get("class") not in _OF_ROWS:
            return False
        parts = list(walk(node))
        own = {one for part in parts if part.get("class") == "LAMBDA" for one in _parameters(part)}
        has_column = False
        for one in parts:
            kind = one.get("class")
            if kind is not None and kind not in _OF_ROWS:
                return False
            name = function_name(one)
            if is_aggregate(one) or name in VOLATILE | SPREADING | SKETCH_FUNCTIONS:
                return False
            if kind == "COLUMN_REF" and not (
                len(one["column_names"]) == 1 and one["column_names"][0] in own
            ):
                if not self._is_column(one["column_names"], ambiguous):
                    return False
                has_column = True
        return has_column

    def _is_column(self, path: Sequence[str], ambiguous: frozenset[str]) -> bool:
        name = str(path[-1]).lower()
        source = self.select["from_table"]
        alias = str(source["alias"] or source["table_name"]).lower()
        if len(path) == 1:
            return name in self._names and name not in ambiguous
        return len(path) == 2 and str(path[0]).lower() == alias and name in self._names

    def _starred(self, item: Node) -> list[Node]:
        if item["class"] != "STAR":
            return [item]
        if any(item.get(key) for key in ("replace_list", "rename_list", "columns", "expr")):
            raise refuse("a * with names replaced")
        left_out = {str(one).lower() for one in item["exclude_list"]}
        return [column(name) for lower, name in self._names.items() if lower not in left_out]


def _parameters(node: Node) -> list[str]:
    """Return the names that a lambda gives to its arguments."""
    return [
        str(one["column_names"][0])
        for one in walk(node.get("lhs"))
        if one.get("class") == "COLUMN_REF" and len(one["column_names"]) == 1
    ]


def _sent(sql: str, kind: Kind, name: str) -> str:
    wider = _WIDER.get(kind)
    return f"{sql if wider is None else f'CAST({sql} AS {wider})'} AS {quote(name)}"
