"""One statement inside of another: trees with other nodes, tables and names in place of theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carnac.query.distributed.naming import NotOneRound
from carnac.query.syntax import Node, walk_here


def subqueries_of(node: Node) -> list[Node]:
    """Return the subqueries in the expressions of a SELECT."""
    parts = [part for key, part in node.items() if key not in {"from_table", "cte_map"}]
    return [one for one in walk_here(parts) if one.get("class") == "SUBQUERY"]


def joined_queries_of(source: Node) -> list[Node]:
    """Return the subqueries in a FROM clause, lists of values among them."""
    if source["type"] == "JOIN":
        return joined_queries_of(source["left"]) + joined_queries_of(source["right"])
    return [source] if source["type"] == "SUBQUERY" else []


def called(source: Node, table: str) -> Node:
    """Return a reference to a table in place of another one."""
    return source | {"table_name": table, "qualified_name": {"path": [table]}}


def name_columns(items: Sequence[Node], names: Sequence[str]) -> None:
    """Call columns that the broker makes of parts as the statement around them does.

    Raises:
        NotOneRound: One is called as parts are.
    """
    for item, name in zip(items, names, strict=True):
        if name.lower().startswith("p_"):
            raise NotOneRound(f"a subquery's column is called '{name}'")
        item["alias"] = name


def replaced(tree: Any, new: Mapping[int, Node]) -> Any:
    """Return a tree with other nodes in place of those of these ids."""
    if isinstance(tree, list):
        return [replaced(one, new) for one in tree]
    if not isinstance(tree, dict):
        return tree
    found = new.get(id(tree))
    return {key: replaced(value, new) for key, value in tree.items()} if found is None else found


def reading(tree: Any, view: str, own: str) -> Any:
    """Return a statement that reads a view by another name."""
    if isinstance(tree, list):
        return [reading(one, view, own) for one in tree]
    if not isinstance(tree, dict):
        return tree
    found = {key: reading(value, view, own) for key, value in tree.items()}
    if tree.get("table_name") == view:
        found |= {"table_name": own, "qualified_name": {"path": [own]}}
    return found
