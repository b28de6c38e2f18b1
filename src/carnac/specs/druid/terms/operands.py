"""Conditions on one value of a column, which can stand wherever a condition can, and the operands of comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from carnac.core.quoting import quote_text
from carnac.core.texts import short
from carnac.errors import Invalid
from carnac.specs.druid.blocks import Block, block_of, flag_of, list_of, refused, said
from carnac.specs.druid.terms.ordering import sort_key
from carnac.specs.druid.terms.texts import matches
from carnac.specs.druid.terms.values import (
    EACH,
    TIME_SQL,
    TYPES_SAID,
    Sql,
    at_ms,
    element,
    literal,
    sql_type,
    to_double,
    to_long,
    to_text,
)

NUMBER = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
"""The texts that are numbers: not those with spaces around them, and no words such as `NaN`."""
FLOAT_MAX = 3.4028234663852886e38
"""The largest number that a float holds."""
TIME_MAX_MS = 1 << 52
"""Numbers beyond are no times of rows."""
_SEARCHES = ("contains", "insensitive_contains", "fragment", "regex", "all")


def text(value: Sql) -> str:
    """Return a value as text: conditions are `true` and `false`.

    Raises:
        Invalid: It holds several values.
    """
    if value.is_array:
        raise Invalid("texts of multi-value columns cannot be compared; write an expression")
    return to_text(value).text


def any_of(value: Sql, test: Callable[[Sql], str]) -> str:
    """Return whether a value passes; of several, whether one of them does."""
    if not value.is_array:
        return test(value)
    each = f"lambda {EACH}: {test(Sql(EACH, element(value.kind)))}"
    tested = f"list_transform({value.text}, {each})"
    all_known = f"len({value.text}) > 0 AND list_count({tested}) = len({value.text})"
    return f"CASE WHEN list_contains({tested}, true) THEN true WHEN {all_known} THEN false END"


def is_null(value: Sql) -> str:
    """Return whether a value is null, or one of several is, or there is none."""
    if value.kind != "array<string>":
        return f"({value.text} IS NULL)"
    listed = value.text
    return f"({listed} IS NULL OR len({listed}) = 0 OR list_count({listed}) < len({listed}))"


def is_number(value: Sql) -> bool:
    """Whether a value is compared as a number where a filter does not say."""
    return value.is_number and value.kind != "bool"


def operands(left: Sql, number: float) -> tuple[str, str]:
    """Return a value and a number as they are compared: whole numbers as such where the value is one."""
    if left.is_time and isinstance(number, int) and abs(number) < TIME_MAX_MS:
        return TIME_SQL, at_ms(number)
    if left.kind == "float":
        return left.text, _as_float(number)
    if left.kind == "long" and isinstance(number, int):
        return left.text, literal(number).text
    return double(left), literal(float(number)).text


def double(value: Sql) -> str:
    """Return a value as a double; null: it is no number."""
    found = to_double(value).text
    if value.is_number:
        return found
    return f"CASE WHEN regexp_full_match({text(value)}, '{NUMBER}') THEN {found} END"


def compare_by(ordering: str, left: Sql, operator: str, value: object) -> str:
    """Return a comparison in an order of Druid other than `lexicographic` and `numeric`."""
    keys = (sort_key(of, ordering) for of in (to_text(left), literal(said(value))))
    return f"({f' {operator} '.join(keys)})"


def equals_array(value: Sql, kind: str, items: list[Any]) -> str:
    """Return whether an array has just these values."""
    listed = ", ".join(literal(one).text for one in items)
    return f"({value.text} = CAST([{listed}] AS {sql_type(TYPES_SAID[kind])}))"


def within(value: Sql, start_ms: int, end_ms: int) -> str:
    """Return whether a time lies in an interval."""
    if value.is_time:
        return f"({TIME_SQL} >= {at_ms(start_ms)} AND {TIME_SQL} < {at_ms(end_ms)})"
    at = to_long(value).text
    return f"({at} >= {start_ms} AND {at} < {end_ms})"


def _as_float(number: float) -> str:
    """Return a number as the float next to it, infinite if there is none so large."""
    value = float(number)
    nearest = math.copysign(math.inf, value) if abs(value) > FLOAT_MAX else value
    return f"CAST({literal(nearest).text} AS FLOAT)"


def search_test(value: object) -> Callable[[Sql], str]:
    """Return the test that a search query makes of a value.

    Raises:
        Invalid: It is no search query.
    """
    query = block_of(value, "query")
    kind = str(query.get("type"))
    if kind == "all":
        return lambda one: f"({text(one)} IS NOT NULL)"
    if kind == "regex":
        pattern = pattern_of(query)
        return lambda one: matches(text(one), pattern)
    if kind not in _SEARCHES:
        raise refused(query.get("type"), "search query", _SEARCHES, {})
    parts: list[Any] = list_of(query, "values") if kind == "fragment" else [query.get("value")]
    if not parts or not all(isinstance(part, str) for part in parts):
        raise Invalid(f"a search query of type {kind} needs a text to look for")
    exact = kind != "insensitive_contains" and flag_of(query, "caseSensitive")

    def test(one: Sql) -> str:
        found = text(one) if exact else f"lower({text(one)})"
        wanted = (quote_text(part if exact else part.lower()) for part in parts)
        return f"({' AND '.join(f'contains({found}, {part})' for part in wanted)})"

    return test


def pattern_of(block: Block) -> str:
    """Return the pattern of a filter or a search query; raises Invalid."""
    value = block.get("pattern")
    if not isinstance(value, str):
        raise Invalid(f"{block['type']} needs pattern as a text, not {short(value)}")
    return value
