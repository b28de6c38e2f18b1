"""The meaning of names in a SELECT: each becomes one form, so that equal expressions are equal trees.

Columns and the aliases of the select list can have the same name, and which of the two a clause means differs from
clause to clause. Where a name could mean either, it is not told here: such a statement is gathered, and DuckDB tells.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from carnac.query.relations import Scope
from carnac.query.syntax import ASKED, NOWHERE, Node, lambda_names, walk

_PLACES = frozenset({"query_location", "query_location_length", ASKED})


class NotOneRound(Exception):
    """Servers cannot answer the statement alone; says why, as the end of a sentence."""


@dataclass(slots=True)
class Names:
    """The names that a SELECT knows.

    Args:
        tables: Columns of what stands in FROM, by alias in lower case: names by their lower-case form.
        merged: Columns that a join makes one of, in lower case.
        items: The select list.
    """

    tables: Mapping[str, Mapping[str, str]]
    merged: frozenset[str]
    items: Sequence[Node]
    _known: dict[int, Node] = field(default_factory=dict)

    def selected(self) -> list[Node]:
        """Return the select list in one form."""
        return [self._item(place) for place in range(len(self.items))]

    def told(self, expression: Node, *, aliases: int | None = None) -> Node:
        """Return an expression in one form, in which a column's name wins over an alias, as in SELECT and WHERE.

        Args:
            aliases: Of so many items of the select list can be named; None: of all.

        Raises:
            NotOneRound: A name is not known for sure.
        """
        found: Node = self._replaced(expression, len(self.items) if aliases is None else aliases)
        return found | {"alias": ""}

    def told_or_ambiguous(self, expression: Node) -> Node:
        """Return an expression in one form, in which no name may mean both a column and an alias.

        Raises:
            NotOneRound: One may, or is not known for sure.
        """
        for node in walk(expression):
            if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
                name = str(node["column_names"][0])
                places = self.aliased(name)
                column = self._column([name])
                if column is not None and any(self._item(one) != column for one in places):
                    raise NotOneRound(f"'{name}' is both a column and an alias")
        return self.told(expression)

    def aliased(self, name: str) -> list[int]:
        """Return the places in the select list that an alias stands for."""
        lower = name.lower()
        return [i for i, one in enumerate(self.items) if str(one["alias"]).lower() == lower]

    def _item(self, place: int) -> Node:
        if place not in self._known:
            self._known[place] = self._replaced(self.items[place], place) | {"alias": ""}
        return copy.deepcopy(self._known[place])

    def _replaced(self, part: Any, aliases: int, own: frozenset[str] = frozenset()) -> Any:
        """Return a part of a tree in one form.

        Args:
            own: Names that lambdas around it give to their arguments, in lower case.
        """
        if isinstance(part, list):
            return [self._replaced(one, aliases, own) for one in part]
        if not isinstance(part, dict):
            return part
        if part.get("class") == "COLUMN_REF":
            is_own = str(part["column_names"][0]).lower() in own
            return part if is_own else self._reference(part, aliases)
        if part.get("class") == "SUBQUERY":  # one that needs nothing of the rows around it
            return part | {"child": self._replaced(part["child"], aliases, own)}
        if part.get("class") == "LAMBDA":
            own |= {str(one).lower() for one in lambda_names(part)}
        return {key: self._replaced(value, aliases, own) for key, value in part.items()}

    def _reference(self, node: Node, aliases: int) -> Node:
        path = [str(name) for name in node["column_names"]]
        column = self._column(path)
        if column is not None:
            return column
        places = [one for one in self.aliased(path[-1]) if one < aliases] if len(path) == 1 else []
        if len(places) != 1:
            raise NotOneRound(f"it is not certain what '{'.'.join(path)}' means")
        return self._item(places[0])

    def _column(self, path: list[str]) -> Node | None:
        name = path[-1].lower()
        if len(path) == 1 and name not in self.merged:
            owners = [alias for alias, columns in self.tables.items() if name in columns]
        elif len(path) == 2:
            owners = [one for one in self.tables if one == path[0].lower()]
        else:
            return None
        if len(owners) != 1 or name not in self.tables[owners[0]]:
            return None
        return column(owners[0], self.tables[owners[0]][name])


def column(*path: str) -> Node:
    """Return a reference to a column."""
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", **NOWHERE, "column_names": list(path)}


def names_of(
    scope: Scope, items: Sequence[Node], small: Mapping[str, Mapping[str, object]]
) -> Names:
    """Return the names that a SELECT knows.

    Args:
        small: Columns of small tables, by the name that they have in the statement.

    Raises:
        NotOneRound: Columns of a relation in FROM are not known, or two relations have one name.
    """
    tables: dict[str, Mapping[str, str]] = {}
    for relation in scope.relations:
        columns = relation.columns
        if columns is None and relation.node is not None:
            held = small.get(str(relation.node["table_name"]))
            if held is not None and not relation.node["column_name_alias"]:
                columns = {name.lower(): name for name in held}
        if columns is None or relation.alias in tables:
            raise NotOneRound("the columns of what stands in FROM have no names of their own")
        tables[relation.alias] = columns
    if scope.merges_unknown:
        raise NotOneRound("a natural join merges columns")
    return Names(tables, frozenset(scope.merged), items)


def key_of(expression: Node) -> str:
    """Return what is the same for equal expressions in one form."""

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(one) for one in part]
        if isinstance(part, dict):
            return {key: plain(value) for key, value in part.items() if key not in _PLACES}
        return part

    return json.dumps(plain(expression), sort_keys=True)
