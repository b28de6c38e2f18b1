"""What a subquery gives that lists columns of tables, and what its columns are where it stood."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    walk,
    walk_here,
)

PLAIN_WITHOUT = ("group_expressions", "group_sets", "having", "qualify", "sample", "modifiers")
"""Parts that a SELECT has not which gives each row of its table that meets a condition."""
_MANY = AGGREGATES | SKETCH_FUNCTIONS | TABLE_FUNCTIONS | {"regexp_split_to_table"}
"""Functions whose value is not one of one row."""
NODES_MAX = 5_000
"""Nodes that come into the places of names at a subquery: each of a chain that names a column twice doubles it."""
_AFTER_GROUPING = ("group_expressions", "having", "qualify", "modifiers")
"""Parts of a SELECT in which an alias may go before a column."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a statement's names and expressions are.

    Attributes:
        columns_of: Returns the columns of the datasource that a BASE_TABLE node means; None: it means none.
        text_of: Returns the text of an expression, which names its column if it has no name.
    """

    columns_of: Callable[[Node], Columns | None]
    text_of: Callable[[Node], str]


class Stays(Exception):
    """The subquery stays: without it the statement might mean something else."""


def is_plain(query: Node) -> bool:
    """Whether a query gives some rows of tables, each as it is or with values computed from it alone."""
    if query["type"] != "SELECT_NODE" or query["cte_map"]["map"]:
        return False
    if any(query[part] for part in PLAIN_WITHOUT):
        return False
    condition = query["where_clause"] or {}
    if any(one.get("class") in OF_THEIR_OWN for one in walk(condition)):
        return False
    return is_all(query) or all(map(_is_of_row, query["select_list"]))


def is_all(query: Node) -> bool:
    """Whether a SELECT gives all columns as they are."""
    items = query["select_list"]
    return len(items) == 1 and _is_star(items[0]) and not items[0]["relation_name"]


def _is_star(item: Node) -> bool:
    return item["class"] == "STAR" and not any(item.get(part) for part in STAR_PARTS)


def _is_of_row(item: Node) -> bool:
    """Whether an expression has a name, and a value that depends on its row, and on nothing else."""
    parts = list(walk(item))
    return _is_star(item) or (
        bool(item["alias"] or item["class"] == "COLUMN_REF")
        and any(one.get("class") == "COLUMN_REF" for one in parts)
        and not any(map(is_volatile, parts))
        and all(
            one["class"] in ROW_EXPRESSIONS | {"COLUMN_REF"} for one in parts if one.get("class")
        )
        and not any(str(one.get("function_name")).lower() in _MANY for one in parts)
    )


class Rows:
    """The tables that a subquery reads, and what they are called where it was.

    Args:
        source: Its FROM: a table, or a join of tables, which keep their own names.
        alias: What the statement around calls the subquery.

    Raises:
        Stays: It reads something else.
    """

    def __init__(self, source: Node, alias: str, context: Context) -> None:
        leaves = list(_leaves(source))
        self.is_join = source["type"] == "JOIN"
        self.alias = alias.lower()
        self.text_of = context.text_of
        self.shown = source if self.is_join else source | {"alias": alias}
        self._names = {_name_of(one): _name_of(one) if self.is_join else alias for one in leaves}
        self._columns = {_name_of(one): context.columns_of(one) for one in leaves}
        if len(self._names) < len(leaves):
            raise Stays
        joins = list(joins_of(source))
        self._merged = Counter(str(name).lower() for one in joins for name in one["using_columns"])
        self._keeps_left = all(one["join_type"] in {"INNER", "LEFT"} for one in joins)

    def has(self, column: str) -> bool:
        """Whether a column may be one of the tables."""
        return any(known is None or column in known for known in self._columns.values())

    def outside(self, names: Sequence[str]) -> tuple[list[str], str]:
        """Return how a column of the subquery's tables is named in the place of the subquery, and its own name.

        Raises:
            Stays: That is not certain.
        """
        *owner, column = (str(name).lower() for name in names)
        found = [
            table
            for table, known in self._columns.items()
            if known is not None and column in known and owner in ([], [table])
        ]
        if None in self._columns.values() or not found:
            raise Stays
        merged = 0 if owner else self._merged[column]
        if len(found) != 1 + merged or (merged and not self._keeps_left):
            raise Stays
        own = (self._columns[found[0]] or {})[column]
        return [self._names[found[0]], str(names[-1])], own

    def put(self, column: Node) -> Node:
        """Return a column of the subquery's tables as it is named in the place of the subquery.

        Raises:
            Stays: It may be another one.
        """
        return column | {"column_names": self.outside(column["column_names"])[0]}

    def listed(self, item: Node) -> list[Node]:
        """Return the columns that `*` or `table.*` gives; any other item of a select list as it is.

        Raises:
            Stays: They are not certain.
        """
        if item["class"] != "STAR":
            return [item]
        asked = str(item["relation_name"]).lower()
        if not self._keeps_left or None in self._columns.values():
            raise Stays
        seen: dict[tuple[str, str], Node] = {}
        for table, known in self._columns.items():
            for column, own in (known or {}).items() if asked in {"", table} else ():
                owner = "" if column in self._merged else table
                seen.setdefault((owner, column), _column(table, own))
        return list(seen.values())

    def moved(self, condition: Any) -> Any:
        """Return a condition in which tables have the names that they have outside."""

        def renamed(node: Node) -> Node:
            first, *rest = node["column_names"]
            new = self._names.get(str(first).lower()) if rest else None
            return node if new is None else node | {"column_names": [new, *rest]}

        return condition if self.is_join else changed(condition, renamed)


def _column(table: str, name: str) -> Node:
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", **NOWHERE, "column_names": [table, name]}


def _leaves(source: Node) -> Iterator[Node]:
    """Yield the tables of a FROM clause.

    Raises:
        Stays: There is something else in it.
    """
    if source["sample"] is not None:
        raise Stays
    if source["type"] == "BASE_TABLE":
        if source["column_name_alias"] or source["at_clause"] is not None:
            raise Stays
        yield source
        return
    if source["type"] != "JOIN" or source["ref_type"] == "NATURAL":
        raise Stays
    if any(one.get("class") in OF_THEIR_OWN for one in walk(source["condition"])):
        raise Stays
    yield from _leaves(source["left"])
    yield from _leaves(source["right"])


def _name_of(table: Node) -> str:
    return str(table["alias"] or table["table_name"]).lower()


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside a subquery in a join.

    Attributes:
        name: What it is called, in lower case.
        columns: Its columns; None: they are not known.
        is_closed: Whether it speaks of nothing outside of it.
    """

    table: Node
    name: str
    columns: frozenset[str] | None
    is_closed: bool


class Listed:
    """The columns that a subquery lists.

    Args:
        names: Those that it gives its first columns from outside.
        others: What stands beside it in a join.

    Attributes:
        shown: Their names and expressions, by the lower-case form of the names.

    Raises:
        Stays: They are not plain to see.
    """

    def __init__(
        self, inner: Node, names: list[str], rows: Rows, others: Sequence[Beside] = ()
    ) -> None:
        self._rows = rows
        self._others = {one.name: one for one in others}
        self.shown: dict[str, tuple[str, Node]] = {}
        self._renamed = set[str]()
        self._copied = 0
        items = [one for item in inner["select_list"] for one in rows.listed(item)]
        if len(names) > len(items):
            raise Stays
        for place, item in enumerate(items):
            outside = changed(item, rows.put)
            is_column = item["class"] == "COLUMN_REF"
            own = rows.outside(item["column_names"])[1] if is_column else None
            name = str(names[place] if place < len(names) else item["alias"] or own)
            if name.lower() in self.shown:
                raise Stays
            self.shown[name.lower()] = name, outside | NOWHERE
            if rows.is_join or name != own:
                self._renamed.add(name.lower())

    def put_into(self, outer: Node) -> Node:
        """Return the parts of the SELECT around, with what the columns are in their place.

        Raises:
            Stays: Some name in it may mean something else then.
        """
        aliases: dict[str, Node] = {
            str(item["alias"]).lower(): item for item in outer["select_list"] if item["alias"]
        }
        parts = {key: outer[key] for key in ("select_list", "where_clause", *_AFTER_GROUPING)}
        joins = [one for one in joins_of(outer["from_table"]) if one["condition"]]
        conditions = [one["condition"] for one in joins]
        self._check(parts | {"conditions": conditions}, aliases)
        self._check_beside(outer["from_table"])
        found = {key: changed(part, self._meant) for key, part in parts.items()}
        joined = changed(conditions, self._meant)
        items = zip(parts["select_list"], found["select_list"], strict=True)
        found["select_list"] = [one for old, new in items for one in self._listed(old, new)]
        for join, condition in zip(joins, joined, strict=True):
            join["condition"] = condition
        return found

    def _check_beside(self, source: Node) -> None:
        """Refuse tables in a join that may speak of this one's columns, and columns that it merges with others."""
        for other in self._others.values():
            if not other.is_closed:
                self._check_within(other.table)
        for join in joins_of(source):
            for name in map(str.lower, join["using_columns"]):
                if name in self._renamed or (name not in self.shown and self._rows.has(name)):
                    raise Stays

    def _check(self, parts: Mapping[str, Any], aliases: Mapping[str, Node]) -> None:
        """Refuse names that mean no column of the list, where they might come to mean one of the table."""
        tops = {id(order["expression"]) for order in _orders(parts["modifiers"])}
        for key, part in parts.items():
            for node in walk_here(part):
                kind = node.get("class")
                if kind == "COLUMN_REF" and not (id(node) in tops and self._is(node, aliases)):
                    self._check_name(node, aliases, may_be_alias=key in _AFTER_GROUPING)
                elif kind in {"LAMBDA", "POSITIONAL_REFERENCE"}:
                    raise Stays
                elif kind == "SUBQUERY":
                    self._check_within(node)
                elif kind == "STAR" and not self._is_listed(node, parts["select_list"]):
                    raise Stays

    def _is_listed(self, star: Node, items: Sequence[Node]) -> bool:
        """Whether all columns, of this subquery alone or of others alone, are an item of the select list."""
        is_item = any(star is item for item in items)
        return is_item and (bool(star["relation_name"]) or not self._others)

    def _is(self, node: Node, aliases: Mapping[str, Node]) -> bool:
        """Whether an expression of ORDER BY is an alias, which goes before any column."""
        names = node["column_names"]
        name = str(names[0]).lower()
        return len(names) == 1 and name in aliases and name not in self._renamed

    def _check_name(self, node: Node, aliases: Mapping[str, Node], *, may_be_alias: bool) -> None:
        names = [str(name).lower() for name in node["column_names"]]
        name = names[-1]
        if len(names) > 1 and names[:-1] != [self._rows.alias]:
            is_other = len(names) == 2 and names[0] in self._others
            if not is_other or names[0] in self.shown or self._rows.has(names[0]):
                raise Stays
            return
        if len(names) == 1 and self._others:
            if name == self._rows.alias or name in self._others:
                raise Stays
            if name not in self.shown:
                if self._rows.has(name):
                    raise Stays
                return
            if name in self._renamed and any(
                one.columns is None or name in one.columns for one in self._others.values()
            ):
                raise Stays
        if name in self.shown:
            item = aliases.get(name)
            is_itself = item is None or (
                item["class"] == "COLUMN_REF" and str(item["column_names"][-1]).lower() == name
            )
            if may_be_alias and len(names) == 1 and name in self._renamed and not is_itself:
                raise Stays
        elif len(names) > 1 or name not in aliases or self._rows.has(name):
            raise Stays

    def _check_within(self, subquery: Node) -> None:
        """Refuse subqueries that may speak of the columns of this one."""
        if self._renamed:
            raise Stays
        for node in walk(subquery):
            if node.get("class") == "COLUMN_REF":
                name = str(node["column_names"][-1]).lower()
                if name == self._rows.alias or (name not in self.shown and self._rows.has(name)):
                    raise Stays

    def _meant(self, node: Node) -> Node:
        *owner, name = (str(name).lower() for name in node["column_names"])
        if name not in self._renamed or owner not in ([], [self._rows.alias]):
            return node
        item = self.shown[name][1]
        self._copied += sum(1 for _ in walk(item))
        if self._copied > NODES_MAX:
            raise Stays
        return copy.deepcopy(item) | {"alias": node["alias"]}

    def _listed(self, old: Node, new: Node) -> Iterator[Node]:
        """Yield what an item of the select list becomes, under the name that it had."""
        if old["class"] == "STAR":
            if any(old.get(part) for part in STAR_PARTS):
                raise Stays
            owner = str(old["relation_name"]).lower()
            if owner in self._others:
                yield new
                return
            if owner not in {"", self._rows.alias}:
                raise Stays
            for name, item in self.shown.values():
                yield copy.deepcopy(item) | {"alias": name}
        elif new is old or old["alias"]:
            yield new
        elif old["class"] == "COLUMN_REF":
            yield new | {"alias": self.shown[str(old["column_names"][-1]).lower()][0]}
        else:
            yield new | {"alias": self._rows.text_of(old)}


def joins_of(source: Node) -> Iterator[Node]:
    """Yield the joins of a FROM clause."""
    if source["type"] == "JOIN":
        yield source
        yield from joins_of(source["left"])
        yield from joins_of(source["right"])


def _orders(modifiers: list[Node]) -> Iterator[Node]:
    for one in modifiers:
        yield from one.get("orders") or ()


def changed(part: Any, change: Callable[[Node], Node]) -> Any:
    """Return an expression with other nodes in the places of columns, outside of the subqueries in it.

    What does not change stays the same object.
    """
    if isinstance(part, list):
        items = [changed(one, change) for one in part]
        return part if all(map(lambda a, b: a is b, items, part)) else items
    if not isinstance(part, dict) or part.get("class") == "SUBQUERY":
        return part
    if part.get("class") == "COLUMN_REF":
        return change(part)
    found = {key: changed(one, change) for key, one in part.items()}
    return part if all(found[key] is one for key, one in part.items()) else found
