"""Statements whose answer over some rows and more is the sum of both answers: counts and sums, by groups or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.query.syntax import Node, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUMS = frozenset({"count", "count_star", "count_if", "countif", "sum"})
_OF_ONE_ROW = frozenset(
    (
        "coalesce", "date_part", "date_trunc", "day", "dayofweek", "floor", "hour", "lower", "ltrim", "minute", "month",
        "monthname", "quarter", "rtrim", "strftime", "substr", "substring", "time_bucket", "trim", "upper", "week",
        "year",
    )
)  # fmt: skip
"""Functions that groups are made by; others may be aggregates, and are not looked into."""
_ALLOWED = frozenset({"ORDER_MODIFIER"})
_EXPRESSIONS = frozenset({"CAST", "COLUMN_REF", "CONSTANT", "FUNCTION", "TYPE"})


def find_sums(statement: Node) -> Sequence[int] | None:
    """Return the places of the columns that are counts and sums, where all others are groups.

    Returns:
        None: The statement is of another kind.
    """
    node = statement["node"]
    if node["type"] != "SELECT_NODE" or node["from_table"]["type"] != "BASE_TABLE":
        return None
    if node["having"] or node["qualify"] or node["sample"] or node["cte_map"]["map"]:
        return None
    if len(node["group_sets"]) > 1 or any(one["type"] not in _ALLOWED for one in node["modifiers"]):
        return None
    if any(one.get("class") in {"SUBQUERY", "WINDOW", "STAR"} for one in walk(node)):
        return None
    sums = []
    for place, item in enumerate(node["select_list"]):
        if _is_sum(item):
            sums.append(place)
        elif not _is_group(item):
            return None
    return sums or None


def _is_sum(item: Node) -> bool:
    return (
        item.get("class") == "FUNCTION"
        and str(item["function_name"]).lower() in _SUMS
        and not item["distinct"]
    )


def _is_group(item: Node) -> bool:
    for node in walk(item):
        kind = node.get("class")
        if kind is not None and kind not in _EXPRESSIONS:
            return False
        if kind == "FUNCTION" and str(node["function_name"]).lower() not in _OF_ONE_ROW:
            return False
    return True
