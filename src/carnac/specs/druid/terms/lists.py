"""Functions of arrays, and of multi-value dimensions under the names that SQL gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from carnac.errors import Invalid
from carnac.specs.druid.terms.table import MANY, Function, int_of, plain, text_of
from carnac.specs.druid.terms.values import (
    NULL,
    Kind,
    Sql,
    array_of,
    cast_to,
    element,
    sql_type,
    to_value,
)


def to_array(value: Sql) -> Sql:
    """Return the value as an array; one value becomes an array of it, null stays null."""
    if value.is_array:
        return value
    one = to_value(value)
    if value is NULL:
        return Sql("CAST(NULL AS VARCHAR[])", "array<string>")
    return Sql(f"CASE WHEN {one.text} IS NOT NULL THEN [{one.text}] END", array_of(one.kind))


def array_literal(items: Sequence[Sql], kind: Kind) -> Sql:
    """Return an array of values that are cast to one type."""
    said = ", ".join(cast_to(to_value(one), kind).text for one in items)
    return Sql(f"CAST([{said}] AS {sql_type(array_of(kind))})", array_of(kind))


def _array(arguments: Sequence[Sql]) -> Sql:
    if any(one.is_array for one in arguments):
        raise Invalid("an array of arrays is not supported")
    kinds = [to_value(one).kind for one in arguments if one is not NULL]
    return array_literal(arguments, kinds[0] if kinds else "string")


def _two(arguments: Sequence[Sql]) -> tuple[str, str, Kind]:
    """Return two arrays of the type of the first."""
    array = to_array(arguments[0])
    other = cast_to(to_array(arguments[1]), array.kind)
    return array.text, other.text, array.kind


def _has_null(array: str) -> str:
    return f"(list_count({array}) < len({array}))"


def _contains(arguments: Sequence[Sql]) -> Sql:
    array, other, _ = _two(arguments)
    there = f"list_has_all({array}, list_filter({other}, lambda __e: __e IS NOT NULL))"
    return _tested(array, f"{there} AND ({_has_null(array)} OR NOT {_has_null(other)})")


def _overlap(arguments: Sequence[Sql]) -> Sql:
    array, other, _ = _two(arguments)
    nulls = f"({_has_null(array)} AND {_has_null(other)})"
    return _tested(array, f"list_has_any({array}, {other}) OR {nulls}")


def _tested(array: str, test: str) -> Sql:
    return Sql(f"CASE WHEN {array} IS NOT NULL THEN coalesce({test}, false) END", "bool")


def _at(base: int) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        array, place = to_array(arguments[0]), int_of(arguments[1])
        found = f"list_extract({array.text}, {place} + {1 - base})"
        # DuckDB counts negative places from the end
        return Sql(f"CASE WHEN {place} >= {base} THEN {found} END", element(array.kind))

    return build


def _of_array(
    template: str = "", *, base: int = 1, gives: Kind | None = None, is_turned: bool = False
) -> Function:
    """Return a function of an array and an element.

    Args:
        template: SQL of an array, and of an element, that gives an array.
        base: What DuckDB's first place is called.
        gives: `long`: the place of the element; `bool`: whether it is there; None: what the template gives.
        is_turned: Whether the element is named first.
    """

    def build(arguments: Sequence[Sql]) -> Sql:
        first, second = reversed(arguments) if is_turned else arguments
        array = to_array(first)
        one = cast_to(to_value(second), element(array.kind)).text
        if gives == "bool":
            return Sql(
                f"CASE WHEN {one} IS NOT NULL THEN coalesce(list_contains({array.text}, {one}), false) END",
                "bool",
            )
        if gives == "long":
            return Sql(
                f"CAST(nullif(list_position({array.text}, {one}), 0) - {1 - base} AS BIGINT)",
                "long",
            )
        return Sql(
            f"CASE WHEN {array.text} IS NOT NULL THEN {template.format(array.text, one)} END",
            array.kind,
        )

    return Function(build, 2, 2, is_whole=True)


def _concat(arguments: Sequence[Sql]) -> Sql:
    array, other, kind = _two(arguments)
    return Sql(
        f"CASE WHEN {array} IS NOT NULL AND {other} IS NOT NULL THEN list_concat({array}, {other}) END",
        kind,
    )


def _set(array: Sql) -> Sql:
    """Return a set: sorted, nulls first, without repeats."""
    values = f"list_sort(list_distinct({array.text}))"
    return Sql(
        f"CASE WHEN {_has_null(array.text)} THEN list_prepend(NULL, {values}) ELSE {values} END",
        array.kind,
    )


_APPENDED = _of_array("list_append({0}, {1})")


def _slice(arguments: Sequence[Sql]) -> Sql:
    array, start = to_array(arguments[0]), int_of(arguments[1])
    size = f"len({array.text})"
    end = int_of(arguments[2]) if len(arguments) > 2 else size
    cut = f"list_resize(list_slice({array.text}, {start} + 1, least({end}, {size})), least({end}, {size}) - {start})"
    return Sql(
        f"CASE WHEN {start} BETWEEN 0 AND {size} AND {start} <= {end} THEN {cut} END", array.kind
    )


def _to_string(arguments: Sequence[Sql]) -> Sql:
    array = cast_to(to_array(arguments[0]), "array<string>").text
    said = f"list_transform({array}, lambda __e: coalesce(__e, 'null'))"
    between = text_of(arguments[1])
    if between.is_literal:
        return Sql(f"array_to_string({said}, {between.text})", "string")
    joined = f"list_reduce({said}, lambda __a, __b: __a || {between.text} || __b)"
    return Sql(f"CASE WHEN len({array}) = 0 THEN '' ELSE {joined} END", "string")


def _from_string(arguments: Sequence[Sql]) -> Sql:
    """Split at a regular expression; as Java's split, empty texts at the end are dropped."""
    text, pattern = (text_of(one).text for one in arguments)
    parts = f"string_split_regex({text}, {pattern})"
    last = f"list_max(list_transform({parts}, lambda __e, __i: CASE WHEN __e = '' THEN 0 ELSE __i END))"
    kept = f"list_slice({parts}, 1, {last})"
    split = f"CASE WHEN {text} = '' THEN [''] WHEN {pattern} IS NOT NULL THEN {kept} END"
    return Sql(split, "array<string>")


_OF_BOTH: Mapping[str, Function] = {
    "length": Function(
        lambda a: Sql(f"CAST(len({to_array(a[0]).text}) AS BIGINT)", "long"), 1, 1, is_whole=True
    ),
    "offset": Function(_at(0), 2, 2, is_whole=True),
    "ordinal": Function(_at(1), 2, 2, is_whole=True),
    "contains": Function(_contains, 2, 2, is_whole=True),
    "overlap": Function(_overlap, 2, 2, is_whole=True),
    "append": _APPENDED,
    "prepend": _of_array("list_prepend({1}, {0})", is_turned=True),
    "concat": Function(_concat, 2, 2, is_whole=True),
    "slice": Function(_slice, 2, 3, is_whole=True),
    "to_string": Function(_to_string, 2, 2, is_whole=True),
    "offset_of": _of_array(base=0, gives="long"),
    "ordinal_of": _of_array(gives="long"),
}
FUNCTIONS: Mapping[str, Function] = {
    "array": Function(_array, 0, MANY, is_whole=True),
    **{f"{kind}_{name}": made for kind in ("array", "mv") for name, made in _OF_BOTH.items()},
    "array_set_add": Function(lambda a: _set(_APPENDED.build(a)), 2, 2, is_whole=True),
    "array_set_add_all": Function(lambda a: _set(_concat(a)), 2, 2, is_whole=True),
    "scalar_in_array": _of_array(gives="bool", is_turned=True),
    "mv_to_array": Function(lambda a: to_array(a[0]), 1, 1, is_whole=True),
    "array_to_mv": Function(
        lambda a: cast_to(to_array(a[0]), "array<string>"), 1, 1, is_whole=True
    ),
    "string_to_mv": Function(_from_string, 2, 2),
    "string_to_array": Function(_from_string, 2, 2),
    "isnull": plain("=", "({0} IS NULL)", "bool", is_whole=True),
    "notnull": plain("=", "({0} IS NOT NULL)", "bool", is_whole=True),
}
