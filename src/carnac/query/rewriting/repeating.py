"""Common tables that stand in a statement several times, below a LIMIT without an order: each place computes its own.

DuckDB 2.0 computes such a table once, if it groups or is said to be MATERIALIZED, or reads Arrow; a join of it with
itself below such a LIMIT then waits for ever, from 122,880 rows of it on. As subqueries the same tables are read twice,
and the statement ends.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from carnac.query.functions import is_volatile
from carnac.query.syntax import Node, walk


def inline_repeated(statement: Node) -> None:
    """Replace, in place, references to common tables that stand more than once where some LIMIT has no order.

    Tables that recur, that depend on chance, or of which a LIMIT takes some rows stay as they are: two places would not
    show the same.
    """
    nodes = list(walk(statement["node"]))
    if not any(_stops_early(one) for one in nodes):
        return
    entries = [entry for one in nodes for entry in (one.get("cte_map") or {}).get("map", ())]
    defined = Counter(str(entry["key"]).lower() for entry in entries)
    for entry in entries:
        name, body = str(entry["key"]).lower(), entry["value"]["query_node"]
        places = [one for one in walk(statement["node"]) if _refers(one, name)]
        if len(places) > 1 and defined[name] == 1 and _may_repeat(entry["value"], name):
            for place in places:
                _inline(place, entry["value"]["aliases"], body)


def _stops_early(node: Node) -> bool:
    modifiers = node.get("modifiers")
    if not isinstance(modifiers, list):
        return False
    kinds = {one["type"] for one in modifiers}
    return "LIMIT_MODIFIER" in kinds and "ORDER_MODIFIER" not in kinds


def _refers(node: Node, name: str) -> bool:
    is_plain = not node.get("schema_name") and not node.get("catalog_name")
    return node.get("type") == "BASE_TABLE" and is_plain and str(node["table_name"]).lower() == name


def _may_repeat(table: Node, name: str) -> bool:
    body = table["query_node"]
    return body["type"] in {"SELECT_NODE", "SET_OPERATION_NODE"} and not any(
        is_volatile(one) or _refers(one, name) or one.get("type") == "LIMIT_MODIFIER"
        for one in walk(body)
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
