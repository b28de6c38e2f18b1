"""Druid's filters as conditions of Spark SQL, for specs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from carnac.core.json_text import parse_json
from carnac.errors import Invalid
from carnac.specs.druid.blocks import said
from carnac.specs.druid.expressions import CompiledExpression, compile_condition
from carnac.specs.druid.expressions.compiler import column_sql
from carnac.specs.druid.expressions.texts import like_pattern
from carnac.specs.druid.expressions.values import (
    Sql,
    element_type,
    literal,
    quote_text,
    to_double,
    to_long,
    to_text,
)
from carnac.specs.druid.filters import NUMBER, FilterCompiler, FilterDialect


def compile_filter(
    block: Mapping[str, Any], types: Mapping[str, str] | None = None
) -> CompiledExpression:
    """Return one of Druid's filters as a condition of Spark SQL.

    Args:
        block: The filter.
        types: Types of the columns, as for `compile_expression`.

    Raises:
        Invalid: It is not a filter, or one that is not supported.
    """
    dialect = _Spark(types or {})
    sql = FilterCompiler(dialect, is_strict=True).compile(block)
    return CompiledExpression(sql, "bool", frozenset(dialect.inputs))


def write_filter(block: Mapping[str, Any]) -> str:
    """Return a filter of Druid as text, the same for the same filter; `read_condition` takes it.

    The meaning of a filter depends on the types of the columns: it is compiled where they are known.
    """
    return json.dumps(block, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_condition(text: str, types: Mapping[str, str]) -> str:
    """Return a condition of Spark SQL as it is, or a text of `write_filter` compiled for columns of these types.

    Raises:
        Invalid: It is a filter that is not supported, or none at all.
    """
    given = parse_condition(text)
    return given if isinstance(given, str) else compile_filter(given, types).sql


def parse_condition(text: str) -> str | dict[str, Any]:
    """Return a condition of Spark SQL as it is, or the filter that a text of `write_filter` is of.

    Raises:
        Invalid: It is written as a filter, and is not JSON.
    """
    return cast("dict[str, Any]", parse_json(text, "filter")) if text.startswith("{") else text


_ARRAYS = {
    "ARRAY<STRING>": "ARRAY<STRING>",
    "ARRAY<LONG>": "ARRAY<BIGINT>",
    "ARRAY<DOUBLE>": "ARRAY<DOUBLE>",
}


class _Spark(FilterDialect[Sql]):
    """Columns of these types, and those of them that were read."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self.types = types
        self.inputs: set[str] = set()

    def column(self, spec: object, extraction: object) -> Sql:
        if extraction is not None:
            raise Invalid("extractionFn is not supported in filters; write an expression filter")
        if isinstance(spec, Mapping):
            if spec.get("type", "default") != "default":
                raise Invalid(f"dimension spec '{spec.get('type')}' is not supported in filters")
            spec = spec.get("dimension")
        if not isinstance(spec, str):
            raise Invalid(f"a filter needs the name of a column, not {spec!r}")
        self.inputs.add(spec)
        return column_sql(spec, self.types)

    def any_of(self, value: Sql, test: Callable[[Sql], str]) -> str:
        if not value.is_array:
            return test(value)
        passed = f"exists({value.text}, e -> {test(Sql('e', element_type(value.type)))})"
        return f"CASE WHEN array_size({value.text}) > 0 THEN {passed} END"

    def is_null(self, value: Sql) -> str:
        if not value.is_array:
            return f"({value.text} IS NULL)"
        empty = f"array_size({value.text}) = 0 OR exists({value.text}, e -> e IS NULL)"
        return f"({value.text} IS NULL OR {empty})"

    def is_number(self, value: Sql) -> bool:
        return value.type in {"long", "double"}

    def text(self, value: Sql) -> str:
        if value.is_array:
            raise Invalid("texts of multi-value columns cannot be compared; write an expression")
        if value.type == "bool":
            return f"CAST({value.text} AS STRING)"
        return to_text(value).text

    def quote(self, text: str) -> str:
        return quote_text(text)

    def operands(self, left: Sql, number: float) -> tuple[str, str]:
        if left.type == "long" and isinstance(number, int):
            return left.text, literal(number).text
        return self.double(left), literal(float(number)).text

    def double(self, value: Sql) -> str:
        if value.type in {"long", "double", "bool"}:
            return to_double(value).text
        text = self.text(value)
        return (
            f"CASE WHEN {text} RLIKE {quote_text(f'^{NUMBER}$')} THEN {to_double(value).text} END"
        )

    def compare_by(self, ordering: str, left: Sql, operator: str, value: object) -> str:
        if ordering != "strlen":
            raise Invalid(
                f"ordering '{ordering}' of filter bound is not supported; use numeric or lexicographic"
            )
        text, other, strict = self.text(left), quote_text(said(value)), operator[0]
        return (
            f"(length({text}) {strict} length({other}) OR "
            f"(length({text}) = length({other}) AND {text} {operator} {other}))"
        )

    def equals_array(self, value: Sql, kind: str, items: list[Any]) -> str:
        listed = ", ".join(literal(one).text for one in items)
        return f"({value.text} = CAST(array({listed}) AS {_ARRAYS[kind]}))"

    def within(self, value: Sql, start_ms: int, end_ms: int) -> str:
        at = to_long(value).text
        return f"({at} >= {start_ms}L AND {at} < {end_ms}L)"

    def like(self, value: Sql, pattern: str, escape: str | None) -> str:
        return f"({self.text(value)} LIKE {quote_text(like_pattern(pattern, escape))})"

    def matches(self, value: Sql, pattern: str) -> str:
        return f"({self.text(value)} RLIKE {pattern})"

    def expression(self, text: object) -> str:
        compiled = compile_condition(str(text), self.types)
        self.inputs |= compiled.inputs
        return compiled.sql
