"""Subqueries that give rows of a table or a join, as tools wrap datasets and models: the table stands there itself.

    SELECT page, count(*) FROM (SELECT * FROM edits WHERE n > 1) AS virtual_table WHERE n < 9 GROUP BY page
    SELECT page, count(*) FROM edits AS virtual_table WHERE virtual_table.n > 1 AND n < 9 GROUP BY page

    SELECT s.p, count(*) FROM (SELECT lower(page) AS p, n FROM edits) AS s GROUP BY s.p
    SELECT lower(s.page) AS p, count(*) FROM edits AS s GROUP BY lower(s.page)

So servers answer such a statement each for itself, and what they have answered is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from carnac.query.functions import AGGREGATES, TABLE_FUNCTIONS, is_volatile
from carnac.query.relations import Columns
from carnac.query.rewriting.sketching import SKETCH_FUNCTIONS
from carnac.query.syntax import (
    NOWHERE,
    OF_THEIR_OWN,
    ROW_EXPRESSIONS,
    STAR_PARTS,
    Node,
    conjunction,
    walk,
    walk_here,
)

UNNAMED = "unnamed_subquery"
"""What DuckDB calls a subquery without a name."""
PLAIN_WITHOUT = ("group_expressions", "group_sets", "having", "qualify", "sample", "modifiers")
"""Parts that a SELECT has not which gives each row of its table that meets a condition."""
_MANY = AGGREGATES | SKETCH_FUNCTIONS | TABLE_FUNCTIONS | {"regexp_split_to_table"}
"""Functions whose value is not one of one row."""
NODES_MAX = 5_000
"""Nodes that come into the places of names at a subquery: each of a chain that names a column twice doubles it."""
_AFTER_GROUPING = ("group_expressions", "having", "qualify", "modifiers")
"""Parts of a SELECT in which an alias may go before a column."""


class _Stays(Exception):
    """The subquery stays: without it the statement might mean something else."""


def unwrap(statement: Node, columns_of: Callable[[Node], Columns | None]) -> None:
    """Replace, in place, the FROM of each SELECT that is such a subquery, and nothing else.

    Args:
        columns_of: Returns the columns of the datasource that a BASE_TABLE node means; None: it means none.
    """
    defined = {
        str(entry["key"]).lower()
        for node in walk(statement["node"])
        for entry in (node.get("cte_map") or {}).get("map") or ()
    }

    def columns(table: Node) -> Columns | None:
        return None if str(table["table_name"]).lower() in defined else columns_of(table)

    for node in reversed(list(walk(statement["node"]))):  # what is within comes first
        if node.get("type") == "SELECT_NODE" and node["from_table"].get("type") == "SUBQUERY":
            try:
                node.update(_unwrapped(node, columns))
            except _Stays:
                continue


def _unwrapped(outer: Node, columns_of: Callable[[Node], Columns | None]) -> Node:
    """Return what becomes another in a SELECT around a subquery."""
    wrap = outer["from_table"]
    inner = wrap["subquery"]["node"]
    if wrap["sample"] is not None or outer["sample"] is not None:
        raise _Stays  # of the rows that meet the inner condition
    if not _is_plain(inner):
        raise _Stays
    rows = _Rows(inner["from_table"], str(wrap["alias"] or UNNAMED), columns_of)
    found: Node = {}
    if not _is_all(inner):
        found = _List(inner, wrap["column_name_alias"], rows).put_into(outer)
    elif wrap["column_name_alias"] or rows.is_join:
        raise _Stays
    condition = rows.moved(inner["where_clause"])
    both = [one for one in (condition, found.get("where_clause", outer["where_clause"])) if one]
    return found | {"from_table": rows.shown, "where_clause": conjunction(both)}


def _is_plain(query: Node) -> bool:
    """Whether a query gives some rows of tables, each as it is or with values computed from it alone."""
    if query["type"] != "SELECT_NODE" or query["cte_map"]["map"]:
        return False
    if any(query[part] for part in PLAIN_WITHOUT):
        return False
    condition = query["where_clause"] or {}
    if any(one.get("class") in OF_THEIR_OWN for one in walk(condition)):
        return False
    return _is_all(query) or all(map(_is_of_row, query["select_list"]))


def _is_all(query: Node) -> bool:
    """Whether a SELECT gives all columns as they are."""
    item = query["select_list"][0]
    is_all = item["class"] == "STAR" and not any(item.get(part) for part in STAR_PARTS)
    return is_all and len(query["select_list"]) == 1


def _is_of_row(item: Node) -> bool:
    """Whether an expression has a name, and a value that depends on its row, and on nothing else."""
    parts = list(walk(item))
    return (
        bool(item["alias"] or item["class"] == "COLUMN_REF")
        and any(one.get("class") == "COLUMN_REF" for one in parts)
        and not any(map(is_volatile, parts))
        and all(
            one["class"] in ROW_EXPRESSIONS | {"COLUMN_REF"} for one in parts if one.get("class")
        )
        and not any(str(one.get("function_name")).lower() in _MANY for one in parts)
    )


class _Rows:
    """The tables that a subquery reads, and what they are called where it was.

    Args:
        source: Its FROM: a table, or a join of tables, which keep their own names.
        alias: What the statement around calls the subquery.

    Raises:
        _Stays: It reads something else.
    """

    def __init__(
        self, source: Node, alias: str, columns_of: Callable[[Node], Columns | None]
    ) -> None:
        leaves = list(_leaves(source))
        self.is_join = source["type"] == "JOIN"
        self.alias = alias.lower()
        self.shown = source if self.is_join else source | {"alias": alias}
        self._names = {_name_of(one): _name_of(one) if self.is_join else alias for one in leaves}
        self._columns = {_name_of(one): columns_of(one) for one in leaves}
        if len(self._names) < len(leaves):
            raise _Stays
        joins = [one for one in walk(source) if one.get("type") == "JOIN"]
        self._merged = {str(name).lower() for one in joins for name in one["using_columns"]}

    def has(self, column: str) -> bool:
        """Whether a column may be one of the tables."""
        return any(known is None or column in known for known in self._columns.values())

    def outside(self, names: Sequence[str]) -> tuple[list[str], str]:
        """Return how a column of the subquery's tables is named in the place of the subquery, and its own name.

        Raises:
            _Stays: That is not certain.
        """
        *owner, column = (str(name).lower() for name in names)
        found = [
            table
            for table, known in self._columns.items()
            if known is not None and column in known and owner in ([], [table])
        ]
        is_known = None not in self._columns.values()
        if len(found) != 1 or not is_known or (column in self._merged and not owner):
            raise _Stays
        own = (self._columns[found[0]] or {})[column]
        return [self._names[found[0]], str(names[-1])], own

    def moved(self, condition: Any) -> Any:
        """Return a condition in which tables have the names that they have outside."""

        def renamed(node: Node) -> Node:
            first, *rest = node["column_names"]
            new = self._names.get(str(first).lower()) if rest else None
            return node if new is None else node | {"column_names": [new, *rest]}

        return condition if self.is_join else _changed(condition, renamed)


def _leaves(source: Node) -> Iterator[Node]:
    """Yield the tables of a FROM clause.

    Raises:
        _Stays: There is something else in it.
    """
    if source["sample"] is not None:
        raise _Stays
    if source["type"] == "BASE_TABLE":
        if source["column_name_alias"] or source["at_clause"] is not None:
            raise _Stays
        yield source
        return
    if source["type"] != "JOIN" or source["ref_type"] == "NATURAL":
        raise _Stays
    if any(one.get("class") in OF_THEIR_OWN for one in walk(source["condition"])):
        raise _Stays
    yield from _leaves(source["left"])
    yield from _leaves(source["right"])


def _name_of(table: Node) -> str:
    return str(table["alias"] or table["table_name"]).lower()


class _List:
    """The columns that a subquery lists.

    Args:
        names: Those that it gives its first columns from outside.

    Raises:
        _Stays: They are not plain to see.
    """

    def __init__(self, inner: Node, names: list[str], rows: _Rows) -> None:
        self._rows = rows
        self._shown: dict[str, tuple[str, Node]] = {}
        self._renamed = set[str]()
        self._copied = 0
        items = inner["select_list"]
        if len(names) > len(items):
            raise _Stays
        for place, item in enumerate(items):
            outside = _changed(
                item, lambda node: node | {"column_names": rows.outside(node["column_names"])[0]}
            )
            is_column = item["class"] == "COLUMN_REF"
            own = rows.outside(item["column_names"])[1] if is_column else None
            name = str(names[place] if place < len(names) else item["alias"] or own)
            if name.lower() in self._shown:
                raise _Stays
            self._shown[name.lower()] = name, outside | NOWHERE
            if rows.is_join or name != own:
                self._renamed.add(name.lower())

    def put_into(self, outer: Node) -> Node:
        """Return the parts of the SELECT around, with what the columns are in their place.

        Raises:
            _Stays: Some name in it may mean something else then.
        """
        aliases: dict[str, Node] = {
            str(item["alias"]).lower(): item for item in outer["select_list"] if item["alias"]
        }
        parts = {key: outer[key] for key in ("select_list", "where_clause", *_AFTER_GROUPING)}
        self._check(parts, aliases)
        found = {key: _changed(part, self._meant) for key, part in parts.items()}
        items = zip(parts["select_list"], found["select_list"], strict=True)
        found["select_list"] = [one for old, new in items for one in self._listed(old, new)]
        return found

    def _check(self, parts: Mapping[str, Any], aliases: Mapping[str, Node]) -> None:
        """Refuse names that mean no column of the list, where they might come to mean one of the table."""
        tops = {id(order["expression"]) for order in _orders(parts["modifiers"])}
        for key, part in parts.items():
            for node in walk_here(part):
                kind = node.get("class")
                if kind == "COLUMN_REF" and not (id(node) in tops and self._is(node, aliases)):
                    self._check_name(node, aliases, may_be_alias=key in _AFTER_GROUPING)
                elif kind in {"LAMBDA", "POSITIONAL_REFERENCE"}:
                    raise _Stays
                elif kind == "SUBQUERY":
                    self._check_within(node)
                elif kind == "STAR" and not any(node is item for item in parts["select_list"]):
                    raise _Stays

    def _is(self, node: Node, aliases: Mapping[str, Node]) -> bool:
        """Whether an expression of ORDER BY is an alias, which goes before any column."""
        names = node["column_names"]
        name = str(names[0]).lower()
        return len(names) == 1 and name in aliases and name not in self._renamed

    def _check_name(self, node: Node, aliases: Mapping[str, Node], *, may_be_alias: bool) -> None:
        names = [str(name).lower() for name in node["column_names"]]
        name = names[-1]
        if len(names) > 1 and names[:-1] != [self._rows.alias]:
            raise _Stays
        if name in self._shown:
            item = aliases.get(name)
            is_itself = item is None or (
                item["class"] == "COLUMN_REF" and str(item["column_names"][-1]).lower() == name
            )
            if may_be_alias and len(names) == 1 and name in self._renamed and not is_itself:
                raise _Stays
        elif len(names) > 1 or name not in aliases or self._rows.has(name):
            raise _Stays

    def _check_within(self, subquery: Node) -> None:
        """Refuse subqueries that may speak of the columns of this one."""
        if self._renamed:
            raise _Stays
        for node in walk(subquery):
            if node.get("class") == "COLUMN_REF":
                name = str(node["column_names"][-1]).lower()
                if name not in self._shown and self._rows.has(name):
                    raise _Stays

    def _meant(self, node: Node) -> Node:
        name = str(node["column_names"][-1]).lower()
        if name not in self._renamed:
            return node
        item = self._shown[name][1]
        self._copied += sum(1 for _ in walk(item))
        if self._copied > NODES_MAX:
            raise _Stays
        return copy.deepcopy(item) | {"alias": node["alias"]}

    def _listed(self, old: Node, new: Node) -> Iterator[Node]:
        """Yield what an item of the select list becomes, under the name that it had."""
        if old["class"] == "STAR":
            if any(old.get(part) for part in STAR_PARTS):
                raise _Stays
            if str(old["relation_name"]).lower() not in {"", self._rows.alias}:
                raise _Stays
            for name, item in self._shown.values():
                yield copy.deepcopy(item) | {"alias": name}
        elif new is old or old["alias"]:
            yield new
        elif old["class"] == "COLUMN_REF":
            yield new | {"alias": self._shown[str(old["column_names"][-1]).lower()][0]}
        else:
            raise _Stays  # its name is its text


def _orders(modifiers: list[Node]) -> Iterator[Node]:
    for one in modifiers:
        yield from one.get("orders") or ()


def _changed(part: Any, change: Callable[[Node], Node]) -> Any:
    """Return an expression with other nodes in the places of columns, outside of the subqueries in it.

    What does not change stays the same object.
    """
    if isinstance(part, list):
        items = [_changed(one, change) for one in part]
        return part if all(map(lambda a, b: a is b, items, part)) else items
    if not isinstance(part, dict) or part.get("class") == "SUBQUERY":
        return part
    if part.get("class") == "COLUMN_REF":
        return change(part)
    found = {key: _changed(one, change) for key, one in part.items()}
    return part if all(found[key] is one for key, one in part.items()) else found
