"""Buckets and parts of `__time` in UTC, computed without the rules of time zones.

DuckDB computes `date_trunc`, `date_part` and casts of a TIMESTAMPTZ by the calendar of the session's time zone, which
is UTC here: ten times what the same costs for a TIMESTAMP, which is arithmetic. So `__time` becomes the TIMESTAMP of
the same microseconds inside of these functions, and a bucket becomes a TIMESTAMPTZ again. A `time_bucket` whose width
is constant and has no months is a remainder of microseconds. Times from year 1 to 9999, which are those that a store
has, give the same values and types. Whatever else stands there, `__time AT TIME ZONE …` say, keeps its rules.

In WHERE only parts are rewritten: DuckDB makes ranges of time of the other conditions, and skips row groups by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.time.intervals import MIN_MS
from carnac.query.folding import Constants
from carnac.query.syntax import NOWHERE, Node, arguments, call, cast, constant, select_of, unparse

if TYPE_CHECKING:
    import duckdb

    from carnac.query.relations import Scope

_CLOCK_UNITS = frozenset({"microsecond", "millisecond", "second", "minute", "hour"})
_CALENDAR_UNITS = frozenset(
    {"day", "week", "month", "quarter", "year", "decade", "century", "millennium", "isoyear"}
)
_UNITS = _CLOCK_UNITS | _CALENDAR_UNITS
_PARTS = _UNITS | {"dow", "isodow", "doy", "weekday", "yearweek", "dayofweek", "dayofyear"}
_PART_FUNCTIONS = _UNITS | {
    "dayname",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "isodow",
    "monthname",
    "weekday",
    "weekofyear",
    "yearweek",
}
ROW_FUNCTIONS = _PART_FUNCTIONS | {
    "date_trunc",
    "datetrunc",
    "date_part",
    "datepart",
    "time_bucket",
    "epoch_us",
    "epoch_ms",
    "epoch",
    "make_timestamp",
    "make_timestamptz",
    "add",
    "subtract",
    "mod",
}
"""Functions of times, and those that they are rewritten to: one value for each row, always the same."""
_PLAIN_CASTS = {"date", "timestamp"}
_BUCKET_ORIGIN_US = 946_857_600_000_000
"""2000-01-03, a Monday, at which a bucket of DuckDB's `time_bucket` starts."""
_MAX_PLAIN_WIDTH_US = 366 * 86_400_000_000

_FLOOR = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/
    | (?P<floor>\b(?:floor|(?P<ceil>ceil|ceiling))\s*\() | (?P<open>\()
    | (?P<to>\bto\s+(?P<unit>[a-z]+)\s*(?=\))) | (?P<close>\))""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
PERIODS = {
    "second": "PT1S",
    "minute": "PT1M",
    "hour": "PT1H",
    "day": "P1D",
    "week": "P1W",
    "month": "P1M",
    "quarter": "P3M",
    "year": "P1Y",
}
"""The period of each unit of `FLOOR(x TO unit)`."""
_MAY_FLOOR = re.compile(
    r"\b(?:floor|ceil|ceiling)\s*\(.*\bto\s+[a-z]+\s*\)", re.IGNORECASE | re.DOTALL
)


def without_floor_to(sql: str) -> str:
    """Return the statement without Druid's `FLOOR(x TO unit)` and `CEIL(x TO unit)`, which DuckDB does not parse.

    The first becomes `date_trunc('unit', x)`, the second Druid's `TIME_CEIL(x, period)`.
    """
    if _MAY_FLOOR.search(sql) is None:
        return sql
    opened: list[tuple[tuple[int, int], bool] | None] = []
    edits: list[tuple[int, int, str]] = []
    for found in _FLOOR.finditer(sql):
        if found["floor"] or found["open"]:
            opened.append((found.span(), bool(found["ceil"])) if found["floor"] else None)
        elif found["to"] and opened and opened[-1] is not None:
            unit, (place, is_ceil) = found["unit"].lower(), opened[-1]
            edits.append((*place, "TIME_CEIL(" if is_ceil else f"date_trunc('{unit}', "))
            edits.append((*found.span(), f", '{PERIODS.get(unit, unit)}'" if is_ceil else ""))
        elif found["close"] and opened:
            opened.pop()
    for start, end, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def rewrite_buckets(
    cursor: duckdb.DuckDBPyConnection,
    selects: Sequence[tuple[Node, Scope]],
    constants: Constants,
) -> None:
    """Rewrite, in place, buckets and parts of `__time`; columns without a name keep the one that DuckDB gives them."""
    for select, scope in selects:
        if _renames_time(select, scope):
            continue
        for item in select["select_list"]:
            found = list(_rewritable(item, scope))
            if not found:
                continue
            if not item["alias"]:
                item["alias"] = unparse(cursor, select_of([item])).removeprefix("SELECT ")
            _rewrite_all(found, constants)
        for key in ("group_expressions", "having", "qualify", "modifiers"):
            _rewrite_all(_rewritable(select[key], scope), constants)
        found = [one for one in _rewritable(select["where_clause"], scope) if _is_part(one[0])]
        _rewrite_all(found, constants)


def _renames_time(select: Node, scope: Scope) -> bool:
    """Whether something else is called `__time` in the select, which ORDER BY, say, may mean by that name."""
    return any(
        str(item.get("alias", "")).lower() == TIME_COLUMN and not _is_time(item, scope)
        for item in select["select_list"]
    )


def _rewritable(part: Any, scope: Scope) -> Iterator[tuple[Node, Node]]:
    """Yield what is computed from `__time` itself, and that `__time`, outside of subqueries and lambdas."""
    stack = [part]
    while stack:
        one = stack.pop()
        if isinstance(one, list):
            stack.extend(one)
        elif isinstance(one, dict) and one.get("class") not in {"SUBQUERY", "LAMBDA"}:
            operand = _operand(one)
            if operand is not None and _is_time(operand, scope):
                yield one, operand
            else:
                stack.extend(one.values())


def _operand(node: Node) -> Node | None:
    """Return what a bucket, a part or a plain cast is computed from; None: the node is none of them."""
    if node.get("class") == "CAST":
        kind = str(node["type_expr"].get("type_name", "")).lower()
        return node["child"] if kind in _PLAIN_CASTS and not node["try_cast"] else None
    if node.get("class") != "FUNCTION" or node["schema"] or node["catalog"]:
        return None
    name, args = str(node["function_name"]).lower(), arguments(node)
    if name in {"date_trunc", "datetrunc", "date_part", "datepart"} and len(args) == 2:
        units = _UNITS if name.endswith("trunc") else _PARTS
        return args[1] if _unit(args[0]) in units else None
    if name == "time_bucket" and len(args) == 2:
        return args[1]
    return args[0] if name in _PART_FUNCTIONS and len(args) == 1 else None


def _unit(node: Node) -> str:
    literal = node.get("literal") or {}
    if literal.get("kind") != "STRING":
        return ""
    text = str(literal["text"]).lower()
    return text if text in _PARTS else text.removesuffix("s")


def _is_part(node: Node) -> bool:
    name = str(node.get("function_name", "")).lower()
    return name in _PART_FUNCTIONS or name in {"date_part", "datepart"}


def _is_time(node: Node, scope: Scope) -> bool:
    return node.get("class") == "COLUMN_REF" and any(
        relation.datasource and scope.resolve(node["column_names"], relation) == TIME_COLUMN
        for relation in scope.relations
    )


def _rewrite_all(found: Iterable[tuple[Node, Node]], constants: Constants) -> None:
    for node, operand in list(found):
        new = _rewritten(node, operand, constants)
        kept = {key: node[key] for key in NOWHERE}
        node.clear()
        node.update(new | kept)


def _rewritten(node: Node, operand: Node, constants: Constants) -> Node:
    micros = call("epoch_us", [operand])
    plain = call("make_timestamp", [micros])
    if node["class"] == "CAST":
        is_date = str(node["type_expr"]["type_name"]).lower() == "date"
        return cast(plain, "DATE") if is_date else plain
    name, args = str(node["function_name"]).lower(), arguments(node)
    if name == "time_bucket":
        width_us = _width_us(args[0], constants)
        if width_us is not None:
            return call("make_timestamptz", [_floored(micros, width_us)])
    others = [plain if arg is operand else arg for arg in args]
    new = call(name, others)
    if _is_part(node):
        return new
    return call("make_timestamptz", [call("epoch_us", [new])])


def _width_us(interval: Node, constants: Constants) -> int | None:
    """Return the microseconds of a constant interval without months; None if it is none, or is not for sure."""
    epoch = constants.value(call("epoch_us", [cast(interval, "INTERVAL")]))
    months = constants.value(call("date_part", [constant("STRING", "month"), interval]))
    years = constants.value(call("date_part", [constant("STRING", "year"), interval]))
    if not isinstance(epoch, int) or months != 0 or years != 0:
        return None
    return epoch if 0 < epoch <= _MAX_PLAIN_WIDTH_US else None


def _floored(micros: Node, width_us: int) -> Node:
    """Return `micros` less what they are past the start of their bucket, counted from before the earliest time."""
    origin_us = _BUCKET_ORIGIN_US - -(-(_BUCKET_ORIGIN_US - MIN_MS * 1000) // width_us) * width_us
    since = call("add", [micros, constant("INTEGER", str(-origin_us))])
    over = call("mod", [since, constant("INTEGER", str(width_us))])
    return call("subtract", [micros, over])
