"""Checks the SQL predicate of a deletion before anything runs: one expression over columns, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from carnac.core.quoting import quote
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.core.texts import cut, first_line
from carnac.errors import Invalid
from carnac.rows.normalise.shape import ORDER_PREFIX
from carnac.specs.problems import suggest

if TYPE_CHECKING:
    import duckdb

_TIME_TYPE = "TIMESTAMP WITH TIME ZONE"
_STABILITIES: dict[str, set[str]] = {}
"""Of DuckDB's functions, by name, once somebody has asked for one: the same in each connection."""


def check_predicate(
    predicate: str, columns: Mapping[str, ColumnType]
) -> tuple[tuple[str, ColumnType], ...]:
    """Check that a predicate is a boolean expression over the columns, with one meaning for every row.

    Refused: subqueries, aggregates, window functions, anything beside the expression, and functions whose result
    depends on when they run (`now()`, `random()`): a task that is tried again must find the same rows.

    Args:
        columns: United columns of the datasource, without `__time`.

    Returns:
        The columns that it names, `__time` left out.

    Raises:
        Invalid: The predicate is not such an expression; says why in one sentence.
    """
    import duckdb

    names = {name: kind for name, kind in columns.items() if not name.startswith(ORDER_PREFIX)}
    declared = ", ".join(f"{quote(name)} {SQL_TYPE[kind]}" for name, kind in names.items())
    with _checker().cursor() as con:
        time = f"{quote(TIME_COLUMN)} {_TIME_TYPE}"
        made = f"CREATE TEMP TABLE rows ({', '.join(filter(None, [time, declared]))})"
        con.execute(made).complete()
        expression = _parsed(con, predicate)
        named = _check_nodes(con, expression, predicate, {TIME_COLUMN, *names})
        try:
            kind = con.sql(f"SELECT (\n{predicate}\n) AS hit FROM rows").types[0]
            con.execute(f"SELECT 1 FROM rows WHERE (\n{predicate}\n)").complete()
        except duckdb.Error as error:
            raise _invalid(predicate, _reason(error)) from error
    if str(kind) not in {"BOOLEAN", '"NULL"', "NULL"}:
        raise _invalid(predicate, f"it is of type {kind}, not a condition")
    return tuple((name, type_) for name, type_ in names.items() if name.casefold() in named)


def check_syntax(predicate: str) -> None:
    """Check of a predicate what can be checked without the columns of its datasource.

    Raises:
        Invalid: As `check_predicate`.
    """
    with _checker().cursor() as con:
        _check_nodes(con, _parsed(con, predicate), predicate, None)


def texts_in(predicate: str) -> tuple[str, ...]:
    """Return the texts that a predicate compares with, patterns without their wildcards, longest first.

    Texts of one or two characters are left out: they are found in everything.
    """
    with _checker().cursor() as con:
        constants = [
            str(node["literal"]["text"])
            for node in _nodes(_parsed(con, predicate))
            if node.get("class") == "CONSTANT" and node["literal"]["kind"] == "STRING"
        ]
    parts = {part for text in constants for part in text.split("%")}
    return tuple(sorted((one for one in parts if len(one) > 2), key=lambda one: (-len(one), one)))


@cache
def _checker() -> duckdb.DuckDBPyConnection:
    """Return a database without rows, which reads nothing beside it; to open one takes ten times as long as a check."""
    import duckdb

    con = duckdb.connect(":memory:", config={"autoload_known_extensions": False, "threads": 1})
    for setting in ("enable_external_access = false", "lock_configuration = true"):
        con.execute(f"SET {setting}").complete()
    return con


def _parsed(con: Any, predicate: str) -> Any:
    """Return the syntax tree of the expression, which must be whole with and without parentheses around it."""
    expression: Any = None
    for opening, closing in (("", ""), ("(", ")")):
        tree = _tree(con, f"{opening}\n{predicate}\n{closing}")
        if tree.get("error"):
            raise _invalid(predicate, str(tree.get("error_message", "it cannot be parsed")))
        statements = tree["statements"]
        template = _tree(con, "TRUE")["statements"]
        if len(statements) != 1:
            raise _invalid(predicate, "it is more than one statement")
        expression = statements[0]["node"].pop("where_clause", None)
        template[0]["node"].pop("where_clause")
        if expression is None or statements != template:
            raise _invalid(predicate, "it is more than one expression")
    return expression


def _tree(con: Any, condition: str) -> dict[str, Any]:
    statement = f"SELECT 1 FROM rows WHERE {condition}"
    row = con.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()[0]
    tree: dict[str, Any] = json.loads(row[0])
    return tree


def _check_nodes(con: Any, expression: Any, predicate: str, names: set[str] | None) -> set[str]:
    """Return the names of columns that the expression holds, case folded.

    Args:
        names: Names of the columns that exist; None: not known.
    """
    folded = None if names is None else {name.casefold() for name in names}
    named = set()
    for node in _nodes(expression):
        kind = node.get("class")
        if kind == "SUBQUERY":
            raise _invalid(predicate, "subqueries are not allowed")
        if kind in {"STAR", "PARAMETER", "WINDOW", "DEFAULT"}:
            raise _invalid(predicate, f"it uses {str(kind).lower()}, which is not allowed")
        if kind == "FUNCTION":
            _check_function(con, str(node["function_name"]), predicate)
        if kind == "COLUMN_REF":
            path = [str(name).casefold() for name in node["column_names"]]
            if path[0] == "rows" and len(path) > 1:
                path = path[1:]
            is_known = folded is None or path[0] in folded
            if not is_known and not _is_lambda(expression, path[0]):
                raise _invalid(predicate, _unknown(str(node["column_names"][-1]), names or ()))
            named.add(path[0])
    return named


def _unknown(name: str, names: Iterable[str]) -> str:
    near = suggest(name, names) or f"; a text stands in single quotes: '{name}'"
    return f"there is no column '{name}'{near}"


def _is_lambda(expression: Any, name: str) -> bool:
    """Whether some lambda of the expression names its parameter so; the binder checks where it is used."""
    for node in _nodes(expression):
        if node.get("class") == "LAMBDA":
            names = json.dumps(node).casefold()
            if f'"{name}"' in names:
                return True
    return False


def _check_function(con: Any, function: str, predicate: str) -> None:
    if not _STABILITIES:
        rows = con.execute(
            "SELECT DISTINCT function_name, stability FROM duckdb_functions() WHERE stability IS NOT NULL"
        ).fetchall()
        found: dict[str, set[str]] = {}
        for name, stability in rows:
            found.setdefault(name, set()).add(stability)
        _STABILITIES.update(found)  # at once, for other threads
    if _STABILITIES.get(function.lower(), set()) - {"CONSISTENT"}:
        raise _invalid(predicate, f"{function}() does not give the same answer every time")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _reason(error: Exception) -> str:
    return first_line(error).split(": ", 1)[-1]


def _invalid(predicate: str, reason: str) -> Invalid:
    shown = cut(" ".join(predicate.split()), 80)
    return Invalid(
        f"the predicate '{shown}' cannot be used: {reason.rstrip('.')}", predicate=predicate
    )
