"""Rows that are ranked and of which the first are wanted: each server sends those that it ranks so itself.

    SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY page ORDER BY __time DESC) AS r FROM edits) WHERE r = 1
    each server:  SELECT … FROM edits QUALIFY row_number() OVER (PARTITION BY page ORDER BY __time DESC) <= 1

A row has no lower rank among fewer rows, so none that is wanted is missing. All rows that come before it are wanted as
well, or there are as many of them as are wanted, so the broker ranks no other row as high.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from carnac.query.distributed.aggregates import is_aggregate
from carnac.query.distributed.gathering import bare
from carnac.query.distributed.naming import key_of
from carnac.query.planning import Plan
from carnac.query.relations import Relation, Scope
from carnac.query.syntax import Node, constant, walk_here

_RANKS = frozenset({"row_number", "rank", "dense_rank"})
_UPPER = {
    "COMPARE_EQUAL": 0,
    "COMPARE_LESSTHAN": -1,
    "COMPARE_LESSTHANOREQUALTO": 0,
}
"""What to add to the number that a rank is compared with."""
_TURNED = {
    "COMPARE_EQUAL": "COMPARE_EQUAL",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
}
_OTHERWISE = ("group_expressions", "group_sets", "having", "sample")


def first_ranks(plan: Plan, relation: Relation) -> tuple[Node | None, Node] | None:
    """Return the WHERE and the QUALIFY of the rows of a datasource that matter; None: no ranks tell for certain.

    Args:
        relation: The one place where the datasource is read.
    """
    for select, scope in plan.selects:
        if select["from_table"] is relation.node and scope.relations == [relation]:
            break
    else:
        return None
    parts = list(walk_here(_shown(select)))
    windows = [one for one in parts if one.get("class") == "WINDOW"]
    is_grouped = select["aggregate_handling"] != "STANDARD_HANDLING" or any(
        map(is_aggregate, parts)
    )
    if not windows or is_grouped or any(select[part] for part in _OTHERWISE):
        return None
    window = windows[0]
    if len(set(map(_key, windows))) > 1 or not _is_rank(window):
        return None
    aliases = [one["alias"].lower() for one in select["select_list"] if one in windows]
    named = {alias for alias in aliases if _is_sure(alias, select, relation)}
    limits = list(_limits(plan, select, window, named))
    where = select["where_clause"]
    sent = None if where is None else bare(where, relation, scope)
    told = _bare(window, relation, scope)
    if told is None or not limits or (where is not None and sent is None):
        return None  # without all of WHERE, rows that do not matter would have ranks
    most = constant("INTEGER", str(min(limits)))
    return sent, {
        "class": "COMPARISON",
        "type": "COMPARE_LESSTHANOREQUALTO",
        "alias": "",
        "query_location": window["query_location"],
        "query_location_length": 0,
        "left": told,
        "right": most,
    }


def _shown(select: Node) -> list[object]:
    return [part for key, part in select.items() if key not in {"from_table", "cte_map"}]


def _is_rank(window: Node) -> bool:
    parts = ("arguments", "arg_orders", "filter_expr")
    return window["function_name"] in _RANKS and not any(window.get(part) for part in parts)


def _is_sure(alias: str, select: Node, relation: Relation) -> bool:
    """Whether a name means one item of a select list alone."""
    same = [one for one in select["select_list"] if str(one["alias"]).lower() == alias]
    return bool(alias) and len(same) == 1 and alias not in relation.names


def _limits(plan: Plan, select: Node, window: Node, named: set[str]) -> Iterator[int]:
    """Yield the ranks up to which rows are wanted."""
    for one in _conditions(select["qualify"]):
        yield from _limit(one, partial(_is_it, owner="", named=named, window=window))
    for outer, _ in plan.selects:
        source = outer["from_table"]
        if source.get("type") != "SUBQUERY" or source["subquery"]["node"] is not select:
            continue
        orders = {one["type"] for one in select["modifiers"]} <= {"ORDER_MODIFIER"}
        if orders and source["sample"] is None and not source["column_name_alias"]:
            alias = str(source["alias"]).lower()
            for one in _conditions(outer["where_clause"]):
                yield from _limit(one, partial(_is_it, owner=alias, named=named, window=None))


def _conditions(part: Node | None) -> list[Node]:
    """Return the conditions all of which must hold."""
    if part is None:
        return []
    if part["type"] == "CONJUNCTION_AND":
        return [one for child in part["children"] for one in _conditions(child)]
    return [part]


def _limit(condition: Node, is_rank: Callable[[Node], bool]) -> Iterator[int]:
    kind = condition["type"]
    if kind == "COMPARE_BETWEEN" and is_rank(condition["input"]):
        yield from _whole(condition["upper"])
    elif condition["class"] == "COMPARISON":
        left, right = condition["left"], condition["right"]
        if is_rank(right):
            left, right, kind = right, left, _TURNED.get(kind, "")
        if kind in _UPPER and is_rank(left):
            yield from (number + _UPPER[kind] for number in _whole(right))


def _whole(node: Node) -> Iterator[int]:
    if node["class"] == "CONSTANT" and node["literal"].get("kind") == "INTEGER":
        yield int(node["literal"]["text"])


def _is_it(node: Node, *, owner: str, named: set[str], window: Node | None) -> bool:
    """Whether an expression is the rank: by its name, or by itself."""
    if node["class"] == "COLUMN_REF":
        *owners, name = (str(one).lower() for one in node["column_names"])
        return name in named and owners in ([], [owner])
    return window is not None and _key(node) == _key(window)


def _key(node: Node) -> str:
    return key_of(node | {"alias": ""})


def _bare(window: Node, relation: Relation, scope: Scope) -> Node | None:
    """Return the window over columns by their names alone; None: it cannot be sent."""
    partitions = [bare(one, relation, scope) for one in window["partitions"]]
    orders = [bare(one["expression"], relation, scope) for one in window["orders"]]
    if None in partitions or None in orders:
        return None
    told = [
        one | {"expression": expression}
        for one, expression in zip(window["orders"], orders, strict=True)
    ]
    return window | {"alias": "", "partitions": partitions, "orders": told}
