"""Subqueries that give rows of one table, as tools wrap datasets and models: the table stands there itself.

    SELECT page, count(*) FROM (SELECT * FROM edits WHERE n > 1) AS virtual_table WHERE n < 9 GROUP BY page
    SELECT page, count(*) FROM edits AS virtual_table WHERE virtual_table.n > 1 AND n < 9 GROUP BY page

    SELECT s.p, count(*) FROM (SELECT lower(page) AS p, n FROM edits) AS s GROUP BY s.p
    SELECT lower(s.page) AS p, count(*) FROM edits AS s GROUP BY lower(s.page)

So servers answer such a statement each for itself, and what they have answered is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
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
    table = inner["from_table"]
    alias = str(wrap["alias"] or UNNAMED)
    here = _Here(str(table["alias"] or table["table_name"]).lower(), alias)
    found: Node = {}
    if not _is_all(inner):
        columns = columns_of(table)
        if columns is None:
            raise _Stays
        found = _List(inner, wrap["column_name_alias"], columns, here).put_into(outer)
    elif wrap["column_name_alias"]:
        raise _Stays
    condition = here.moved(inner["where_clause"])
    both = [one for one in (condition, found.get("where_clause", outer["where_clause"])) if one]
    return found | {"from_table": table | {"alias": alias}, "where_clause": conjunction(both)}


def _is_plain(query: Node) -> bool:
    """Whether a query gives some rows of one table, each as it is or with values computed from it alone."""
    if query["type"] != "SELECT_NODE" or query["from_table"]["type"] != "BASE_TABLE":
        return False
    if query["cte_map"]["map"] or any(query[part] for part in PLAIN_WITHOUT):
        return False
    table = query["from_table"]
    if table["column_name_alias"] or table["sample"] is not None or table["at_clause"] is not None:
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


class _Here:
    """Names in what comes out of a subquery.

    Args:
        old: What the subquery calls its table, in lower case.
        new: What the statement around calls it.
    """

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def moved(self, part: Any) -> Any:
        """Return a condition in which the columns of the table have its new name before their own, if they had one."""

        def renamed(node: Node) -> Node:
            names = node["column_names"]
            if str(names[0]).lower() == self.old and len(names) > 1:
                return node | {"column_names": [self.new, *names[1:]]}
            return node

        return _changed(part, renamed)

    def named(self, part: Any) -> Any:
        """Return an expression whose columns have the new name of the table before them, so that no alias is meant."""
        return _changed(
            part, lambda node: node | {"column_names": [self.new, node["column_names"][-1]]}
        )


class _List:
    """The columns that a subquery lists.

    Args:
        names: Those that it gives its first columns from outside.
        columns: Of its table.

    Raises:
        _Stays: They are not plain to see.
    """

    def __init__(self, inner: Node, names: list[str], columns: Columns, here: _Here) -> None:
        self._columns, self._alias = columns, here.new.lower()
        self._shown: dict[str, tuple[str, Node]] = {}
        items = inner["select_list"]
        if len(names) > len(items):
            raise _Stays
        for place, item in enumerate(items):
            for one in walk(item):
                if one.get("class") == "COLUMN_REF" and not self._is_of_table(one, here.old):
                    raise _Stays
            own = self._own_name(item)
            name = str(names[place] if place < len(names) else item["alias"] or own)
            if name.lower() in self._shown:
                raise _Stays
            self._shown[name.lower()] = name, here.named(item) | NOWHERE

    def _is_of_table(self, node: Node, table: str) -> bool:
        names = [str(name).lower() for name in node["column_names"]]
        return names[-1] in self._columns and (len(names) == 1 or names[:-1] == [table])

    def _own_name(self, item: Node) -> str | None:
        """Return the name of the column that an expression is; None: it is none."""
        if item["class"] != "COLUMN_REF":
            return None
        return self._columns[str(item["column_names"][-1]).lower()]

    def put_into(self, outer: Node) -> Node:
        """Return the parts of the SELECT around, with what the columns are in their place.

        Raises:
            _Stays: Some name in it may mean something else then.
        """
        self._renamed = {
            name for name, (given, item) in self._shown.items() if self._own_name(item) != given
        }
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
        if len(names) > 1 and names[:-1] != [self._alias]:
            raise _Stays
        if name in self._shown:
            item = aliases.get(name)
            is_itself = item is None or (
                item["class"] == "COLUMN_REF" and str(item["column_names"][-1]).lower() == name
            )
            if may_be_alias and len(names) == 1 and name in self._renamed and not is_itself:
                raise _Stays
        elif len(names) > 1 or name not in aliases or name in self._columns:
            raise _Stays

    def _check_within(self, subquery: Node) -> None:
        """Refuse subqueries that may speak of the columns of this one."""
        if self._renamed:
            raise _Stays
        for node in walk(subquery):
            if node.get("class") == "COLUMN_REF":
                name = str(node["column_names"][-1]).lower()
                if name in self._columns and name not in self._shown:
                    raise _Stays

    def _meant(self, node: Node) -> Node:
        name = str(node["column_names"][-1]).lower()
        if name not in self._renamed:
            return node
        return copy.deepcopy(self._shown[name][1]) | {"alias": node["alias"]}

    def _listed(self, old: Node, new: Node) -> Iterator[Node]:
        """Yield what an item of the select list becomes, under the name that it had."""
        if old["class"] == "STAR":
            if any(old.get(part) for part in STAR_PARTS):
                raise _Stays
            if str(old["relation_name"]).lower() not in {"", self._alias}:
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
