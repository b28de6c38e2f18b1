"""Constants of a statement, evaluated: literals here, everything else that is constant by DuckDB."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from carnac.query.syntax import (
    ROW_EXPRESSIONS,
    Node,
    arguments,
    call,
    cast,
    select_of,
    unparse,
    walk,
)

if TYPE_CHECKING:
    import duckdb

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|\+00(?::00)?)?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
CLOCK_WORDS = {"current_date", "current_timestamp", "current_localtimestamp", "localtimestamp"}
"""Columns that mean the time of the query."""
_VOLATILE = {"random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid"}


class Constants:
    """Evaluates constant expressions in a transaction of the cursor that runs the query too, so that now() is the same.

    Args:
        parameters: Values of `$1`, `$2`, …
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, parameters: Sequence[object]) -> None:
        self._cursor = cursor
        self._parameters = parameters
        self._is_open = False

    def value(self, node: Node) -> str | int | float | None:
        """Return the text or number that an expression stands for; None if it is none, null or not constant."""
        found: object = None
        if node["type"] == "VALUE_CONSTANT":
            found = _literal(node)
        elif node["class"] == "PARAMETER":
            found = self._parameter(node)
        elif node["class"] == "CAST" or _is_constant(node):
            found = self._evaluate(node) if _is_constant(node) else None
        if isinstance(found, Decimal):
            found = float(found)
        if isinstance(found, bool) or not isinstance(found, str | int | float):
            return None
        return None if isinstance(found, float) and math.isnan(found) else found

    def instant_us(self, node: Node) -> int | None:
        """Return the epoch microseconds that an expression stands for when compared with `__time`; None if unknown."""
        if node["class"] == "PARAMETER":
            return _instant_of(self._parameter(node))
        literal = node["child"] if _is_plain_cast(node) else node
        if literal["type"] == "VALUE_CONSTANT" and literal["literal"].get("kind") == "STRING":
            text = str(literal["literal"]["text"])
            if _INSTANT.fullmatch(text):
                return _cut_to_day(node, _instant_of_text(text))
        if not _is_constant(node):
            return None
        found = self._evaluate(call("epoch_us", [cast(node, "TIMESTAMP WITH TIME ZONE")]))
        return found if isinstance(found, int) else None

    def _parameter(self, node: Node) -> object:
        place = str(node["identifier"])
        if place.isdigit() and 1 <= int(place) <= len(self._parameters):
            return self._parameters[int(place) - 1]
        return None

    def _evaluate(self, node: Node) -> object:
        import duckdb

        if not self._is_open:
            self._cursor.execute("BEGIN TRANSACTION")
            self._is_open = True
        try:
            found = self._cursor.execute(unparse(self._cursor, select_of([node]))).fetchall()
        except duckdb.Error:
            # The statement itself will fail the same way, with its own message, in a transaction of its own.
            self._cursor.execute("ROLLBACK")
            self._is_open = False
            return None
        return found[0][0]


def _literal(node: Node) -> object:
    literal = node["literal"]
    kind, text = literal.get("kind"), literal.get("text")
    if kind == "STRING":
        return text
    if kind == "INTEGER":
        return int(text)
    if kind in {"NUMERIC", "FLOAT", "DECIMAL"}:
        return float(text)
    return None


def _is_plain_cast(node: Node) -> bool:
    return node["class"] == "CAST" and str(node["type_expr"].get("type_name", "")).lower() in {
        "date",
        "timestamp",
        "timestamptz",
        "timestamp with time zone",
    }


def _cut_to_day(node: Node, at_us: int | None) -> int | None:
    if at_us is None or node["class"] != "CAST" or node["type_expr"]["type_name"].lower() != "date":
        return at_us
    return at_us - at_us % 86_400_000_000


def _is_constant(node: Node) -> bool:
    for part in walk(node):
        kind = part.get("class")
        if kind == "COLUMN_REF" and str(part["column_names"][0]).lower() in CLOCK_WORDS:
            continue
        if kind is not None and kind not in ROW_EXPRESSIONS:
            return False
        if kind == "FUNCTION" and (
            str(part["function_name"]).lower() in _VOLATILE or len(arguments(part)) > 8
        ):
            return False
    return True


def _instant_of_text(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return _instant_of(moment)


def _instant_of(value: object) -> int | None:
    if isinstance(value, str):
        return _instant_of_text(value) if _INSTANT.fullmatch(value) else None
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (datetime(value.year, value.month, value.day, tzinfo=UTC) - _EPOCH) // _MICROSECOND
    return None
