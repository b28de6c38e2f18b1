"""The hours of rows in hot segments: a statement that counts hours or days of `__time` takes them as they are kept.

To compute the number of an hour from a time, by a division, takes DuckDB as long as all else that an hourly series
costs. So hot segments have it as a column of their own, which compresses to little, and a statement that computes it
in the form that `rewriting.bucketing` gives is printed anew with that column. For rows of files the scan computes it.

A statement stays as it is where that column could be seen, by `*` or by the table's name as a value, or where `__time`
could be something else.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from carnac.core.segments.segment import TIME_COLUMN
from carnac.ports.memo import Memo
from carnac.query.functions import AGGREGATES
from carnac.query.rewriting.bucketing import HOUR_US, operation, origin_us_of
from carnac.query.scans import HOUR_COLUMN, with_views
from carnac.query.syntax import (
    NOWHERE,
    Node,
    arguments,
    call,
    cast,
    conjunction,
    constant,
    parse,
    unparse,
    walk,
)

if TYPE_CHECKING:
    import duckdb

_OTHER = frozenset({"STAR", "LAMBDA", "LAMBDA_REF", "SUBQUERY", "POSITIONAL_REFERENCE", "WINDOW"})
"""Classes of expressions of which statements that take hours have none."""
_COUNTS = frozenset({"count", "count_star"})
_PAIRED = _COUNTS | {"avg", "max", "min", "sum"}
"""Aggregates whose states take many rows at once."""
_PLACES = re.compile(r'"query_location(_length)?": \d+')
_KNOWN: Memo[str, tuple[str | None]] = Memo(
    values_max=2_000, weight_max=4 << 20, weigh=lambda sql, _: 2 * len(sql)
)


def with_scans(
    cursor: duckdb.DuckDBPyConnection, sql: str, selects: Mapping[str, Callable[[bool], str]]
) -> str:
    """Return a printed statement in which the views of its scans stand; if there is one, with hours that it computes.

    Args:
        selects: By the name of the view, gives the SELECT of its rows: with their hours, or not.
    """
    hourly = None
    if len(selects) == 1:
        hourly = _KNOWN.get(sql, lambda: (_by_hours(cursor, sql),))[0]
    views = {view: select(hourly is not None) for view, select in selects.items()}
    return with_views(hourly or sql, views)


def _by_hours(cursor: duckdb.DuckDBPyConnection, sql: str) -> str | None:
    """Return a printed statement with hours in place of times; None: it computes none, or they could be seen."""
    if "epoch_us" not in sql:
        return None
    prefix, statement = parse(cursor, sql)
    node = statement["node"]
    if node["type"] != "SELECT_NODE" or node["from_table"]["type"] != "BASE_TABLE":
        return None
    if node["cte_map"]["map"] or len(node["group_sets"]) > 1:
        return None
    if node["aggregate_handling"] != "STANDARD_HANDLING":  # GROUP BY ALL: by columns, in the end
        return None
    named = {str(one.get("alias", "")).lower() for one in node["select_list"]}
    table = node["from_table"]
    shown = {str(table["alias"] or table["table_name"]).lower()}
    if TIME_COLUMN in named or any(_is_other(one, shown) for one in walk(node)):
        return None
    found = {id(one): (one, hours) for one in walk(node) if (hours := _hours(one)) is not None}
    groups = [_meant(one, node["select_list"]) for one in node["group_expressions"]]
    of_groups = [one for group in groups for one in walk(group)]
    if sum(map(_is_time, of_groups)) > sum(id(one) in found for one in of_groups):
        return None  # other values of a group's time are no function of its hour
    first = next((hours for _, hours in found.values()), None)
    is_grouped = any(id(one) in found for one in of_groups)
    if is_grouped and any(hours != first for _, hours in found.values()):
        return None  # a day beside groups by the time's hours is refused, and would not be
    _take_hours(node, groups, found)
    if is_grouped and len(groups) == 1:
        _pair_aggregate(node)
    return prefix + unparse(cursor, statement) if found else None


def _take_hours(
    select: Node, groups: Sequence[Node], found: Mapping[int, tuple[Node, Node]]
) -> None:
    """Replace the nodes that compute hours by the column of hours, in place.

    Rows are grouped by the bare column, so that the select list casts each group and not each row.

    Args:
        groups: Expressions that GROUP BY means.
        found: The nodes that compute hours, and those that give them, by the former nodes' ids.
    """
    for place, group in enumerate(groups):
        _, hours = found.get(id(group), (None, {}))
        is_named = select["group_expressions"][place]["class"] == "COLUMN_REF"  # maybe a column's
        if hours.get("class") == "CAST" and not is_named:
            select["group_expressions"][place] = copy.deepcopy(hours["child"])
    for one, hours in found.values():
        kept = {key: one[key] for key in NOWHERE}
        one.clear()
        one.update(hours | kept)


def _pair_aggregate(select: Node) -> None:
    """Add a second aggregate to groups of hours that have one, in a condition that each group meets.

    Rows of an hour follow one another. DuckDB 2.0 adds such rows to the states of two aggregates at once, and to that
    of one row by row, which takes two to three times as long.
    """
    functions = [one for one in walk(select) if one.get("class") == "FUNCTION"]
    aggregates = [one for one in functions if one["function_name"].lower() in AGGREGATES]
    names = {str(one["function_name"]).lower() for one in aggregates}
    is_one = len({_text_of(one) for one in aggregates}) == 1
    if (
        not is_one
        or not names <= _PAIRED
        or any(one["filter"] or one["distinct"] for one in aggregates)
    ):
        return
    another = call("count_star", [])
    if names <= _COUNTS:
        another = call("sum", [constant("INTEGER", "1")])
    sides = {"left": another, "right": constant("INTEGER", "0")}
    condition = {"class": "COMPARISON", "type": "COMPARE_GREATERTHAN", **NOWHERE, **sides}
    having = [select["having"]] if select["having"] is not None else []
    select["having"] = conjunction([*having, condition])


def _text_of(function: Node) -> str:
    """Return the same text for the same function, wherever it stands."""
    return _PLACES.sub("", json.dumps(function | {"alias": ""})).lower()


def _meant(group: Node, items: Sequence[Node]) -> Node:
    """Return what is selected where a group is called by its place or its name, else the group."""
    place = _number(group)
    if place is not None:
        return items[place - 1] if 0 < place <= len(items) else group
    if group["class"] != "COLUMN_REF" or len(group["column_names"]) > 1:
        return group
    name = str(group["column_names"][0]).lower()
    return next((one for one in items if str(one["alias"]).lower() == name), group)


def _is_time(node: Node) -> bool:
    return (
        node.get("class") == "COLUMN_REF" and str(node["column_names"][-1]).lower() == TIME_COLUMN
    )


def _is_other(node: Node, tables: set[str]) -> bool:
    if node.get("class") == "COLUMN_REF":
        return len(node["column_names"]) == 1 and str(node["column_names"][0]).lower() in tables
    return node.get("class") in _OTHER


def _hours(node: Node) -> Node | None:
    """Return the number of a bucket of whole hours, computed from the hour; None: the node is none."""
    divided = _operands(node, "//")
    shifted = _operands(divided[0], "+") if divided else None
    if divided is None or shifted is None:
        return None
    micros, width_us, shift_us = shifted[0], _number(divided[1]), _number(shifted[1])
    if str(micros.get("function_name", "")).lower() != "epoch_us" or not width_us:
        return None
    [time] = arguments(micros)
    hours, rest_us = divmod(width_us, HOUR_US)
    if rest_us or not _is_time(time) or shift_us != -origin_us_of(width_us):
        return None
    *table, _ = time["column_names"]
    number = cast(time | NOWHERE | {"column_names": [*table, HOUR_COLUMN]}, "BIGINT")
    earlier = (origin_us_of(HOUR_US) - origin_us_of(width_us)) // HOUR_US
    if earlier:
        number = operation("+", number, earlier)
    return number if hours == 1 else operation("//", number, hours)


def _operands(node: Node, sign: str) -> list[Node] | None:
    if node.get("class") != "FUNCTION" or node["function_name"] != sign:
        return None
    operands = arguments(node)
    return operands if len(operands) == 2 else None


def _number(node: Node) -> int | None:
    literal = node.get("literal") or {}
    return int(literal["text"]) if literal.get("kind") == "INTEGER" else None
