"""Druid's filters as conditions of SQL.

Nulls are as in Druid since version 28: a comparison with null is unknown, `not` of unknown is unknown, and unknown
rows are not kept. A filter on a multi-value column keeps a row if one of its values passes. Numbers are compared as
numbers where the column is one, or the filter says so; else columns are compared as texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise

from carnac.api.native.terms.dimensions import extracted, of_dimension
from carnac.api.native.terms.expressions import compile_expression, like
from carnac.api.native.terms.ordering import sort_key
from carnac.api.native.terms.reading import (
    Block,
    block_of,
    check_depth,
    list_of,
    refused,
    text_of,
)
from carnac.api.native.terms.scopes import Scope
from carnac.api.native.terms.searching import Test, as_text, search_test
from carnac.api.native.terms.times import instant
from carnac.api.native.terms.values import (
    EACH,
    TIME_SQL,
    TYPES_SAID,
    Sql,
    at_ms,
    element,
    literal,
    said,
    sql_type,
    to_bool,
    to_double,
    to_text,
)
from carnac.api.sql.requests import Unreadable
from carnac.core.quoting import quote_text
from carnac.core.texts import short
from carnac.core.time.intervals import parse_interval
from carnac.errors import Invalid
from carnac.specs.druid.patterns import check_pattern

ABSENT = {
    "javascript": "write it as an expression filter",
    "spatial": "compare the coordinates with range filters",
    "bloom": "use a filter of type in",
}

FLOAT_MAX = 3.4028234663852886e38
"""The largest number that a float holds."""
TIME_MAX_MS = 1 << 52
"""Numbers beyond are no times of rows."""


def compile_filter(block: object, scope: Scope) -> str | None:
    """Return the condition; None: there is none.

    Raises:
        Unreadable: It is no filter, or not supported.
    """
    return None if block is None else _compile(block, scope, 0)


def _compile(value: object, scope: Scope, depth: int) -> str:
    block = block_of(value, "a filter")
    check_depth(depth, "filters")
    kind = str(block.get("type"))
    if kind in {"and", "or"}:
        fields = list_of(block, "fields")
        if not fields:
            raise Unreadable(f"filter {kind} needs fields, a list that is not empty")
        return f"({f' {kind.upper()} '.join(_compile(one, scope, depth + 1) for one in fields)})"
    if kind in _NESTED:
        return _NESTED[kind].format(_compile(block.get("field"), scope, depth + 1))
    build = _LEAVES.get(kind)
    if build is None:
        raise refused(kind, "filter", (*_LEAVES, *_NESTED, "and", "or"), ABSENT)
    return build(block, scope)


_NESTED = {"not": "(NOT {})", "istrue": "({} IS TRUE)", "isfalse": "({} IS FALSE)"}


def _column(block: Block, scope: Scope) -> Sql:
    value = block.get("dimension", block.get("column"))
    return extracted(of_dimension(value, scope), block.get("extractionFn"), scope)


def any_of(value: Sql, test: Test) -> str:
    """Return whether a value passes; of several, whether one of them does."""
    if not value.is_array:
        return test(value)
    tested = f"list_transform({value.text}, lambda {EACH}: {test(Sql(EACH, element(value.kind)))})"
    all_known = f"len({value.text}) > 0 AND list_count({tested}) = len({value.text})"
    return f"CASE WHEN list_contains({tested}, true) THEN true WHEN {all_known} THEN false END"


def compare(left: Sql, operator: str, value: object, *, as_number: bool | None = None) -> str:
    """Return a comparison with a match value.

    Args:
        as_number: Whether to compare numbers; None: as the column is.
    """
    is_number = left.is_number and left.kind != "bool" if as_number is None else as_number
    if not is_number:
        return f"({as_text(left)} {operator} {quote_text(said(value))})"
    number = _number(value)
    if number is None:  # unknown of null, else false
        return f"({left.text} <> {left.text})"
    if left.is_time and isinstance(number.value, int) and abs(number.value) < TIME_MAX_MS:
        return f"({TIME_SQL} {operator} {at_ms(number.value)})"
    if left.kind == "float":
        return f"({left.text} {operator} {_as_float(number)})"
    if number.kind == "long" and left.kind == "long":
        return f"({left.text} {operator} {number.text})"
    return f"({to_double(left).text} {operator} {to_double(number).text})"


def _as_float(number: Sql) -> str:
    """Return a number as the float next to it, infinite if there is none so large."""
    value = float(number.value or 0)
    nearest = math.copysign(math.inf, value) if abs(value) > FLOAT_MAX else value
    return f"CAST({literal(nearest).text} AS FLOAT)"


def _compare_numeric(left: Sql, operator: str, value: object) -> str:
    """Return a comparison of numbers, before which all values that are none come, as texts."""
    is_below, is_number = operator in {"<", "<="}, _number(value) is not None
    if left.is_number:
        both = compare(left, operator, value, as_number=True)
        return both if is_number else f"({left.text} IS NOT NULL AND {not is_below})"
    text, number = as_text(left), to_double(left)
    if is_number:
        both = compare(number, operator, value, as_number=True)
        return f"CASE WHEN {text} IS NOT NULL THEN coalesce({both}, {is_below}) END"
    both = compare(left, operator, value, as_number=False)
    return f"CASE WHEN {number.text} IS NULL THEN {both} ELSE {not is_below} END"


def _number(value: object) -> Sql | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return literal(value)
    try:
        text = said(value)
        whole = float(text)
        is_long = whole.is_integer() and text.strip().lstrip("+-").isdigit()
        return literal(int(text) if is_long and abs(whole) < 1 << 63 else whole)
    except (ValueError, OverflowError):
        return None


def _match_kind(block: Block, name: str = "matchValueType") -> str | None:
    given = block.get(name)
    if given is None:
        return None
    kind = TYPES_SAID.get(str(given).upper())
    if kind is None:
        raise Unreadable(f"{name} {short(given)} is not known; use {', '.join(TYPES_SAID)}")
    return kind


def _as_number(kind: str | None) -> bool | None:
    return None if kind is None else kind in {"long", "double", "float"}


def is_null(value: Sql) -> str:
    """Return whether a value is null, or one of several is, or there is none."""
    if value.kind != "array<string>":
        return f"({value.text} IS NULL)"
    text = value.text
    return f"({text} IS NULL OR len({text}) = 0 OR list_count({text}) < len({text}))"


def _selector(block: Block, scope: Scope) -> str:
    column, value = _column(block, scope), block.get("value")
    if value is None:
        return is_null(column)
    return any_of(column, lambda one: compare(one, "=", value))


def _equals(block: Block, scope: Scope) -> str:
    column, value, kind = _column(block, scope), block.get("matchValue"), _match_kind(block)
    if value is None:
        raise Unreadable("filter equals needs matchValue; use the filter null for null")
    if kind is not None and kind.startswith("array<"):
        items = ", ".join(literal(one).text for one in list_of(block, "matchValue"))
        return f"({column.text} = CAST([{items}] AS {sql_type(kind)}))"  # type: ignore[arg-type]
    return any_of(column, lambda one: compare(one, "=", value, as_number=_as_number(kind)))


def _in(block: Block, scope: Scope) -> str:
    name = "values" if block.get("values") is not None else "sortedValues"
    if block.get(name) is None:
        raise Unreadable("filter in needs values as a list")
    column, values = _column(block, scope), list_of(block, name)
    present = [one for one in values if one is not None]
    as_number = _as_number(_match_kind(block))

    def test(one: Sql) -> str:
        if as_number or (as_number is None and one.is_number and one.kind != "bool"):
            return f"({' OR '.join(compare(one, '=', v, as_number=True) for v in present)})"
        return f"({as_text(one)} IN ({', '.join(quote_text(said(v)) for v in present)}))"

    tests = [any_of(column, test)] if present else []
    if len(present) < len(values):
        tests.append(is_null(column))
    return f"({' OR '.join(tests)})" if tests else "false"


def _bound(block: Block, scope: Scope) -> str:
    ordering = block.get("ordering") or ("alphanumeric" if block.get("alphaNumeric") else None)
    name = ordering.get("type") if isinstance(ordering, Mapping) else ordering
    name = str(name or "lexicographic").lower()
    column = _column(block, scope)

    def side(one: Sql, operator: str, value: object) -> str:
        if name == "numeric":
            return _compare_numeric(one, operator, value)
        if name == "lexicographic":
            return compare(one, operator, value, as_number=False)
        keys = (sort_key(of, name) for of in (to_text(one), literal(said(value))))
        return f"({f' {operator} '.join(keys)})"

    passed = any_of(column, _between(block, "Strict", side))
    return passed if block.get("lower") is not None else f"({passed} OR {is_null(column)})"


def _between(block: Block, ending: str, side: Callable[[Sql, str, object], str]) -> Test:
    lower, upper = block.get("lower"), block.get("upper")
    if lower is None and upper is None:
        raise Unreadable(f"filter {block['type']} needs lower or upper")
    low = ">" if block.get(f"lower{ending}") is True else ">="
    high = "<" if block.get(f"upper{ending}") is True else "<="

    def test(one: Sql) -> str:
        tests = [] if lower is None else [side(one, low, lower)]
        tests += [] if upper is None else [side(one, high, upper)]
        return f"({' AND '.join(tests)})"

    return test


def _range(block: Block, scope: Scope) -> str:
    as_number = _as_number(_match_kind(block))

    def side(one: Sql, operator: str, value: object) -> str:
        return compare(one, operator, value, as_number=as_number)

    return any_of(_column(block, scope), _between(block, "Open", side))


def _interval(block: Block, scope: Scope) -> str:
    column = _column(block, scope)
    try:
        within = [parse_interval(str(one)) for one in list_of(block, "intervals")]
    except Invalid as error:
        raise Unreadable(error.message) from None
    if not within:
        raise Unreadable("filter interval needs intervals, a list that is not empty")
    at = instant(column)
    tests = (f"({at} >= {at_ms(i.start_ms)} AND {at} < {at_ms(i.end_ms)})" for i in within)
    return f"({' OR '.join(tests)})"


def _like(block: Block, scope: Scope) -> str:
    pattern, escape = text_of(block, "pattern"), block.get("escape")
    return any_of(_column(block, scope), lambda one: like(one, pattern, escape).text)


def _regex(block: Block, scope: Scope) -> str:
    try:
        pattern = quote_text(check_pattern(text_of(block, "pattern")))
    except Invalid as error:
        raise Unreadable(error.message) from None
    return any_of(_column(block, scope), lambda one: f"regexp_matches({as_text(one)}, {pattern})")


def _search(block: Block, scope: Scope) -> str:
    return any_of(_column(block, scope), search_test(block.get("query")))


def _columns(block: Block, scope: Scope) -> str:
    columns = [of_dimension(one, scope) for one in list_of(block, "dimensions")]
    if len(columns) < 2:
        raise Unreadable("filter columnComparison needs two dimensions or more")
    tests = (f"{as_text(a)} IS NOT DISTINCT FROM {as_text(b)}" for a, b in pairwise(columns))
    return f"({' AND '.join(tests)})"


def _contains_element(block: Block, scope: Scope) -> str:
    value, kind = block.get("elementMatchValue"), _match_kind(block, "elementMatchValueType")
    column = _column(block, scope)
    if value is None:
        return is_null(column)
    return any_of(column, lambda one: compare(one, "=", value, as_number=_as_number(kind)))


def _extraction(block: Block, scope: Scope) -> str:
    return _selector(block, scope)


def _expression(block: Block, scope: Scope) -> str:
    found = compile_expression(block.get("expression"), scope.find)
    return any_of(found, lambda one: to_bool(one).text)


_LEAVES: Mapping[str, Callable[[Block, Scope], str]] = {
    "true": lambda _block, _scope: "true",
    "false": lambda _block, _scope: "false",
    "selector": _selector,
    "equals": _equals,
    "null": lambda block, scope: is_null(_column(block, scope)),
    "in": _in,
    "inType": _in,
    "bound": _bound,
    "range": _range,
    "interval": _interval,
    "like": _like,
    "regex": _regex,
    "search": _search,
    "columnComparison": _columns,
    "arrayContainsElement": _contains_element,
    "extraction": _extraction,
    "expression": _expression,
}
