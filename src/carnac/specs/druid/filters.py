"""Druid's filters (JSON) as conditions of Spark SQL.

Nulls are as in Druid since version 28 (SQL-compatible): a comparison with null is unknown, `not` of
unknown is unknown, and unknown rows are not kept. A filter on a multi-value dimension keeps a row if
one of its values passes. Numbers are compared as numbers where the column is one (or the filter says
so); else the column is compared as text.

Source: Druid's documentation of query filters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from carnac.core.time.intervals import parse_interval
from carnac.errors import Invalid
from carnac.specs.druid.expressions import CompiledExpression, compile_condition
from carnac.specs.druid.expressions.compiler import column_sql
from carnac.specs.druid.expressions.texts import like_pattern
from carnac.specs.druid.expressions.values import (
    MAX_LONG,
    Sql,
    element_type,
    literal,
    quote_text,
    to_double,
    to_long,
    to_text,
)
from carnac.specs.druid.patterns import check_pattern
from carnac.specs.problems import suggest

MAX_DEPTH = 100
"""Deepest nesting of `and`, `or`, `not` that is read."""

_UNSUPPORTED = {
    "javascript": "write it as an expression",
    "extraction": "write it as an expression",
    "spatial": "compare the coordinates with range filters",
    "bloom": "it is for queries",
}


class _Filters:
    """The filters of one spec: types of the columns, and which columns were read."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self.types = types
        self.inputs: set[str] = set()

    def column(self, name: str) -> Sql:
        self.inputs.add(name)
        return column_sql(name, self.types)

    def on_value(self, name: str, test: Callable[[Sql], str]) -> str:
        """Return the test of a column; of an array, whether one of its values passes."""
        value = self.column(name)
        if not value.is_array:
            return test(value)
        return f"exists({value.text}, e -> {test(Sql('e', element_type(value.type)))})"


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
    filters = _Filters(types or {})
    return CompiledExpression(_compile(filters, block, 0), "bool", frozenset(filters.inputs))


def write_filter(block: Mapping[str, Any]) -> str:
    """Return a filter of Druid as text, the same for the same filter; `read_condition` takes it.

    The meaning of a filter depends on the types of the columns: it is compiled where they are known.
    """
    return json.dumps(block, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_condition(text: str, types: Mapping[str, str]) -> str:
    """Return a condition of Spark SQL as it is, or a text of `write_filter` compiled for columns of these types.

    Raises:
        Invalid: It is a filter that is not supported.
    """
    return compile_filter(json.loads(text), types).sql if text.startswith("{") else text


def _compile(filters: _Filters, block: object, depth: int) -> str:
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        raise Invalid("a filter must be an object with a type, such as selector")
    if depth > MAX_DEPTH:
        raise Invalid(f"filters are nested more than {MAX_DEPTH} deep")
    kind = block["type"]
    if kind in ("and", "or"):
        fields = _list(block, "fields")
        word = f" {kind.upper()} "
        return "(" + word.join(_compile(filters, field, depth + 1) for field in fields) + ")"
    if kind in _NESTED:
        return _NESTED[kind].format(_compile(filters, _get(block, "field"), depth + 1))
    if kind in _UNSUPPORTED:
        raise Invalid(f"filter type '{kind}' is not supported; {_UNSUPPORTED[kind]}")
    if kind not in _LEAVES:
        raise Invalid(f"filter type '{kind}' is not known{suggest(kind, FILTER_TYPES)}")
    if block.get("extractionFn") is not None:
        raise Invalid("extractionFn is not supported in filters; write an expression filter")
    build, fields_ = _LEAVES[kind]
    unknown = [
        name for name in block if name not in (*fields_, "type", "extractionFn", "filterTuning")
    ]
    if unknown:
        raise Invalid(f"filter {kind} has no field '{unknown[0]}'{suggest(unknown[0], fields_)}")
    return build(filters, block)


_NESTED = {"not": "(NOT {})", "istrue": "({} IS TRUE)", "isfalse": "({} IS FALSE)"}


def _get(block: Mapping[str, Any], *names: str) -> Any:
    for name in names:
        if block.get(name) is not None:
            return block[name]
    raise Invalid(f"filter {block['type']} needs {names[0]}")


def _list(block: Mapping[str, Any], name: str) -> list[Any]:
    value = _get(block, name)
    if not isinstance(value, list | tuple) or not value:
        raise Invalid(f"filter {block['type']} needs {name} as a list that is not empty")
    return list(value)


def _name(block: Mapping[str, Any]) -> str:
    """Return the column that a filter is on, given as a name or as a dimension spec."""
    name = _get(block, "dimension", "column")
    return _dimension(name)


def _dimension(value: object) -> str:
    if isinstance(value, Mapping):
        if value.get("type", "default") != "default":
            raise Invalid(f"dimension spec '{value.get('type')}' is not supported in filters")
        value = value.get("dimension")
    if not isinstance(value, str):
        raise Invalid(f"a filter needs the name of a column, not {value!r}")
    return value


def _number(value: object) -> Sql | None:
    """Return what a match value is as a number; None if it is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return literal(value)
    text = str(value)
    try:
        whole = int(text)
    except ValueError:
        pass
    else:
        if -MAX_LONG <= whole <= MAX_LONG:
            return literal(whole)
    try:
        return literal(float(text))
    except ValueError:
        return None


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _compare(left: Sql, operator: str, value: object, *, numeric: bool | None = None) -> str:
    """Return a comparison with a match value.

    Args:
        left: The column, or one of its values.
        operator: Of SQL.
        value: The match value; a number, or a text that may stand for one.
        numeric: Whether to compare numbers; None means as the column is.
    """
    as_number = left.type in ("long", "double") if numeric is None else numeric
    if not as_number:
        return f"({_as_text(left)} {operator} {quote_text(_text_of(value))})"
    number = _number(value)
    if number is None:
        return "CAST(NULL AS BOOLEAN)" if operator != "=" else "false"
    if number.type == "long" and left.type == "long":
        return f"({left.text} {operator} {number.text})"
    return f"({to_double(left).text} {operator} {to_double(number).text})"


def _as_text(value: Sql) -> str:
    """Return a column as filters see it: conditions are `true` and `false`, not 1 and 0."""
    if value.type == "bool":
        return f"CAST({value.text} AS STRING)"
    return to_text(value).text


def _selector(filters: _Filters, block: Mapping[str, Any]) -> str:
    value = block.get("value")
    if value is None:
        return _is_null(filters, _name(block))
    return filters.on_value(_name(block), lambda column: _compare(column, "=", value))


def _is_null(filters: _Filters, name: str) -> str:
    column = filters.column(name)
    if column.is_array:
        empty = f"array_size({column.text}) = 0 OR exists({column.text}, e -> e IS NULL)"
        return f"({column.text} IS NULL OR {empty})"
    return f"({column.text} IS NULL)"


def _match_type(block: Mapping[str, Any], name: str = "matchValueType") -> bool | None:
    """Return whether to compare numbers, texts (False), or as the column is (None)."""
    kind = block.get(name)
    if kind is None:
        return None
    upper = str(kind).upper()
    if upper.startswith("ARRAY"):
        raise Invalid(f"filter {block['type']} on whole arrays is not supported; use an expression")
    return upper in ("LONG", "DOUBLE", "FLOAT")


def _equals(filters: _Filters, block: Mapping[str, Any]) -> str:
    value, numeric = _get(block, "matchValue"), _match_type(block)
    return filters.on_value(
        _name(block), lambda column: _compare(column, "=", value, numeric=numeric)
    )


def _in(filters: _Filters, block: Mapping[str, Any]) -> str:
    values = block.get("values", block.get("sortedValues"))
    if not isinstance(values, list | tuple):
        raise Invalid(f"filter {block['type']} needs values as a list")
    if not values:
        return "false"
    numeric = _match_type(block)
    tests = []
    present = [value for value in values if value is not None]
    if present:

        def test(column: Sql) -> str:
            as_number = column.type in ("long", "double") if numeric is None else numeric
            if as_number:
                return (
                    "(" + " OR ".join(_compare(column, "=", v, numeric=True) for v in present) + ")"
                )
            texts = ", ".join(quote_text(_text_of(value)) for value in present)
            return f"({_as_text(column)} IN ({texts}))"

        tests.append(filters.on_value(_name(block), test))
    if len(present) < len(values):
        tests.append(_is_null(filters, _name(block)))
    return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"


def _bound(filters: _Filters, block: Mapping[str, Any]) -> str:
    ordering = block.get("ordering") or (
        "alphanumeric" if block.get("alphaNumeric") else "lexicographic"
    )
    name = ordering.get("type") if isinstance(ordering, Mapping) else str(ordering).lower()
    if name not in ("lexicographic", "numeric", "strlen"):
        raise Invalid(
            f"ordering '{name}' of filter bound is not supported; use numeric or lexicographic"
        )
    side = _by_length if name == "strlen" else _by_value(numeric=name == "numeric")
    passed = _between(filters, block, side, "Strict")
    if block.get("lower") is not None:
        return passed
    return f"({passed} OR {_is_null(filters, _name(block))})"


def _between(
    filters: _Filters,
    block: Mapping[str, Any],
    side: Callable[[Sql, str, object], str],
    open_: str,
) -> str:
    """Return the test of a lower bound, an upper one or both; `open_` ends the fields that leave a bound itself out."""
    lower, upper = block.get("lower"), block.get("upper")
    if lower is None and upper is None:
        raise Invalid(f"filter {block['type']} needs lower or upper")
    low = ">" if block.get(f"lower{open_}") else ">="
    high = "<" if block.get(f"upper{open_}") else "<="

    def test(column: Sql) -> str:
        tests = [side(column, low, lower)] if lower is not None else []
        tests += [side(column, high, upper)] if upper is not None else []
        return f"({' AND '.join(tests)})"

    return filters.on_value(_name(block), test)


def _by_value(*, numeric: bool | None) -> Callable[[Sql, str, object], str]:
    return lambda column, operator, value: _compare(column, operator, value, numeric=numeric)


def _by_length(column: Sql, operator: str, value: object) -> str:
    """Compare by length first, then by text, as Druid's ordering `strlen` does."""
    text, other = _as_text(column), quote_text(_text_of(value))
    strict = operator[0]
    return (
        f"(length({text}) {strict} length({other}) OR "
        f"(length({text}) = length({other}) AND {text} {operator} {other}))"
    )


def _range(filters: _Filters, block: Mapping[str, Any]) -> str:
    return _between(filters, block, _by_value(numeric=_match_type(block)), "Open")


def _interval(filters: _Filters, block: Mapping[str, Any]) -> str:
    intervals = [parse_interval(str(text)) for text in _list(block, "intervals")]

    def test(column: Sql) -> str:
        value = to_long(column).text
        return (
            "("
            + " OR ".join(
                f"({value} >= {i.start_ms}L AND {value} < {i.end_ms}L)" for i in intervals
            )
            + ")"
        )

    return filters.on_value(_name(block), test)


def _like(filters: _Filters, block: Mapping[str, Any]) -> str:
    pattern = quote_text(like_pattern(str(_get(block, "pattern")), block.get("escape")))
    return filters.on_value(_name(block), lambda column: f"({_as_text(column)} LIKE {pattern})")


def _regex(filters: _Filters, block: Mapping[str, Any]) -> str:
    pattern = quote_text(check_pattern(str(_get(block, "pattern"))))
    return filters.on_value(_name(block), lambda column: f"({_as_text(column)} RLIKE {pattern})")


def _search(filters: _Filters, block: Mapping[str, Any]) -> str:
    query = _get(block, "query")
    kind = query.get("type") if isinstance(query, Mapping) else None
    if kind not in ("contains", "insensitive_contains", "fragment"):
        raise Invalid(
            "query of filter search needs a type: contains, insensitive_contains, fragment"
        )
    parts = [query.get("value")] if kind != "fragment" else query.get("values") or []
    if not parts or any(not isinstance(part, str) for part in parts):
        raise Invalid(f"query of filter search needs {'values' if kind == 'fragment' else 'value'}")
    exact = bool(query.get("caseSensitive")) and kind != "insensitive_contains"

    def test(column: Sql) -> str:
        text = _as_text(column) if exact else f"lower({_as_text(column)})"
        wanted = [part if exact else part.lower() for part in parts]
        return "(" + " AND ".join(f"contains({text}, {quote_text(w)})" for w in wanted) + ")"

    return filters.on_value(_name(block), test)


def _columns(filters: _Filters, block: Mapping[str, Any]) -> str:
    names = [_dimension(item) for item in _list(block, "dimensions")]
    columns = [filters.column(name) for name in names]
    if any(column.is_array for column in columns):
        raise Invalid("filter columnComparison on multi-value columns is not supported")
    return (
        "(" + " AND ".join(f"{_as_text(a)} <=> {_as_text(b)}" for a, b in pairwise(columns)) + ")"
    )


def _contains_element(filters: _Filters, block: Mapping[str, Any]) -> str:
    value, numeric = block.get("elementMatchValue"), _match_type(block, "elementMatchValueType")
    if value is None:
        return _is_null(filters, _name(block))
    return filters.on_value(
        _name(block), lambda column: _compare(column, "=", value, numeric=numeric)
    )


def _expression(filters: _Filters, block: Mapping[str, Any]) -> str:
    compiled = compile_condition(str(_get(block, "expression")), filters.types)
    filters.inputs |= compiled.inputs
    return compiled.sql


_Leaf = tuple[Callable[[_Filters, Mapping[str, Any]], str], tuple[str, ...]]
_COLUMN = ("dimension", "column")
_LEAVES: Mapping[str, _Leaf] = {
    "true": (lambda _filters, _block: "true", ()),
    "false": (lambda _filters, _block: "false", ()),
    "selector": (_selector, (*_COLUMN, "value")),
    "equals": (_equals, (*_COLUMN, "matchValueType", "matchValue")),
    "null": (lambda filters, block: _is_null(filters, _name(block)), _COLUMN),
    "in": (_in, (*_COLUMN, "values")),
    "inType": (_in, (*_COLUMN, "matchValueType", "sortedValues")),
    "bound": (
        _bound,
        (*_COLUMN, "lower", "upper", "lowerStrict", "upperStrict", "ordering", "alphaNumeric"),
    ),
    "range": (_range, (*_COLUMN, "matchValueType", "lower", "upper", "lowerOpen", "upperOpen")),
    "interval": (_interval, (*_COLUMN, "intervals")),
    "like": (_like, (*_COLUMN, "pattern", "escape")),
    "regex": (_regex, (*_COLUMN, "pattern")),
    "search": (_search, (*_COLUMN, "query")),
    "columnComparison": (_columns, ("dimensions",)),
    "arrayContainsElement": (
        _contains_element,
        (*_COLUMN, "elementMatchValueType", "elementMatchValue"),
    ),
    "expression": (_expression, ("expression",)),
}

FILTER_TYPES = ("and", "or", *_NESTED, *_LEAVES)
"""Every filter type that is read."""
