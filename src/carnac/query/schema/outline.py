"""Facts of an answer that the statement's text tells: which columns have no name, how many parameters it takes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from carnac.errors import Invalid
from carnac.query.dialect.clauses import without_clauses
from carnac.query.syntax import Node, parse, walk

if TYPE_CHECKING:
    import duckdb

_LOCK = threading.Lock()
_COMPARING = frozenset({"BETWEEN", "COMPARISON", "OPERATOR"})
_COMPARED = ("left", "right", "input", "lower", "upper", "children")
"""Keys of what such an expression compares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """Facts of an answer that the statement's text tells.

    Attributes:
        outputs: For each item of the SELECT list: True if it is an expression without a name, False if it has one, None
            if it stands for any number of columns (`*`).
        parameters: How many values it takes.
    """

    outputs: Sequence[bool | None]
    parameters: int

    def unnamed(self, columns: int) -> set[int]:
        """Return which of so many columns have no name, counted from 0.

        Of several `*` only what is before the first and after the last is known.
        """
        first = next(
            (place for place, one in enumerate(self.outputs) if one is None), len(self.outputs)
        )
        found = {place for place in range(first) if self.outputs[place]}
        for back, one in enumerate(reversed(self.outputs[first:])):
            if one is None:
                break
            if one:
                found.add(columns - 1 - back)
        return found


def check_select(sql: str) -> None:
    """Check that a text is one SELECT statement, and no EXPLAIN of one.

    Raises:
        Invalid: It is not; says why.
    """
    with _LOCK:
        prefix, _ = parse(_cursor(), without_clauses(sql))
    if prefix:
        raise Invalid(
            "EXPLAIN is answered at once, by POST /druid/v2/sql: a task runs the statement"
        )


def outline(sql: str) -> Outline | None:
    """Return the outline of a statement; None if it is not one SELECT statement, which its run will say."""
    with _LOCK:
        try:
            _, statement = parse(_cursor(), without_clauses(sql))
        except Invalid:
            return None
    named = {
        str(node.get("identifier"))
        for node in walk(statement["node"])
        if node.get("class") == "PARAMETER"
    }
    return Outline(outputs=_outputs(statement["node"]), parameters=len(named))


def beside_parameters(sql: str) -> Mapping[str, tuple[str, str]]:
    """Return what stands beside the `?` of a statement, by their numbers: `("type", "BIGINT")` or `("column", "n")`.

    One that is neither cast, nor compared with a column, nor a limit, is left out.
    """
    with _LOCK:
        try:
            _, statement = parse(_cursor(), without_clauses(sql))
        except Invalid:
            return {}
    found: dict[str, tuple[str, str]] = {}
    for node in walk(statement["node"]):
        parts = [part for key in _COMPARED for part in _listed(node.get(key))]
        if node.get("type") == "LIMIT_MODIFIER":
            beside = ("type", "BIGINT")
            parts = [part for key in ("limit", "offset") for part in _listed(node.get(key))]
        elif node.get("class") == "CAST":
            beside, parts = ("type", str(node["type_expr"].get("type_name"))), [node["child"]]
        else:
            columns = [one["column_names"][-1] for one in parts if one.get("class") == "COLUMN_REF"]
            if node.get("class") not in _COMPARING or len(columns) != 1:
                continue
            beside = ("column", str(columns[0]))
        for one in parts:
            if one.get("class") == "PARAMETER":
                found[str(one["identifier"])] = beside
    return found


def _listed(part: object) -> list[Node]:
    found = part if isinstance(part, list) else [part]
    return [one for one in found if isinstance(one, dict)]


def _outputs(query: Node) -> list[bool | None]:
    while query["type"] == "SET_OPERATION_NODE":  # the first part names the columns
        query = query["left"] or query["children"][0]
    return [_is_unnamed(item) for item in query.get("select_list", [])]


def _is_unnamed(item: Node) -> bool | None:
    if item["class"] == "STAR":
        return None
    return not item["alias"] and item["class"] != "COLUMN_REF"


@cache
def _cursor() -> duckdb.DuckDBPyConnection:
    """Return what parses, and runs nothing of anybody."""
    import duckdb

    return duckdb.connect(
        config={"enable_external_access": False, "threads": 1, "autoload_known_extensions": False}
    )
