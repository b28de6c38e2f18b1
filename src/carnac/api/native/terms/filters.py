"""Druid's filters as conditions of the engine's SQL, for native queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from carnac.api.native.terms.dimensions import extracted, of_dimension
from carnac.api.native.terms.expressions import compile_expression
from carnac.api.native.terms.ordering import sort_key
from carnac.api.native.terms.scopes import Scope
from carnac.api.native.terms.texts import Texts, like
from carnac.api.native.terms.values import (
    EACH,
    TIME_SQL,
    TYPES_SAID,
    Sql,
    at_ms,
    element,
    literal,
    sql_type,
    to_bool,
    to_double,
    to_long,
    to_text,
)
from carnac.specs.druid.blocks import said
from carnac.specs.druid.filters import NUMBER, FilterCompiler, FilterDialect

FLOAT_MAX = 3.4028234663852886e38
"""The largest number that a float holds."""
TIME_MAX_MS = 1 << 52
"""Numbers beyond are no times of rows."""


def compile_filter(block: object, scope: Scope) -> str | None:
    """Return the condition; None: there is none.

    Raises:
        Invalid: It is no filter, or not supported.
    """
    return None if block is None else filters_of(scope).compile(block)


def filters_of(scope: Scope) -> FilterCompiler[Sql]:
    """Return the reader of filters on columns of a scope."""
    return FilterCompiler(_Engine(scope), is_strict=False)


class _Engine(Texts, FilterDialect[Sql]):
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def column(self, spec: object, extraction: object) -> Sql:
        return extracted(of_dimension(spec, self._scope), extraction, self._scope)

    def any_of(self, value: Sql, test: Callable[[Sql], str]) -> str:
        if not value.is_array:
            return test(value)
        each = f"lambda {EACH}: {test(Sql(EACH, element(value.kind)))}"
        tested = f"list_transform({value.text}, {each})"
        all_known = f"len({value.text}) > 0 AND list_count({tested}) = len({value.text})"
        return f"CASE WHEN list_contains({tested}, true) THEN true WHEN {all_known} THEN false END"

    def is_null(self, value: Sql) -> str:
        text = value.text
        if value.kind != "array<string>":
            return f"({text} IS NULL)"
        return f"({text} IS NULL OR len({text}) = 0 OR list_count({text}) < len({text}))"

    def is_number(self, value: Sql) -> bool:
        return value.is_number and value.kind != "bool"

    def operands(self, left: Sql, number: float) -> tuple[str, str]:
        if left.is_time and isinstance(number, int) and abs(number) < TIME_MAX_MS:
            return TIME_SQL, at_ms(number)
        if left.kind == "float":
            return left.text, _as_float(number)
        if left.kind == "long" and isinstance(number, int):
            return left.text, literal(number).text
        return self.double(left), literal(float(number)).text

    def double(self, value: Sql) -> str:
        found = to_double(value).text
        if value.is_number:
            return found
        return f"CASE WHEN regexp_full_match({self.text(value)}, '{NUMBER}') THEN {found} END"

    def compare_by(self, ordering: str, left: Sql, operator: str, value: object) -> str:
        keys = (sort_key(of, ordering) for of in (to_text(left), literal(said(value))))
        return f"({f' {operator} '.join(keys)})"

    def equals_array(self, value: Sql, kind: str, items: list[Any]) -> str:
        listed = ", ".join(literal(one).text for one in items)
        return f"({value.text} = CAST([{listed}] AS {sql_type(TYPES_SAID[kind])}))"

    def within(self, value: Sql, start_ms: int, end_ms: int) -> str:
        if value.is_time:
            return f"({TIME_SQL} >= {at_ms(start_ms)} AND {TIME_SQL} < {at_ms(end_ms)})"
        at = to_long(value).text
        return f"({at} >= {start_ms} AND {at} < {end_ms})"

    def like(self, value: Sql, pattern: str, escape: str | None) -> str:
        return like(value, pattern, escape).text

    def expression(self, text: object) -> str:
        found = compile_expression(text, self._scope.find)
        return self.any_of(found, lambda one: to_bool(one).text)


def _as_float(number: float) -> str:
    """Return a number as the float next to it, infinite if there is none so large."""
    value = float(number)
    nearest = math.copysign(math.inf, value) if abs(value) > FLOAT_MAX else value
    return f"CAST({literal(nearest).text} AS FLOAT)"
