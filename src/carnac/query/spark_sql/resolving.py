"""The meaning of names and ordinals in the clauses of a SELECT: aliases give way to what they stand for."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from carnac.query.distributed.aggregates import is_aggregate
from carnac.query.distributed.groups import is_ordinal
from carnac.query.distributed.naming import column, key_of
from carnac.query.spark_sql.kinds import refuse
from carnac.query.syntax import ASKED, Node, walk, walk_here


@dataclass(frozen=True, slots=True)
class Source:
    """Something in FROM, and the names of its columns."""

    alias: str
    names: Sequence[str]


@dataclass(slots=True)
class Clauses:
    """The parts of a SELECT, names of its aliases replaced by what they mean."""

    items: list[Node]
    where: Node | None
    groups: list[Node]
    having: Node | None
    qualify: Node | None
    keys: list[Node]
    orders: Sequence[Node]
    places: list[int | None]

    def all(self) -> list[Node]:
        """Return all expressions."""
        rest = [one for one in (self.where, self.having, self.qualify) if one is not None]
        return [*self.items, *self.groups, *self.keys, *rest]


@dataclass(slots=True)
class Resolver:
    """Replaces aliases and places in the clauses of a SELECT by what they mean.

    Args:
        columns: Names of the columns in FROM, in lower case.
    """

    node: Node
    columns: set[str]
    sources: Sequence[Source]
    items: list[Node] = field(default_factory=list)

    def clauses(self, modifiers: Mapping[str, Node]) -> Clauses:
        """Return the clauses.

        Raises:
            NotInSpark: A name means either a column or an alias, or a star stands where it cannot be printed.
        """
        node = self.node
        _refuse_unprintable(node)
        for item in node["select_list"]:
            if item["class"] == "STAR":
                self.items += self._starred(item)
            else:
                self.items.append(self._told(item) | {"alias": item["alias"]})
        order = modifiers.get("ORDER_MODIFIER", {})
        orders = _all_orders(order.get("orders", ()), len(self.items))
        keys: list[Node] = []
        places: list[int | None] = []
        known = {key_of(one | {"alias": ""}): place for place, one in enumerate(self.items)}
        for one in orders:
            place, key = self._key(one["expression"])
            if place is None and key is not None:
                place = known.get(key_of(key | {"alias": ""}))
            places.append(place)
            if place is None and key is not None:
                keys.append(key)
        where, having, qualify = (node[key] for key in ("where_clause", "having", "qualify"))
        return Clauses(
            items=self.items,
            where=None if where is None else self._told(where),
            groups=self._groups(),
            having=None if having is None else self._told(having, is_sure=True),
            qualify=None if qualify is None else self._told(qualify, is_sure=True),
            keys=keys,
            orders=orders,
            places=places,
        )

    def _key(self, expression: Node) -> tuple[int | None, Node | None]:
        """Return the place that an item of ORDER BY means, or its expression."""
        if is_ordinal(expression):
            return int(expression["literal"]["text"]) - 1, None
        if expression["class"] == "COLUMN_REF" and len(expression["column_names"]) == 1:
            places = self._aliased(str(expression["column_names"][0]))
            if len(places) > 1:
                raise refuse("an order by an alias of several columns")
            if places:
                return places[0], None
        return None, self._told(expression, is_sure=True)

    def _groups(self) -> list[Node]:
        node = self.node
        if node["aggregate_handling"] != "STANDARD_HANDLING":
            if node["group_expressions"] or node["aggregate_handling"] != "FORCE_AGGREGATES":
                raise refuse("GROUP BY ALL beside other groups")
            return [
                copy.deepcopy(one) | {"alias": ""}
                for one in self.items
                if not any(is_aggregate(part) for part in walk(one))
            ]
        groups = []
        for one in node["group_expressions"]:
            if is_ordinal(one):
                groups.append(copy.deepcopy(self.items[int(one["literal"]["text"]) - 1]))
            else:
                groups.append(self._told(one, is_sure=True))
        return groups

    def _aliased(self, name: str) -> list[int]:
        lower = name.lower()
        return [i for i, one in enumerate(self.items) if str(one["alias"]).lower() == lower]

    def _told(self, expression: Node, *, is_sure: bool = False) -> Node:
        """Return a copy of an expression in which aliases are replaced, columns going first.

        Args:
            is_sure: Refuse names that are both, where DuckDB may take the alias.
        """

        def told(part: Any) -> Any:
            if isinstance(part, list):
                return [told(one) for one in part]
            if not isinstance(part, dict):
                return part
            if part.get("class") == "COLUMN_REF" and len(part["column_names"]) == 1:
                return self._name(part, is_sure=is_sure)
            if part.get("class") == "SUBQUERY":  # its names are its own
                child = told(part["child"]) if part.get("child") else part.get("child")
                return copy.deepcopy(part) | {"child": child}
            return {key: told(value) for key, value in part.items()}

        found: Node = told(expression)
        return found | {"alias": ""}

    def _name(self, node: Node, *, is_sure: bool) -> Node:
        name = str(node["column_names"][0])
        places = self._aliased(name)
        if name.lower() in self.columns:
            if is_sure and any(not _is_column(self.items[one], name) for one in places):
                raise refuse(f"'{name}', which is both a column and an alias,")
            return copy.deepcopy(node)
        if len(places) != 1:
            return copy.deepcopy(node)
        return copy.deepcopy(self.items[places[0]]) | {"alias": ""}

    def _starred(self, item: Node) -> list[Node]:
        plain = not any(
            item.get(key)
            for key in ("exclude_list", "replace_list", "rename_list", "columns", "expr", "qualified_exclude_list")
        )  # fmt: skip
        joins = (one for one in walk(self.node["from_table"]) if one.get("type") == "JOIN")
        if not plain or any(one.get("using_columns") for one in joins):
            raise refuse("a star with exceptions, or over a join with USING")
        wanted = str(item["relation_name"]).lower()
        found = []
        for one in self.sources:
            if wanted and one.alias.lower() != wanted:
                continue
            path = [one.alias] if one.alias else []
            found += [column(*path, name) for name in one.names]
        return found


def _refuse_unprintable(node: Node) -> None:
    """Refuse what has no type of its own.

    Raises:
        NotInSpark: There is some.
    """
    orders = [one["orders"] for one in node["modifiers"] if one["type"] == "ORDER_MODIFIER"]
    allowed = [one["expression"] for some in orders for one in some]
    plain = [id(one) for one in [*node["select_list"], *allowed]]
    parts = [node[key] for key in ("select_list", "where_clause", "having", "qualify", "modifiers")]
    for one in walk_here([*parts, node["group_expressions"]]):
        if one.get("class") in {"LAMBDA", "LAMBDA_REF"}:
            asked = one.get(ASKED)
            raise refuse(f"the function {asked}" if asked else "a lambda")
        if one.get("class") == "STAR" and id(one) not in plain:
            raise refuse("a star inside of an expression")


def _all_orders(orders: Sequence[Node], width: int) -> Sequence[Node]:
    """Return the items of ORDER BY, of ORDER BY ALL one for each column."""
    if len(orders) == 1 and orders[0]["expression"]["class"] == "STAR":
        ordinal = {"class": "CONSTANT", "type": "VALUE_CONSTANT"}
        return [
            orders[0]
            | {"expression": ordinal | {"literal": {"kind": "INTEGER", "text": str(1 + place)}}}
            for place in range(width)
        ]
    return orders


def _is_column(item: Node, name: str) -> bool:
    return bool(
        item["class"] == "COLUMN_REF" and str(item["column_names"][-1]).lower() == name.lower()
    )
