"""Common tables that come to stand where they are named, as subqueries.

One that is named once and only gives rows of another table is a subquery, and so is any that servers may answer apart.
One that is named several times becomes one at each place below a LIMIT without an order.

DuckDB 2.0 computes such a table once, if it groups or is said to be MATERIALIZED, or reads Arrow; a join of it with
itself below such a LIMIT then waits for ever, from 122,880 rows of it on. As subqueries the same tables are read twice,
and the statement ends.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from carnac.query.functions import is_volatile
from carnac.query.rewriting.listing import PLAIN_WITHOUT
from carnac.query.syntax import Node, walk

NODES_MAX = 5_000
"""Nodes of all copies together, which is about a hundred of them: each table of a chain that reads the one before twice
doubles what there is.
"""


def inline_tables(statement: Node, *, apart: bool) -> None:
    """Replace, in place, references to common tables that are named once and give rows of something as they come.

    Args:
        apart: Whether each place may be answered apart. Then all that are named once, and rows of tables that are
            named several times, are replaced as well.
    """
    if not any((one.get("cte_map") or {}).get("map") for one in walk(statement["node"])):
        return
    tables = _common_tables(statement)
    _tell_apart(tables)
    left = NODES_MAX
    for table in tables:
        if table.entry is None or not table.places or not _may_stand(table.entry["value"]):
            continue
        value = table.entry["value"]
        body = value["query_node"]
        if len(table.places) == 1:
            if not apart and not _gives_rows(body):
                continue
        else:
            left -= len(table.places) * sum(1 for _ in walk(body))
            is_of_tables = _gives_rows(body) and body["from_table"]["type"] != "SUBQUERY"
            if not apart or not is_of_tables or left < 0:
                continue
        for place in table.places:
            _inline(place, value["aliases"], body)
        for node in walk(statement["node"]):
            if node.get("cte_map"):
                kept = [one for one in node["cte_map"]["map"] if one is not table.entry]
                node["cte_map"]["map"] = kept


def inline_repeated(statement: Node) -> None:
    """Replace, in place, references to common tables that stand more than once where some LIMIT has no order.

    Tables that recur, that depend on chance, or of which a LIMIT takes some rows stay as they are: two places would not
    show the same. Those whose copies would be too many are computed once.
    """
    if not any(_stops_early(one) for one in walk(statement["node"])):
        return
    tables = _common_tables(statement)
    _tell_apart(tables)
    left = NODES_MAX
    for table in tables:
        if len(table.places) < 2 or table.entry is None or not _may_repeat(table):
            continue
        body = table.entry["value"]["query_node"]
        copied = len(table.places) * sum(1 for _ in walk(body))
        if copied > left:
            table.entry["value"]["materialized"] = "CTE_MATERIALIZE_ALWAYS"
            continue
        left -= copied
        for place in table.places:
            _inline(place, table.entry["value"]["aliases"], body)


@dataclass(slots=True)
class _Table:
    """What a name means at some places.

    Attributes:
        entry: Definition of a common table; None: a table that the statement does not define.
    """

    name: str
    entry: Node | None = None
    places: list[Node] = field(default_factory=list)

    @property
    def recurs(self) -> bool:
        """Whether the table reads itself."""
        body = self.entry["value"]["query_node"] if self.entry is not None else {}
        return body.get("type") == "RECURSIVE_CTE_NODE"


@dataclass(frozen=True, slots=True)
class _Scope:
    """The first so many of the tables of one WITH, and what is known around it."""

    tables: dict[str, tuple[int, _Table]]
    known: int
    outer: _Scope | None = None

    def find(self, name: str) -> _Table | None:
        """Return the common table of a name."""
        scope: _Scope | None = self
        while scope is not None:
            place, table = scope.tables.get(name, (scope.known, None))
            if place < scope.known:
                return table
            scope = scope.outer
        return None


def _common_tables(statement: Node) -> list[_Table]:
    """Return the tables that are referred to by plain names; a common table comes after those that it may read.

    A table is known to those behind it in its WITH, and to the query that the WITH is of, with all that is in it.
    """
    done: list[_Table] = []
    others: dict[str, _Table] = {}
    todo: list[tuple[Any, _Scope]] = [(statement["node"], _Scope({}, 0))]
    while todo:
        one, scope = todo.pop()
        if isinstance(one, _Table):
            done.append(one)
        elif isinstance(one, list):
            todo += [(part, scope) for part in one]
        elif isinstance(one, dict):
            if _is_plain(one):
                name = str(one["table_name"]).lower()
                meant = scope.find(name) or others.setdefault(name, _Table(name))
                meant.places.append(one)
            entries = (one.get("cte_map") or {}).get("map") or ()
            tables = [_Table(str(entry["key"]).lower(), entry) for entry in entries]
            known = {table.name: (place, table) for place, table in enumerate(tables)}
            inner = _Scope(known, len(tables), scope) if tables else scope
            todo += [(part, inner) for key, part in one.items() if key != "cte_map"]
            for place, table in reversed(list(enumerate(tables))):
                body = entries[place]["value"]
                todo += [(table, scope), (body, _Scope(known, place + table.recurs, scope))]
    return done + list(others.values())


def _tell_apart(tables: Sequence[_Table]) -> None:
    """Give common tables of one name names of their own: the query of one may come to stand where another is meant."""
    meanings = Counter(table.name for table in tables)
    for number, table in enumerate(tables):
        if table.entry is None or meanings[table.name] == 1:
            continue
        name = f"__carnac_{number}_{table.name}"
        table.entry["key"] = name
        if table.recurs:
            table.entry["value"]["query_node"]["cte_name"] = name
        for place in table.places:
            place["alias"] = place["alias"] or place["table_name"]
            place["table_name"] = name
            place["qualified_name"] = {"path": [name]}


def _stops_early(node: Node) -> bool:
    modifiers = node.get("modifiers")
    if not isinstance(modifiers, list):
        return False
    kinds = {one["type"] for one in modifiers}
    return "LIMIT_MODIFIER" in kinds and "ORDER_MODIFIER" not in kinds


def _is_plain(node: Node) -> bool:
    return (
        node.get("type") == "BASE_TABLE"
        and not node.get("schema_name")
        and not node.get("catalog_name")
    )


def _may_repeat(table: _Table) -> bool:
    body = table.entry["value"]["query_node"] if table.entry is not None else {}
    return body["type"] in {"SELECT_NODE", "SET_OPERATION_NODE"} and not any(
        is_volatile(one) or one.get("type") == "LIMIT_MODIFIER" for one in walk(body)
    )


def _may_stand(common: Node) -> bool:
    """Whether a common table may stand where it is named."""
    body = common["query_node"]
    return (
        common["materialized"] == "CTE_MATERIALIZE_DEFAULT"
        and body["type"] in {"SELECT_NODE", "SET_OPERATION_NODE"}
        and not any(is_volatile(one) for one in walk(body))
    )


def _gives_rows(body: Node) -> bool:
    """Whether a query gives rows of one table, or of a join or a subquery, as they come."""
    return (
        body["type"] == "SELECT_NODE"
        and body["from_table"]["type"] in {"BASE_TABLE", "JOIN", "SUBQUERY"}
        and not any(body[part] for part in PLAIN_WITHOUT)
    )


def _inline(place: Node, aliases: Any, body: Node) -> None:
    """Let a reference be the table's own query."""
    named = list(place["column_name_alias"])
    new = {
        "type": "SUBQUERY",
        "alias": place["alias"] or place["table_name"],
        "sample": place["sample"],
        "query_location": place["query_location"],
        "query_location_length": place["query_location_length"],
        "subquery": {"node": copy.deepcopy(body), "named_param_map": []},
        "column_name_alias": named + list(aliases)[len(named) :],
    }
    place.clear()
    place.update(new)
