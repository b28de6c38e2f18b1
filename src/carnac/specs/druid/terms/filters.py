"""Druid's filters (JSON) as conditions of SQL.

Nulls are as in Druid since version 28 (SQL-compatible): a comparison with null is unknown, `not` of unknown is unknown,
and unknown rows are not kept. A filter on a multi-value dimension keeps a row if one of its values passes. Numbers are
compared as numbers where the column is one (or the filter says so); else the column is compared as text.

Source: Druid's documentation of query filters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

from carnac.core.quoting import quote_text
from carnac.core.texts import short
from carnac.core.time.intervals import parse_interval
from carnac.errors import Invalid
from carnac.specs.druid.blocks import Block, flag_of, list_of, refused, said
from carnac.specs.druid.terms import operands as of
from carnac.specs.druid.terms.dimensions import extracted, of_dimension
from carnac.specs.druid.terms.expressions import compile_expression
from carnac.specs.druid.terms.scopes import Scope
from carnac.specs.druid.terms.texts import like, matches
from carnac.specs.druid.terms.values import Sql, to_bool
from carnac.specs.problems import suggest

MAX_DEPTH = 100
"""Deepest nesting of `and`, `or`, `not` that is read."""
LONG_MAX = (1 << 63) - 1
ABSENT = {
    "javascript": "write it as an expression",
    "spatial": "compare the coordinates with range filters",
    "bloom": "use a filter of type in",
}
_NESTED = {"not": "(NOT {})", "istrue": "({} IS TRUE)", "isfalse": "({} IS FALSE)"}
_NUMBERS = frozenset({"LONG", "DOUBLE", "FLOAT"})
_TYPES = frozenset({"STRING", *_NUMBERS})


_Leaf: TypeAlias = "tuple[Callable[[FilterCompiler, Block], str], tuple[str, ...]]"
_COLUMN = ("dimension", "column")


class FilterCompiler:
    """The reader of filters on columns of a scope.

    Args:
        is_strict: Whether a field that a filter does not have is refused; Druid reads over it.
    """

    def __init__(self, scope: Scope, *, is_strict: bool = False) -> None:
        self._scope, self._is_strict = scope, is_strict
        self._is_negated = False

    def compile(self, value: object, depth: int = 0) -> str:
        """Return the condition.

        Raises:
            Invalid: It is no filter, or one that is not supported.
        """
        if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
            raise Invalid("a filter must be an object with a type, such as selector")
        if depth > MAX_DEPTH:
            raise Invalid(f"filters are nested more than {MAX_DEPTH} deep")
        block, kind = value, value["type"]
        if kind in ("and", "or"):
            parts = [self.compile(one, depth + 1) for one in _full(block, "fields")]
            return f"({f' {kind.upper()} '.join(parts)})"
        if kind in _NESTED:
            return self._nested(block, depth)
        leaf = self.LEAVES.get(kind)
        if leaf is None:
            raise refused(kind, "filter", FILTER_TYPES, ABSENT)
        build, fields = leaf
        if self._is_strict:
            _check_fields(block, fields)
        return build(self, block)

    def _nested(self, block: Block, depth: int) -> str:
        kind, before = block["type"], self._is_negated
        if block.get("field") is None:
            raise Invalid(f"filter {kind} needs field")
        self._is_negated = kind != "istrue"
        inner = self.compile(block["field"], depth + 1)
        self._is_negated = before
        return _NESTED[kind].format(inner)

    def compare(
        self, left: Sql, operator: str, value: object, *, as_number: bool | None = None
    ) -> str:
        """Return a comparison with a match value.

        Args:
            as_number: Whether to compare numbers; None: as the column is.
        """
        is_number = of.is_number(left)
        if not (is_number if as_number is None else as_number):
            return f"({of.text(left)} {operator} {quote_text(said(value))})"
        if not is_number:
            return self._compare_numeric(left, operator, value)
        number = _number(value)
        if number is None:
            return f"({left.text} <> {left.text})"  # unknown of null, else false
        return self._compare_number(left, operator, number)

    def _compare_number(self, left: Sql, operator: str, number: float) -> str:
        return f"({f' {operator} '.join(of.operands(left, number))})"

    def _is_one_of(self, left: Sql, values: Iterable[object]) -> str:
        """Return whether a value is one of some numbers, by one list: there may be thousands."""
        numbers: dict[str, list[str]] = {}
        for value in values:
            number = _number(value)
            if number is not None:
                text, other = of.operands(left, number)
                numbers.setdefault(text, []).append(other)
        tests = [f"{text} IN ({', '.join(others)})" for text, others in numbers.items()]
        return f"({' OR '.join(tests or [f'{left.text} <> {left.text}'])})"

    def _column(self, block: Block) -> Sql:
        spec = block.get("dimension")
        spec = block.get("column") if spec is None else spec
        if spec is None:
            raise Invalid(f"filter {block['type']} needs dimension")
        return extracted(of_dimension(spec, self._scope), block.get("extractionFn"), self._scope)

    def _null(self, block: Block) -> str:
        return of.is_null(self._column(block))

    def _selector(self, block: Block) -> str:
        column, value = self._column(block), block.get("value")
        if value is None:
            return of.is_null(column)
        return of.any_of(column, lambda one: self.compare(one, "=", value))

    def _equals(self, block: Block) -> str:
        column, value, kind = self._column(block), block.get("matchValue"), _type_of(block)
        if value is None:
            raise Invalid("filter equals needs matchValue; use the filter null for null")
        if kind is not None and kind.startswith("ARRAY"):
            items = list_of(block, "matchValue")
            return of.equals_array(column, kind, items) if column.is_array else "false"

        as_number = _as_number(kind) or None  # numbers are compared as such with a text, too
        return of.any_of(column, lambda one: self.compare(one, "=", value, as_number=as_number))

    def _in(self, block: Block) -> str:
        name = "values" if block.get("values") is not None else "sortedValues"
        if block.get(name) is None:
            raise Invalid(f"filter {block['type']} needs values as a list")
        column, values = self._column(block), list_of(block, name)
        present = [one for one in values if one is not None]
        as_number = _as_number(_type_of(block))

        def test(one: Sql) -> str:
            if of.is_number(one):
                return self._is_one_of(one, present)
            if as_number:
                return (
                    f"coalesce({self._is_one_of(one, present)}, {of.text(one)} <> {of.text(one)})"
                )
            return f"({of.text(one)} IN ({', '.join(quote_text(said(v)) for v in present)}))"

        tests = [of.any_of(column, test)] if present else []
        if len(present) < len(values):
            tests.append(of.is_null(column))
        if len(tests) == 1:
            return tests[0]
        return f"({' OR '.join(tests)})" if tests else "false"

    def _bound(self, block: Block) -> str:
        ordering = block.get("ordering") or ("alphanumeric" if block.get("alphaNumeric") else None)
        name = ordering.get("type") if isinstance(ordering, Mapping) else ordering
        name = str(name or "lexicographic").lower()
        column = self._column(block)

        def side(one: Sql, operator: str, value: object) -> str:
            if name == "lexicographic":
                return self.compare(one, operator, value, as_number=False)
            if name == "numeric":
                return self._compare_numeric(one, operator, value)
            return of.compare_by(name, one, operator, value)

        test = _between(block, "Strict", side)
        passed = of.any_of(column, test)
        if self._is_negated and not of.is_number(column):  # null is no unknown text here
            passed = of.any_of(column, lambda one: f"coalesce({test(one)}, false)")
            passed = f"coalesce({passed}, false)"
        if block.get("lower") is not None or of.is_number(column):
            return passed  # null comes before all texts, and before no number
        return f"({passed} OR {of.is_null(column)})"

    def _compare_numeric(self, one: Sql, operator: str, value: object) -> str:
        """Return a comparison of numbers, before which all values that are none come, as texts."""
        is_below, number = operator in {"<", "<="}, _number(value)
        if of.is_number(one):
            if number is None:
                return f"CASE WHEN {one.text} IS NOT NULL THEN {not is_below} END"
            return self._compare_number(one, operator, number)
        text = of.text(one)
        if number is None and operator == "=":
            return f"({text} <> {text})"  # unknown of null, else false
        if number is None:
            both = f"{text} {operator} {quote_text(said(value))}"
            return f"CASE WHEN {of.double(one)} IS NULL THEN {both} ELSE {not is_below} END"
        both = self._compare_number(one, operator, number)  # unknown of what is no number
        return f"CASE WHEN {text} IS NOT NULL THEN coalesce({both}, {is_below}) END"

    def _range(self, block: Block) -> str:
        as_number = _as_number(_type_of(block))

        def side(one: Sql, operator: str, value: object) -> str:
            return self.compare(one, operator, value, as_number=as_number)

        return of.any_of(self._column(block), _between(block, "Open", side))

    def _interval(self, block: Block) -> str:
        column = self._column(block)
        intervals = [parse_interval(str(one)) for one in _full(block, "intervals")]

        def test(one: Sql) -> str:
            tests = (of.within(one, each.start_ms, each.end_ms) for each in intervals)
            return f"({' OR '.join(tests)})"

        return of.any_of(column, test)

    def _like(self, block: Block) -> str:
        pattern, escape = of.pattern_of(block), block.get("escape")
        return of.any_of(self._column(block), lambda one: like(one, pattern, escape).text)

    def _regex(self, block: Block) -> str:
        pattern = of.pattern_of(block)
        return of.any_of(self._column(block), lambda one: matches(of.text(one), pattern))

    def _search(self, block: Block) -> str:
        return of.any_of(self._column(block), of.search_test(block.get("query")))

    def _columns(self, block: Block) -> str:
        columns = [of_dimension(one, self._scope) for one in list_of(block, "dimensions")]
        if len(columns) < 2:
            raise Invalid("filter columnComparison needs two dimensions or more")
        texts = map(of.text, columns)
        return f"({' AND '.join(f'{a} IS NOT DISTINCT FROM {b}' for a, b in pairwise(texts))})"

    def _contains_element(self, block: Block) -> str:
        column, value = self._column(block), block.get("elementMatchValue")
        as_number = _as_number(_type_of(block, "elementMatchValueType"))
        if value is None:
            return of.is_null(column)
        return of.any_of(column, lambda one: self.compare(one, "=", value, as_number=as_number))

    def _expression(self, block: Block) -> str:
        text, scope = block.get("expression"), self._scope
        found = compile_expression(text, scope.find, absent=scope.absent)
        return of.any_of(found, lambda one: to_bool(one).text)

    LEAVES: ClassVar[Mapping[str, _Leaf]] = {
        "true": (lambda _compiler, _block: "true", ()),
        "false": (lambda _compiler, _block: "false", ()),
        "selector": (_selector, (*_COLUMN, "value")),
        "extraction": (_selector, (*_COLUMN, "value")),
        "equals": (_equals, (*_COLUMN, "matchValueType", "matchValue")),
        "null": (_null, _COLUMN),
        "in": (_in, (*_COLUMN, "values")),
        "inType": (_in, (*_COLUMN, "matchValueType", "sortedValues")),
        "bound": (
            _bound,
            (*_COLUMN, "lower", "upper", "lowerStrict", "upperStrict", "ordering", "alphaNumeric"),
        ),
        "range": (
            _range,
            (*_COLUMN, "matchValueType", "lower", "upper", "lowerOpen", "upperOpen"),
        ),
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
    """Builders of the filters that hold no others, and the fields that they read."""


def compile_filter(block: object, scope: Scope) -> str | None:
    """Return the condition of a query; None: there is none.

    Raises:
        Invalid: It is no filter, or not supported.
    """
    return None if block is None else FilterCompiler(scope).compile(block)


FILTER_TYPES = (
    "and",
    "or",
    *_NESTED,
    *(one for one in FilterCompiler.LEAVES if one != "extraction"),
)
"""Every filter type that is read, but for an old name of `selector` with an extraction function."""


def _check_fields(block: Block, known: tuple[str, ...]) -> None:
    for name in block:
        if name not in (*known, "type", "extractionFn", "filterTuning"):
            raise Invalid(f"filter {block['type']} has no field '{name}'{suggest(name, known)}")


def _full(block: Block, name: str) -> list[Any]:
    """Return a list that is not empty."""
    value = list_of(block, name)
    if not value:
        raise Invalid(f"filter {block['type']} needs {name} as a list that is not empty")
    return value


def _number(value: object) -> float | None:
    """Return the number that a match value is; None: it is none."""
    if value is None or isinstance(value, bool | float):
        return value if isinstance(value, float) else None
    text = said(value)
    if re.fullmatch(of.NUMBER, text) is None:
        return None
    number = float(text)
    return int(text) if abs(number) < LONG_MAX and text.lstrip("+-").isdigit() else number


def _type_of(block: Block, name: str = "matchValueType") -> str | None:
    """Return the type that a match value is said to have, in capitals; None: that of the column."""
    given = block.get(name)
    if given is None:
        return None
    kind = str(given).upper()
    if kind.removeprefix("ARRAY<").removesuffix(">") not in _TYPES:
        raise Invalid(f"{name} {short(given)} is not known; use {', '.join(sorted(_TYPES))}")
    return kind


def _as_number(kind: str | None) -> bool | None:
    return None if kind is None else kind in _NUMBERS


def _between(
    block: Block, ending: str, side: Callable[[Sql, str, object], str]
) -> Callable[[Sql], str]:
    """Return the test of a lower bound, an upper one or both; `ending` is of fields that leave a bound itself out."""
    lower, upper = block.get("lower"), block.get("upper")
    if lower is None and upper is None:
        raise Invalid(f"filter {block['type']} needs lower or upper")
    low = ">" if flag_of(block, f"lower{ending}") else ">="
    high = "<" if flag_of(block, f"upper{ending}") else "<="

    def test(one: Sql) -> str:
        tests = [] if lower is None else [side(one, low, lower)]
        tests += [] if upper is None else [side(one, high, upper)]
        return f"({' AND '.join(tests)})"

    return test
