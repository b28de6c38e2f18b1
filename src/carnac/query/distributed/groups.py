"""Aggregates in one round: each server groups its rows, the broker groups the groups.

    SELECT carrier, avg(delay) FROM flights WHERE … GROUP BY carrier HAVING count(*) > 9 ORDER BY 2
    each server:  SELECT carrier, sum(delay), count(delay), count(*) FROM flights WHERE … GROUP BY 1
    the broker:   SELECT p_0, sum(p_1) / sum(p_2) FROM parts GROUP BY p_0 HAVING sum(p_3) > 9 ORDER BY 2

HAVING, windows, ORDER BY, LIMIT and grouping sets are the broker's, because a group is whole only there. Servers group
by a value as well whose distinct ones are wanted, and the broker finds them among the groups:

    SELECT carrier, count(DISTINCT tail), count(*) FROM flights GROUP BY carrier
    each server:  SELECT carrier, tail, count(*) FROM flights GROUP BY 1, 2
    the broker:   SELECT p_0, count(DISTINCT p_1), sum(p_2) FROM parts GROUP BY p_0
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from carnac.query.distributed.aggregates import is_aggregate
from carnac.query.distributed.naming import NotOneRound, column, key_of
from carnac.query.distributed.partials import (
    find_distinct_value,
    is_of_distinct,
    is_sketch,
    merged_aggregate,
    merged_sketch,
    with_arguments,
)
from carnac.query.distributed.sorting import Select
from carnac.query.syntax import Node, base_table, constant, select_of, walk


def part(place: int) -> Node:
    """Return a reference to a column of what servers answered."""
    return column(f"p_{place}")


def is_ordinal(node: Node) -> bool:
    """Whether an expression of GROUP BY or ORDER BY is a place in the select list."""
    return bool(node["type"] == "VALUE_CONSTANT" and node["literal"].get("kind") == "INTEGER")


@dataclass(slots=True)
class _Parts:
    """The select list of the statement for servers: groups first, then aggregates.

    Attributes:
        groups: Those of the statement.
        value: Another one, whose distinct values are wanted in each of these; None: there is none.
        merged: Aggregates and sketches that were made of partial ones.
    """

    groups: list[Node]
    value: Node | None = None
    aggregates: list[Node] = field(default_factory=list)
    merged: list[Node] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = {key_of(one): place for place, one in reversed([*enumerate(self.groups)])}

    @property
    def finest(self) -> list[Node]:
        """Expressions that servers group by."""
        return self.groups if self.value is None else [*self.groups, self.value]

    def group(self, expression: Node) -> Node | None:
        """Return the column of the group that an expression is."""
        place = self._places.get(key_of(expression))
        return part(place) if place is not None and place < len(self.groups) else None

    def aggregate(self, expression: Node) -> Node:
        """Return the column of a partial aggregate."""
        key = key_of(expression)
        if key not in self._places:
            self._places[key] = len(self.finest) + len(self.aggregates)
            self.aggregates.append(expression)
        return part(self._places[key])

    def whole(self, expression: Node) -> Node:
        """Return an aggregate, or a sketch, as one of what servers answered."""
        self.merged.append(expression)
        if is_sketch(expression):
            return merged_sketch(expression, self.aggregate)
        if self.value is not None and is_of_distinct(expression):
            return with_arguments(expression, [part(len(self.groups))])
        return merged_aggregate(expression, self.aggregate)


def split_groups(select: Select, view: str) -> tuple[Node, Node]:
    """Return the statements for servers and for the broker.

    Args:
        view: Name of the servers' rows at the broker.

    Raises:
        NotOneRound: Servers cannot answer it alone.
    """
    node, names = select.node, select.names
    if any(one.get("class") == "STAR" for one in walk(node["select_list"])):
        raise NotOneRound("it aggregates what * stands for")
    items = names.selected()
    parts = _Parts(_groups(select, items))
    merged = _merged_clauses(select, items, parts)
    value = find_distinct_value(parts.merged)
    if value is not None:
        parts = _Parts(parts.groups, value)
        merged = _merged_clauses(select, items, parts)
    where = node["where_clause"]
    keys = parts.finest
    leaf = select_of(keys + parts.aggregates)
    leaf["node"] |= {
        "from_table": node["from_table"],
        "where_clause": None if where is None else names.told(where),
        "group_expressions": [constant("INTEGER", str(1 + i)) for i in range(len(keys))],
        "group_sets": [list(range(len(keys)))] if keys else [],
    }
    if not keys and not parts.aggregates:
        raise NotOneRound("it aggregates nothing")
    groups = parts.groups
    sets = [list(range(len(groups)))] if groups else []
    if len(node["group_sets"]) > 1:  # servers give the finest groups
        sets = node["group_sets"]
        if len(set(map(key_of, groups))) < len(groups):
            raise NotOneRound("it has grouping sets of one expression twice")
    final = select_of([])
    final["node"] |= merged | {
        "from_table": base_table(view, ""),
        "group_expressions": [part(place) for place in range(len(groups))],
        "group_sets": sets,
    }
    return leaf, final


def _merged_clauses(select: Select, items: list[Node], parts: _Parts) -> Node:
    """Return what the broker selects of the groups, and how it chooses and orders them."""
    chosen = {}
    for key in ("having", "qualify"):
        part = select.node[key]
        chosen[key] = part and _merged(select.names.told_or_ambiguous(part), parts)
    return {
        "select_list": [_merged(item, parts) for item in items],
        **chosen,
        "modifiers": [_modifier(one, select, items, parts) for one in select.node["modifiers"]],
    }


def _groups(select: Select, items: list[Node]) -> list[Node]:
    node = select.node
    if node["aggregate_handling"] != "STANDARD_HANDLING":
        if node["group_expressions"]:
            raise NotOneRound("it groups in more than one way")
        if node["having"] is not None and _names_columns(node["having"]):
            raise NotOneRound("HAVING groups by more beside GROUP BY ALL")
        return [item for item in items if _is_group(item)]
    count = len(node["group_expressions"])
    if node["group_sets"] and not count:
        raise NotOneRound("it groups by nothing")
    found = []
    for one in node["group_expressions"]:
        group = (
            items[int(one["literal"]["text"]) - 1] if is_ordinal(one) else select.names.told(one)
        )
        if any(is_aggregate(part) or part.get("class") == "WINDOW" for part in walk(group)):
            raise NotOneRound("it groups by an aggregate")
        found.append(group)
    return found


def _is_group(item: Node) -> bool:
    """Whether GROUP BY ALL groups by what is selected: a constant is none, as little as an aggregate.

    Raises:
        NotOneRound: There is a window over rows in it.
    """
    inner = list(walk(item))
    if any(one.get("class") == "WINDOW" for one in inner) and not any(map(is_aggregate, inner)):
        raise NotOneRound("it has a window function")
    return any(one.get("class") == "COLUMN_REF" for one in inner) and not any(
        map(is_aggregate, inner)
    )


def _names_columns(part: Any) -> bool:
    """Whether an expression names columns outside of aggregates."""
    if isinstance(part, list):
        return any(map(_names_columns, part))
    if not isinstance(part, dict) or is_aggregate(part):
        return False
    return part.get("class") == "COLUMN_REF" or any(map(_names_columns, part.values()))


def _modifier(modifier: Node, select: Select, items: list[Node], parts: _Parts) -> Node:
    if modifier["type"] != "ORDER_MODIFIER":
        return modifier
    orders = []
    for order in modifier["orders"]:
        expression = order["expression"]
        if expression["class"] != "STAR":
            place = select.place_of(expression, items)
            expression = (
                constant("INTEGER", str(1 + place))
                if place is not None
                else _merged(select.names.told_or_ambiguous(expression), parts)
            )
        orders.append(order | {"expression": expression})
    return modifier | {"orders": orders}


def _merged(expression: Any, parts: _Parts) -> Any:
    """Return an expression over rows as one over what servers answered."""
    if isinstance(expression, list):
        return [_merged(one, parts) for one in expression]
    if not isinstance(expression, dict):
        return expression
    if "class" in expression:
        group = parts.group(expression)
        if group is not None:
            return group
        if expression["class"] == "SUBQUERY":
            return expression | {"child": _merged(expression["child"], parts)}
        if is_sketch(expression) or is_aggregate(expression):
            return parts.whole(expression)
        if expression["class"] == "LAMBDA":
            raise NotOneRound("it has a lambda over groups")
        if expression["class"] == "COLUMN_REF":
            raise NotOneRound(f"'{expression['column_names'][-1]}' is not one of its groups")
    return {key: _merged(value, parts) for key, value in expression.items()}
