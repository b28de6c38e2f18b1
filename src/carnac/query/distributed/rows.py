"""Rows in one round: each server gives its rows, or the first of them; the broker puts them in order.

SELECT a FROM t ORDER BY b LIMIT 5 OFFSET 2
each server:  SELECT a, b FROM t ORDER BY b LIMIT 7
the broker:   SELECT p_0 FROM parts ORDER BY p_1 LIMIT 5 OFFSET 2
"""

from __future__ import annotations

import copy

from carnac.query.distributed.groups import is_ordinal, part
from carnac.query.distributed.naming import NotOneRound
from carnac.query.distributed.sorting import Select
from carnac.query.syntax import Node, base_table, constant, select_of, walk

_STAR_OPTIONS = (
    "expr",
    "exclude_list",
    "qualified_exclude_list",
    "relation_name",
    "rename_list",
    "replace_list",
)


def split_rows(select: Select, view: str, width: int) -> tuple[Node, Node]:
    """Return the statements for servers and for the broker.

    Args:
        view: Name of the servers' rows at the broker.
        width: How many columns the statement gives.

    Raises:
        NotOneRound: Servers cannot answer it alone.
    """
    node, modifiers = select.node, select.modifiers
    is_distinct = "DISTINCT_MODIFIER" in modifiers
    order = modifiers.get("ORDER_MODIFIER")
    rows_max = select.rows_max
    leaf = copy.deepcopy(node)
    extra: list[Node] = []
    orders = [] if order is None else _orders(order, select, width, extra)
    if is_distinct and extra:
        raise NotOneRound("it orders distinct rows by what it does not select")
    leaf["select_list"] += extra
    leaf["modifiers"] = []
    if is_distinct:
        leaf["modifiers"].append(modifiers["DISTINCT_MODIFIER"])
    if rows_max is not None:
        leaf["modifiers"] += [order] if order is not None else []
        limit = constant("INTEGER", str(rows_max))
        leaf["modifiers"].append(
            modifiers["LIMIT_MODIFIER"] | {"limit": limit, "offset": None},
        )
    final = select_of([part(place) for place in range(width)])
    final["node"] |= {
        "from_table": base_table(view, ""),
        "modifiers": [
            one | {"orders": orders} if one["type"] == "ORDER_MODIFIER" else one
            for one in node["modifiers"]
        ],
    }
    return select_of([]) | {"node": leaf}, final


def _orders(order: Node, select: Select, width: int, extra: list[Node]) -> list[Node]:
    """Return the broker's order; expressions that are not in the select list are added to `extra`."""
    node = select.node
    has_star = any(one.get("class") == "STAR" for one in walk(node["select_list"]))
    items = [] if has_star else select.names.selected()
    found = []
    for one in order["orders"]:
        expression = one["expression"]
        if expression["class"] == "STAR":
            if len(order["orders"]) > 1 or any(expression.get(key) for key in _STAR_OPTIONS):
                raise NotOneRound("it orders by what * stands for")
            return [one | {"expression": part(place)} for place in range(width)]
        if is_ordinal(expression):
            place = int(expression["literal"]["text"]) - 1
        elif has_star:
            place = width + len(extra)
            extra.append(_without_alias(expression, select))
        else:
            known = select.place_of(expression, items)
            place = width + len(extra) if known is None else known
            if known is None:
                extra.append(select.names.told_or_ambiguous(expression))
        found.append(one | {"expression": part(place)})
    return found


def _without_alias(expression: Node, select: Select) -> Node:
    """Return an expression of ORDER BY beside a `*`, where aliases cannot be told by their places."""
    if expression["class"] == "COLUMN_REF" and len(expression["column_names"]) == 1:
        places = select.names.aliased(str(expression["column_names"][0]))
        if places:
            if len(places) > 1:
                raise NotOneRound("it orders by an alias of several columns")
            item = select.node["select_list"][places[0]]
            return select.names.told(item, aliases=places[0])
    return select.names.told_or_ambiguous(expression)
