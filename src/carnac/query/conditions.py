"""Conditions of a statement as predicates that segments can be held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from carnac.core.pruning.predicates import (
    ANYTHING,
    MAX_SET,
    Compare,
    IsNull,
    OneOf,
    Op,
    Predicate,
    StartsWith,
    all_of,
    any_of,
)
from carnac.core.segments.segment import TIME_COLUMN
from carnac.query.folding import Constants
from carnac.query.syntax import Node, arguments

_OPS = {
    "COMPARE_EQUAL": Op.EQ,
    "COMPARE_NOT_DISTINCT_FROM": Op.EQ,
    "COMPARE_LESSTHAN": Op.LT,
    "COMPARE_LESSTHANOREQUALTO": Op.LE,
    "COMPARE_GREATERTHAN": Op.GT,
    "COMPARE_GREATERTHANOREQUALTO": Op.GE,
}
_SWAPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ}
_NEGATED = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}
_DAY_US = 86_400_000_000
_UNIT_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": _DAY_US,
    "week": 7 * _DAY_US,
    "month": 31 * _DAY_US,
    "quarter": 92 * _DAY_US,
    "year": 366 * _DAY_US,
}
"""The longest that each unit of date_trunc can be."""
_LIKE = {"~~", "^@", "starts_with", "prefix"}

Resolve = Callable[[list[str]], str | None]


class Conditions:
    """Translates conditions on one relation.

    Args:
        resolve: Gives the relation's column that a column reference means, or None.
    """

    def __init__(self, resolve: Resolve, constants: Constants) -> None:
        self._resolve = resolve
        self._constants = constants

    def translate(self, node: Node, *, is_negated: bool = False) -> Predicate:
        """Return what the condition (or its negation) is known to say: implied by it, never stronger."""
        kind = node["type"]
        if kind in {"CONJUNCTION_AND", "CONJUNCTION_OR"}:
            parts = [self.translate(child, is_negated=is_negated) for child in node["children"]]
            return all_of(parts) if (kind == "CONJUNCTION_AND") != is_negated else any_of(parts)
        if kind == "OPERATOR_NOT":
            return self.translate(node["children"][0], is_negated=not is_negated)
        if node["class"] == "COMPARISON":
            return self._comparison(node, is_negated=is_negated)
        if kind == "COMPARE_BETWEEN":
            low = self._compare(node["input"], Op.LT if is_negated else Op.GE, node["lower"])
            high = self._compare(node["input"], Op.GT if is_negated else Op.LE, node["upper"])
            return any_of([low, high]) if is_negated else all_of([low, high])
        if kind in {"OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"}:
            column = self._column(node["children"][0])
            wanted = (kind == "OPERATOR_IS_NULL") != is_negated
            return ANYTHING if column is None else IsNull(column, wanted)
        if kind in {"COMPARE_IN", "COMPARE_NOT_IN"}:
            return (
                ANYTHING
                if (kind == "COMPARE_NOT_IN") != is_negated
                else self._one_of(node["children"])
            )
        if kind == "FUNCTION" and node["function_name"] in _LIKE and not is_negated:
            return self._starts_with(node)
        if (
            kind == "VALUE_CONSTANT"
            and node["literal"] == {"kind": "BOOLEAN", "text": "false"}
            and not is_negated
        ):
            return any_of([])
        return ANYTHING

    def _comparison(self, node: Node, *, is_negated: bool) -> Predicate:
        op = _OPS.get(node["type"])
        if node["type"] == "COMPARE_NOTEQUAL" and is_negated:
            op, is_negated = Op.EQ, False
        if op is None or (is_negated and op not in _NEGATED):
            return ANYTHING
        if is_negated:
            op = _NEGATED[op]
        found = self._compare(node["left"], op, node["right"])
        return (
            found if found != ANYTHING else self._compare(node["right"], _SWAPPED[op], node["left"])
        )

    def _compare(self, left: Node, op: Op, right: Node) -> Predicate:
        column = self._column(left)
        if column is not None and column != TIME_COLUMN:
            value = self._constants.value(right)
            return ANYTHING if value is None else Compare(column, op, value)
        width_us = self._time_width(left)
        if width_us is None:
            return ANYTHING
        at_us = self._constants.instant_us(right)
        return ANYTHING if at_us is None else _floored(op, at_us, width_us)

    def _one_of(self, children: list[Node]) -> Predicate:
        operand, options = children[0], children[1:]
        if len(options) > MAX_SET:
            return self._within(operand, options)
        column = self._column(operand)
        if column is None or column == TIME_COLUMN:
            return any_of(self._compare(operand, Op.EQ, option) for option in options)
        values = [None if _is_null(option) else self._constants.value(option) for option in options]
        if any(
            value is None and not _is_null(option)
            for value, option in zip(values, options, strict=True)
        ):
            return ANYTHING
        return OneOf(column, frozenset(value for value in values if value is not None))

    def _within(self, operand: Node, options: Sequence[Node]) -> Predicate:
        """Return that an operand lies between the least and the greatest option; `ANYTHING` if they do not compare."""
        known = [option for option in options if not _is_null(option)]
        if any(option["class"] == "FUNCTION" for option in known):
            return ANYTHING  # DuckDB would compute them one by one
        lower = []
        for option in known:
            bound = self._compare(operand, Op.GE, option)
            if not isinstance(bound, Compare):
                return ANYTHING
            lower.append(bound)
        values = [one.value for one in lower]
        # a decimal is known as a double, which may lie on the other side of a whole number than the decimal does
        if len(set(map(type, values))) != 1:
            return ANYTHING
        least, most = min(values), max(values)
        upper = self._compare(operand, Op.LE, known[values.index(most)])
        return all_of([lower[values.index(least)], upper])

    def _starts_with(self, node: Node) -> Predicate:
        operand, pattern = arguments(node)
        column = self._column(operand)
        text = self._constants.value(pattern) if column not in {None, TIME_COLUMN} else None
        if column is None or not isinstance(text, str):
            return ANYTHING
        if node["function_name"] != "~~":
            return StartsWith(column, text)
        wild = min((place for place in map(text.find, "%_\\") if place >= 0), default=None)
        return Compare(column, Op.EQ, text) if wild is None else StartsWith(column, text[:wild])

    def _column(self, node: Node) -> str | None:
        return self._resolve(node["column_names"]) if node["class"] == "COLUMN_REF" else None

    def _time_width(self, node: Node) -> int | None:
        """Return by how many microseconds at most an expression rounds `__time` down; None if it does anything else."""
        if node["class"] == "COLUMN_REF":
            return 0 if self._column(node) == TIME_COLUMN else None
        if node["class"] == "CAST":
            name = node["type_expr"].get("type_name", "").lower()
            width_us = {
                "date": _DAY_US,
                "timestamp": 0,
                "timestamptz": 0,
                "timestamp with time zone": 0,
            }.get(name)
            inner = self._time_width(node["child"])
            return None if width_us is None or inner is None else width_us + inner
        if node["class"] == "FUNCTION" and node["function_name"] in {"date_trunc", "datetrunc"}:
            unit, operand = arguments(node)
            name = self._constants.value(unit)
            width_us = (
                _UNIT_US.get(name.lower().removesuffix("s")) if isinstance(name, str) else None
            )
            inner = self._time_width(operand)
            return None if width_us is None or inner is None else width_us + inner
        return None


def _floored(op: Op, at_us: int, width_us: int) -> Predicate:
    """Return what `floor(__time) op at_us` says of `__time`, where floor takes off less than `width_us`."""
    if width_us == 0:
        return Compare(TIME_COLUMN, op, at_us)
    if width_us >= _DAY_US:  # the other operand may be a date, which has no time of day
        at_us -= at_us % _DAY_US
    lower, upper = Compare(TIME_COLUMN, Op.GE, at_us), Compare(TIME_COLUMN, Op.LT, at_us + width_us)
    if op is Op.EQ:
        return all_of([lower, upper])
    return lower if op in {Op.GE, Op.GT} else upper


def _is_null(node: Node) -> bool:
    return node["type"] == "VALUE_CONSTANT" and str(node["literal"].get("kind")).startswith("NULL")
