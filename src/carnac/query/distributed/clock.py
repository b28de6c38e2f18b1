"""The time of a statement, said once: every server and the broker are told the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from carnac.query.distributed.aggregates import CLOCK_READERS, CLOCK_WORDS, CLOCKS, function_name
from carnac.query.relations import Scope
from carnac.query.syntax import (
    NOWHERE,
    Node,
    arguments,
    call,
    cast,
    constant,
    select_of,
    unparse,
    walk,
)

if TYPE_CHECKING:
    import duckdb


def stop_clock(
    cursor: duckdb.DuckDBPyConnection,
    statement: Node,
    selects: Sequence[tuple[Node, Scope]],
) -> None:
    """Replace, in place, what reads the clock by what it says now; columns keep their names."""
    own = _own_names(statement, selects)
    for select, _ in selects:
        for item in select["select_list"]:
            if not item["alias"] and any(_reads(one, own) for one in walk(item)):
                item["alias"] = unparse(cursor, select_of([item])).removeprefix("SELECT ")
    found = [one for one in walk(statement["node"]) if _reads(one, own)]
    if not found:
        return
    for one in found:
        if function_name(one) == "ago":
            [interval] = arguments(one)
            now = call("now", [])
            _put(one, call("-", [now, cast(interval, "INTERVAL")]) | {"is_operator": True})
            found.append(now)
    texts = [unparse(cursor, select_of([_plain(one)])).removeprefix("SELECT ") for one in found]
    asked = ", ".join(f"CAST({text} AS VARCHAR), typeof({text})" for text in texts)
    values: Sequence[Any] = cursor.execute(f"SELECT {asked}").fetchall()[0]
    for one, text, kind in zip(found, values[::2], values[1::2], strict=True):
        if function_name(one) != "-":
            _put(one, cast(constant("STRING", str(text)), str(kind)))


def _own_names(statement: Node, selects: Sequence[tuple[Node, Scope]]) -> set[str]:
    """Return the words for the clock that the statement or a table uses as names of its own."""
    names = {str(one.get("alias", "")).lower() for one in walk(statement["node"])}
    for _, scope in selects:
        for relation in scope.relations:
            names.update(relation.columns or ())
    return names & CLOCK_WORDS


def _reads(node: Node, own: set[str]) -> bool:
    name = function_name(node)
    if name == "ago":
        return len(arguments(node)) == 1
    if name in CLOCKS or (name in CLOCK_READERS and name != "age"):
        return not arguments(node)
    if node.get("class") != "COLUMN_REF" or len(node["column_names"]) != 1:
        return False
    return str(node["column_names"][0]).lower() in CLOCK_WORDS - own


def _plain(node: Node) -> Node:
    return node | {"alias": ""}


def _put(node: Node, new: Node) -> None:
    kept = {key: node[key] for key in NOWHERE}
    node.clear()
    node.update(new | kept)
