"""Druid's `PI`, which stands without parentheses: it is that number where no column is called so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from carnac.query.syntax import Node, call, walk

_PI = "pi"
_NAMING = {"class", "type", "key", "name"}
"""Of a dictionary that has none of them, texts are literals, or repeat the name of a function."""


def with_pi(statement: Node, columns: Iterable[str]) -> None:
    """Let `PI` be a call, in place, unless something in the statement may have that name.

    Args:
        columns: Those of all tables that it reads.
    """
    found = _meant(statement["node"])
    if not found or _PI in map(str.lower, columns):
        return
    for item in _items(statement["node"]):
        if any(item is one for one in found):
            item["alias"] = item["alias"] or item["column_names"][0]
    for one in found:
        alias = one["alias"]
        one.clear()
        one.update(call(_PI, []) | {"alias": alias})


def _meant(node: Node) -> list[Node]:
    """Return the places of `PI` that are no column; where one expression is called so, those within it."""
    named = [item for item in _items(node) if str(item.get("alias", "")).lower() == _PI]
    givers = [*_given_names(node)].count(_PI)
    within = node if not givers else named[0] if givers == len(named) == 1 else None
    return [] if within is None else [one for one in walk(within) if _is_pi(one)]


def _items(node: Node) -> Iterator[Node]:
    for select in walk(node):
        yield from select.get("select_list") or ()


def _is_pi(node: Node) -> bool:
    return node.get("class") == "COLUMN_REF" and [*map(str.lower, node["column_names"])] == [_PI]


def _given_names(node: Any) -> Iterator[str]:
    """Yield the names that a statement gives or asks of something else, in lower case."""
    for one in walk(node):
        if one.get("class") in {"CONSTANT", "FUNCTION"} or _is_pi(one):
            yield str(one["alias"]).lower()
        elif _NAMING & one.keys():
            for value in one.values():
                texts = value if isinstance(value, list) else [value]
                yield from (text.lower() for text in texts if isinstance(text, str))
