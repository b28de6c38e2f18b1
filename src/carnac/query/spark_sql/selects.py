"""Clauses in Spark's SQL: each SELECT becomes one that computes, inside of one that orders, limits and names."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from carnac.core.quoting import quote_for_spark
from carnac.query.distributed.aggregates import function_name
from carnac.query.distributed.groups import is_ordinal
from carnac.query.spark_sql.aggregates import order_of
from carnac.query.spark_sql.expressions import Expressions
from carnac.query.spark_sql.kinds import TEXT, Kind, converted, refuse
from carnac.query.spark_sql.resolving import Clauses, Resolver, Source
from carnac.query.spark_sql.typing import Oracle, is_constant, kinds_of
from carnac.query.syntax import Node, arguments, base_table, select_of, walk_here

_JOINS = {
    "INNER": "JOIN",
    "LEFT": "LEFT JOIN",
    "RIGHT": "RIGHT JOIN",
    "FULL": "FULL JOIN",
    "SEMI": "LEFT SEMI JOIN",
    "ANTI": "LEFT ANTI JOIN",
}
_SOURCES = {
    "TABLE_FUNCTION": "a table function",
    "PIVOT": "PIVOT",
    "SHOW_REF": "a description of tables",
    "EXPRESSION_LIST": "a list of values in FROM",
}
LIMIT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Printed:
    """A query in Spark's SQL.

    Attributes:
        sql: Its columns are called `c0`, `c1`, … unless they were given names.
        kinds: DuckDB's types of its columns.
    """

    sql: str
    kinds: Sequence[Kind]


@dataclass(slots=True)
class Selects:
    """Prints the queries of one statement.

    Attributes:
        withs: Common table expressions in Spark's SQL, in order.
    """

    oracle: Oracle
    withs: list[str] = field(default_factory=list)

    def statement(self, node: Node) -> Printed:
        """Return a whole statement.

        Raises:
            NotInSpark: A part of it cannot be said.
        """
        found = self.query(node, [], {})
        heads = f"WITH {', '.join(self.withs)} " if self.withs else ""
        return Printed(heads + found.sql, found.kinds)

    def query(
        self,
        node: Node,
        ctes: Sequence[Node],
        known: Mapping[str, str],
        names: Sequence[str] | None = None,
    ) -> Printed:
        """Return a query.

        Args:
            ctes: The common table expressions around it.
            known: Names of those in Spark, by their own names in lower case.
            names: Of its columns.
        """
        for entry in node["cte_map"]["map"]:
            name = str(entry["key"])
            value = entry["value"]
            if value.get("key_targets"):
                raise refuse("a recursive query")
            body = value["query_node"]
            shown = self._names(base_table(name, ""), [*ctes, entry])
            found = self.query(body, ctes, known, shown)
            spark_name = f"__carnac_with_{len(self.withs)}"
            self.withs.append(f"{spark_name} AS ({found.sql})")
            ctes, known = [*ctes, entry], {**known, name.lower(): spark_name}
        if node["type"] == "SELECT_NODE":
            return self._select(node, ctes, known, names)
        if node["type"] == "SET_OPERATION_NODE":
            return self._set_operation(node, ctes, known, names)
        raise refuse("a recursive query")

    def _names(self, source: Node, ctes: Sequence[Node]) -> Sequence[str]:
        """Return the names of the columns of what stands in FROM."""
        return self.oracle.bound(_all_of(source), ctes).names

    # ------------------------------------------------------------------------------------------------ set operations

    def _set_operation(
        self,
        node: Node,
        ctes: Sequence[Node],
        known: Mapping[str, str],
        names: Sequence[str] | None,
    ) -> Printed:
        kind = str(node["setop_type"])
        if kind not in {"UNION", "EXCEPT", "INTERSECT"} or (
            kind != "UNION" and len(node["children"]) != 2
        ):
            raise refuse(f"{kind.replace('_', ' ')}")
        result = self.oracle.bound(node, ctes)
        parts = []
        for child in node["children"]:
            found = self.query(child, ctes, known)
            values = ", ".join(
                f"{converted(f'c{place}', own, wanted)} AS c{place}"
                for place, (own, wanted) in enumerate(zip(found.kinds, result.types, strict=True))
            )
            parts.append(f"SELECT {values} FROM ({found.sql})")
        word = f" {kind}{' ALL' if node['setop_all'] else ''} "
        united = word.join(f"({one})" for one in parts)
        modifiers = _modifiers(node)
        lower = [name.lower() for name in result.names]
        keys = []
        for one in modifiers.get("ORDER_MODIFIER", {}).get("orders", ()):
            place = _place_among(one["expression"], lower)
            keys.append(order_of(f"c{place}", result.types[place], one))
        return Printed(
            _outer(united, len(result.types), names, keys, self._limit(modifiers)), result.types
        )

    # ------------------------------------------------------------------------------------------------ SELECT

    def _select(
        self,
        node: Node,
        ctes: Sequence[Node],
        known: Mapping[str, str],
        names: Sequence[str] | None,
    ) -> Printed:
        if node["sample"] is not None or _has_sample(node["from_table"]):
            raise refuse("a sample")
        sources = self._sources(node["from_table"], ctes)
        columns = {name.lower() for one in sources for name in one.names}
        modifiers = _modifiers(node)
        clauses = Resolver(node, columns, sources).clauses(modifiers)
        joined = list(_conditions(node["from_table"]))
        kinds = dict(kinds_of(self.oracle, node, [*clauses.all(), *joined], ctes))

        def inside(inner: Node) -> tuple[str, Sequence[Kind]]:
            found = self.query(inner, ctes, known)
            return found.sql, found.kinds

        out = Expressions(self.oracle, kinds, inside)
        source = self._from(node["from_table"], out, ctes, known)
        distinct = modifiers.get("DISTINCT_MODIFIER")
        if distinct is not None and distinct["distinct_on_targets"]:
            raise refuse("DISTINCT ON")
        if distinct is not None and clauses.keys:
            raise refuse("an order by what DISTINCT does not select")
        inner = self._inner(node, clauses, out, source, is_distinct=distinct is not None)
        keys = [
            order_of(f"o{number}", out.kind(clauses.keys[number]), one)
            if place is None
            else order_of(f"c{place}", out.kind(clauses.items[place]), one)
            for number, place, one in _numbered(clauses)
        ]
        sql = f"({inner})"
        if clauses.qualify is not None:
            sql = f"(SELECT * FROM {sql} WHERE q)"
        whole = _outer(sql, len(clauses.items), names, keys, self._limit(modifiers))
        return Printed(whole, [out.kind(one) for one in clauses.items])

    def _inner(
        self, node: Node, clauses: Clauses, out: Expressions, source: str, *, is_distinct: bool
    ) -> str:
        spreading = [one for one in clauses.items if function_name(one) == "unnest"]
        if len(spreading) > 1 or (
            spreading and any(one.get("class") == "WINDOW" for one in walk_here(clauses.all()))
        ):
            raise refuse("an unnest beside another one, or beside a window function,")
        items = [f"{_item(out, one)} AS c{place}" for place, one in enumerate(clauses.items)]
        items += [f"{out.sql(one)} AS o{place}" for place, one in enumerate(clauses.keys)]
        if clauses.qualify is not None:
            items.append(f"{out.truth(clauses.qualify)} AS q")
        sql = f"SELECT {'DISTINCT ' if is_distinct else ''}{', '.join(items)}{source}"
        if clauses.where is not None:
            sql += f" WHERE {out.truth(clauses.where)}"
        if clauses.groups:
            groups = [out.sql(one) for one in clauses.groups]
            sets = node["group_sets"]
            if len(sets) > 1:
                listed = ", ".join(f"({', '.join(groups[i] for i in one)})" for one in sets)
                sql += f" GROUP BY GROUPING SETS ({listed})"
            else:
                sql += f" GROUP BY {', '.join(groups)}"
        if clauses.having is not None:
            sql += f" HAVING {out.truth(clauses.having)}"
        return sql

    def _limit(self, modifiers: Mapping[str, Node]) -> str:
        limit = modifiers.get("LIMIT_MODIFIER")
        if limit is None:
            return ""
        if limit["limit_type"] != "ROW_COUNT":
            raise refuse("a limit that is a share of the rows")
        told = ""
        for key, word in (("limit", "LIMIT"), ("offset", "OFFSET")):
            if limit.get(key) is None:
                continue
            value = self.oracle.value(limit[key], TEXT) if is_constant(limit[key]) else None
            if value is None or not str(value).isdigit() or int(str(value)) > LIMIT_MAX:
                raise refuse("a limit that is not a plain number")
            told += f" {word} {value}"
        return told

    # ------------------------------------------------------------------------------------------------ FROM

    def _sources(self, node: Node, ctes: Sequence[Node]) -> list[Source]:
        """Return what a `*` stands for, from left to right."""
        kind = node["type"]
        if kind == "EMPTY":
            return []
        if kind == "JOIN":
            left = self._sources(node["left"], ctes)
            if node["join_type"] in {"SEMI", "ANTI"}:
                return left
            return left + self._sources(node["right"], ctes)
        if kind not in {"BASE_TABLE", "SUBQUERY"}:
            raise refuse(_SOURCES.get(kind, f"{kind.lower()} in FROM"))
        alias = str(node["alias"] or node.get("table_name") or "")
        return [Source(alias, self._names(node, ctes))]

    def _from(
        self, node: Node, out: Expressions, ctes: Sequence[Node], known: Mapping[str, str]
    ) -> str:
        return "" if node["type"] == "EMPTY" else f" FROM {self._source(node, out, ctes, known)}"

    def _source(
        self, node: Node, out: Expressions, ctes: Sequence[Node], known: Mapping[str, str]
    ) -> str:
        alias = f" AS {quote_for_spark(str(node['alias']))}" if node["alias"] else ""
        if node["type"] == "BASE_TABLE":
            name = str(node["table_name"])
            if node["column_name_alias"]:
                raise refuse("a table with other names for its columns")
            alias = alias or f" AS {quote_for_spark(name)}"
            return f"{quote_for_spark(known.get(name.lower(), name))}{alias}"
        if node["type"] == "SUBQUERY":
            names = self._names(node, ctes)
            found = self.query(node["subquery"]["node"], ctes, known, names)
            return f"({found.sql}){alias}"
        left = self._source(node["left"], out, ctes, known)
        right = self._source(node["right"], out, ctes, known)
        manner, kind = node["ref_type"], node["join_type"]
        if manner not in {"REGULAR", "CROSS"} or kind not in _JOINS:
            raise refuse(f"a {str(kind if manner == 'REGULAR' else manner).lower()} join")
        if node["right"]["type"] == "JOIN":
            right = f"({right})"
        if manner == "CROSS":
            return f"{left} CROSS JOIN {right}"
        if node["using_columns"]:
            names = ", ".join(quote_for_spark(str(one)) for one in node["using_columns"])
            return f"{left} {_JOINS[kind]} {right} USING ({names})"
        return f"{left} {_JOINS[kind]} {right} ON {out.truth(node['condition'])}"


def _item(out: Expressions, node: Node) -> str:
    """Return an item of the select list, where one `unnest` may stand."""
    if function_name(node) == "unnest":
        args = arguments(node)
        if len(args) != 1 or not out.kind(args[0]).endswith("[]"):
            raise refuse("such an unnest")
        return f"explode({out.sql(args[0])})"
    return out.sql(node)


def _outer(
    sql: str, width: int, names: Sequence[str] | None, keys: Sequence[str], limit: str
) -> str:
    shown = [f"c{place}" for place in range(width)]
    if names is not None:
        shown = [
            f"{own} AS {quote_for_spark(name)}" for own, name in zip(shown, names, strict=True)
        ]
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(shown)} FROM ({sql}){order}{limit}"


def _numbered(clauses: Clauses) -> Sequence[tuple[int, int | None, Node]]:
    found, number = [], 0
    for place, one in zip(clauses.places, clauses.orders, strict=True):
        found.append((number, place, one))
        number += place is None
    return found


def _place_among(expression: Node, names: Sequence[str]) -> int:
    """Return which of the columns of a set operation an item of ORDER BY means."""
    if is_ordinal(expression):
        return int(expression["literal"]["text"]) - 1
    if expression["class"] == "COLUMN_REF" and len(expression["column_names"]) == 1:
        name = str(expression["column_names"][0]).lower()
        if names.count(name) == 1:
            return names.index(name)
    raise refuse("an order of a set operation by something else than its columns")


def _modifiers(node: Node) -> dict[str, Node]:
    return {one["type"]: one for one in node["modifiers"]}


def _has_sample(source: Node) -> bool:
    if source.get("sample") is not None:
        return True
    return any(_has_sample(source[key]) for key in ("left", "right") if source["type"] == "JOIN")


def _conditions(source: Node) -> list[Node]:
    if source["type"] != "JOIN":
        return []
    own = [source["condition"]] if source["condition"] is not None else []
    return [*_conditions(source["left"]), *_conditions(source["right"]), *own]


def _all_of(source: Node) -> Node:
    """Return the query of all columns of what stands in FROM."""
    found: Node = select_of([copy.deepcopy(_STAR)])["node"]
    return found | {"from_table": source}


_STAR: Node = {
    "class": "STAR",
    "type": "STAR",
    "alias": "",
    "query_location": 0,
    "query_location_length": 0,
    "relation_name": "",
    "exclude_list": [],
    "replace_list": [],
    "columns": False,
    "expr": None,
    "qualified_exclude_list": [],
    "rename_list": [],
}
