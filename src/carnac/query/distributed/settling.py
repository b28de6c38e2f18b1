"""Values from outside, written into a statement: its parameters, and the time, the same for everybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid
from carnac.query.distributed.aggregates import CLOCK_READERS, CLOCKS, function_name
from carnac.query.functions import CLOCK_WORDS
from carnac.query.relations import Scope
from carnac.query.syntax import (
    NOWHERE,
    Node,
    arguments,
    call,
    cast,
    cast_to,
    constant,
    null,
    text_of,
    walk,
)

if TYPE_CHECKING:
    import duckdb


def settle(
    cursor: duckdb.DuckDBPyConnection,
    statement: Node,
    selects: Sequence[tuple[Node, Scope]],
    parameters: Sequence[object],
) -> None:
    """Replace, in place, parameters by their values, and expressions that read the clock by their values now.

    Columns keep their names.

    Raises:
        Invalid: A parameter cannot be written down.
    """
    own = _own_names(statement, selects)
    for select, _ in selects:
        for item in select["select_list"]:
            if not item["alias"] and any(
                one.get("class") == "PARAMETER" or _reads_clock(one, own) for one in walk(item)
            ):
                item["alias"] = text_of(cursor, item)
    for one in walk(statement["node"]):
        if function_name(one) == "ago" and len(arguments(one)) == 1:
            interval = cast(arguments(one)[0], "INTERVAL")
            _put(one, call("-", [call("now", []), interval]) | {"is_operator": True})
    _stop_clock(cursor, [one for one in walk(statement["node"]) if _reads_clock(one, own)])
    _write_parameters(cursor, statement, parameters)


def _stop_clock(cursor: duckdb.DuckDBPyConnection, found: Sequence[Node]) -> None:
    if not found:
        return
    texts = [text_of(cursor, one) for one in found]
    asked = ", ".join(f"CAST({text} AS VARCHAR), typeof({text})" for text in texts)
    values: Sequence[Any] = cursor.execute(f"SELECT {asked}").fetchall()[0]
    for one, text, kind in zip(found, values[::2], values[1::2], strict=True):
        _put(one, cast_to(cursor, constant("STRING", str(text)), str(kind)))


def _write_parameters(
    cursor: duckdb.DuckDBPyConnection, statement: Node, parameters: Sequence[object]
) -> None:
    known: dict[str, Node] = {}
    for one in walk(statement["node"]):
        if one.get("class") == "PARAMETER":
            place = str(one["identifier"])
            if place not in known:
                known[place] = _written(cursor, place, parameters[int(place) - 1])
            _put(one, known[place])
    statement["named_param_map"] = []


def _written(cursor: duckdb.DuckDBPyConnection, place: str, value: object) -> Node:
    """Return the constant that DuckDB makes of a parameter."""
    asked = "SELECT typeof($1), CAST($1 AS VARCHAR)"
    [(kind, text)] = cursor.execute(asked, [value]).fetchall()
    if text is None:
        return null()
    if kind == "VARCHAR":  # a literal, as a parameter is, fits what it is compared with
        return constant("STRING", text)
    same = f"SELECT CAST($2 AS {kind}) IS NOT DISTINCT FROM $1"
    if cursor.execute(same, [value, text]).fetchall() != [(True,)]:
        raise Invalid(
            f"parameter {place} cannot be sent to servers; write it into the statement as a constant"
        )
    return cast_to(cursor, constant("STRING", text), kind)


def _own_names(statement: Node, selects: Sequence[tuple[Node, Scope]]) -> set[str]:
    """Return the words for the clock that the statement or a table uses as names of its own."""
    names = {str(one.get("alias", "")).lower() for one in walk(statement["node"])}
    for _, scope in selects:
        for relation in scope.relations:
            names.update(relation.columns or ())
    return names & CLOCK_WORDS


def _reads_clock(node: Node, own: set[str]) -> bool:
    name = function_name(node)
    if name in CLOCKS or (name in CLOCK_READERS and name.startswith("current_")):
        return not arguments(node)
    if node.get("class") != "COLUMN_REF" or len(node["column_names"]) != 1:
        return False
    return str(node["column_names"][0]).lower() in CLOCK_WORDS - own


def _put(node: Node, new: Node) -> None:
    kept = {key: node[key] for key in NOWHERE}
    node.clear()
    node.update(new | kept)
