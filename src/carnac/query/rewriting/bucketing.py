"""Buckets and parts of `__time` in UTC, computed without the rules of time zones.

DuckDB computes `date_trunc`, `date_part` and casts of a TIMESTAMPTZ by the calendar of the session's time zone, which
is UTC here: ten times what the same costs for a TIMESTAMP, which is arithmetic. So `__time` becomes the TIMESTAMP of
the same microseconds inside of these functions, and a bucket becomes a TIMESTAMPTZ again. A bucket whose width is
constant and has no months is the number of the bucket times its width, and GROUP BY takes the number alone: DuckDB
knows how many numbers there may be, and finds each group by its place. Times from year 1 to 9999, which are those that
a store has, give the same values and types. Other operands, `__time AT TIME ZONE …` say, keep their rules.

In WHERE only parts are rewritten: DuckDB makes ranges of time of the other conditions, and skips row groups by them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.time.intervals import MIN_MS
from carnac.query.folding import Constants
from carnac.query.syntax import (
    NOWHERE,
    Node,
    arguments,
    call,
    cast,
    constant,
    text_of,
    walk,
)

if TYPE_CHECKING:
    import duckdb

    from carnac.query.relations import Scope

_SECOND_US = 1_000_000
HOUR_US = 3_600 * _SECOND_US
_WIDTHS_US = {
    "second": _SECOND_US,
    "minute": 60 * _SECOND_US,
    "hour": HOUR_US,
    "day": 86_400 * _SECOND_US,
    "week": 7 * 86_400 * _SECOND_US,
}
_UNITS = _WIDTHS_US.keys() | {
    "microsecond", "millisecond", "month", "quarter", "year", "decade", "century", "millennium", "isoyear"
}  # fmt: skip
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


def rewrite_buckets(
    cursor: duckdb.DuckDBPyConnection,
    selects: Sequence[tuple[Node, Scope]],
    constants: Constants,
) -> None:
    """Rewrite, in place, buckets and parts of `__time`; columns without a name keep the one that DuckDB gives them."""
    for select, scope in selects:
        if _renames_time(select, scope):
            continue
        numbers: dict[int, Node] = {}
        for item in select["select_list"]:
            found = list(_rewritable(item, scope))
            if not found:
                continue
            if not item["alias"]:
                item["alias"] = text_of(cursor, item)
            _rewrite_all(found, constants, numbers)
        for key in ("group_expressions", "having", "qualify", "modifiers"):
            _rewrite_all(_rewritable(select[key], scope), constants, numbers)
        _group_by_numbers(select, scope, numbers)
        found = [one for one in _rewritable(select["where_clause"], scope) if _is_part(one[0])]
        _rewrite_all(found, constants, numbers)


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


def _rewrite_all(
    found: Iterable[tuple[Node, Node]], constants: Constants, numbers: dict[int, Node]
) -> None:
    """Rewrite the nodes that were found, in place.

    Args:
        numbers: Is filled with the numbers that GROUP BY may take in place of buckets, by the id of the bucket's node.
    """
    for node, operand in list(found):
        new, number = _rewritten(node, operand, constants)
        kept = {key: node[key] for key in NOWHERE}
        node.clear()
        node.update(new | kept)
        if number is not None:
            numbers[id(node)] = number


def _group_by_numbers(select: Node, scope: Scope, numbers: Mapping[int, Node]) -> None:
    """Let GROUP BY take numbers of buckets, of which what is selected, or ordered by, computes the buckets."""
    groups = select["group_expressions"]
    if len(select["group_sets"]) > 1 or any(map(_is_of_sets, walk(select))):
        return
    for place, group in enumerate(groups):
        number = numbers.get(id(_meant(group, select, scope)))
        if number is not None:
            groups[place] = copy.deepcopy(number)


def _meant(group: Node, select: Node, scope: Scope) -> Node | None:
    """Return the expression that one of GROUP BY means: itself, or one of the select list; None: it is not certain."""
    items = select["select_list"]
    literal = group.get("literal") or {}
    if literal.get("kind") == "INTEGER":
        place = int(literal["text"]) - 1
        return items[place] if 0 <= place < len(items) else None
    if group["class"] != "COLUMN_REF":
        return group
    name = str(group["column_names"][-1]).lower()
    if len(group["column_names"]) > 1 or any(
        one.columns is None or name in one.columns for one in scope.relations
    ):
        return None
    named = [item for item in items if str(item["alias"]).lower() == name]
    return named[0] if len(named) == 1 else None


def _is_of_sets(node: Node) -> bool:
    """Whether a node says by which expressions a row is grouped, which it names as they stand there."""
    return node.get("type") == "GROUPING_FUNCTION" or str(
        node.get("function_name", "")
    ).lower() in {"grouping", "grouping_id"}


def _rewritten(node: Node, operand: Node, constants: Constants) -> tuple[Node, Node | None]:
    """Return what a bucket or a part becomes, and the number of the bucket, if its width is constant."""
    micros = call("epoch_us", [operand])
    plain = call("make_timestamp", [micros])
    if node["class"] == "CAST":
        if str(node["type_expr"]["type_name"]).lower() != "date":
            return plain, None
        number, start = _numbered(micros, _WIDTHS_US["day"])
        return cast(call("make_timestamp", [start]), "DATE"), number
    name, args = str(node["function_name"]).lower(), arguments(node)
    width_us = None
    if name == "time_bucket":
        width_us = _width_us(args[0], constants)
    elif name in {"date_trunc", "datetrunc"}:
        width_us = _WIDTHS_US.get(_unit(args[0]))
    if width_us is not None:
        number, start = _numbered(micros, width_us)
        return call("make_timestamptz", [start]), number
    others = [plain if arg is operand else arg for arg in args]
    new = call(name, others)
    if _is_part(node):
        return new, None
    return call("make_timestamptz", [call("epoch_us", [new])]), None


def _width_us(interval: Node, constants: Constants) -> int | None:
    """Return the microseconds of a constant interval without months; None if it is none, or is not for sure."""
    epoch = constants.value(call("epoch_us", [cast(interval, "INTERVAL")]))
    months = constants.value(call("date_part", [constant("STRING", "month"), interval]))
    years = constants.value(call("date_part", [constant("STRING", "year"), interval]))
    if not isinstance(epoch, int) or months != 0 or years != 0:
        return None
    return epoch if 0 < epoch <= _MAX_PLAIN_WIDTH_US else None


def origin_us_of(width_us: int) -> int:
    """Return the start of bucket 0 of a width: before the earliest time, in microseconds."""
    before = -(-(_BUCKET_ORIGIN_US - MIN_MS * 1000) // width_us)
    return _BUCKET_ORIGIN_US - before * width_us


def _numbered(micros: Node, width_us: int) -> tuple[Node, Node]:
    """Return the number of a bucket, counted from before the earliest time, and the microseconds of its start."""
    origin_us = origin_us_of(width_us)
    number = operation("//", operation("+", micros, -origin_us), width_us)
    return number, operation("+", operation("*", number, width_us), origin_us)


def hour_sql(time: str) -> str:
    """Return the SQL of the number of the hour that a time lies in, as a narrow integer."""
    return f"CAST((epoch_us({time}) + {-origin_us_of(HOUR_US)}) // {HOUR_US} AS INTEGER)"


def operation(sign: str, left: Node, right: int) -> Node:
    """Return an expression and a number with a sign between them."""
    return call(sign, [left, constant("INTEGER", str(right))]) | {"is_operator": True}
