"""Functions of arrays (and of multi-value dimensions, under the names that SQL gives them), and of JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from carnac.errors import Invalid
from carnac.specs.druid.expressions.table import Function, constant_text, to_int
from carnac.specs.druid.expressions.texts import CAST_TYPES
from carnac.specs.druid.expressions.values import (
    Sql,
    SqlType,
    array_type,
    cast_array,
    cast_to,
    common_type,
    element_type,
    quote_text,
    to_array,
    to_text,
    to_value,
)

_PATH = re.compile(r"\$(?:\.[^.\[\]']+|\[\d+\]|\['[^']*'\])*")


def _element(array: Sql, value: Sql) -> str:
    """Return the SQL of a value, as an element of the array."""
    return cast_to(to_value(value), element_type(array.type)).text


def _array(arguments: Sequence[Sql]) -> Sql:
    element = to_value(arguments[0]).type if arguments else "string"
    if element == "null":
        element = common_type([value.type for value in arguments])
    items = ", ".join(cast_to(to_value(value), element).text for value in arguments)
    return Sql(f"array({items})", array_type(element))


def _length(arguments: Sequence[Sql]) -> Sql:
    return Sql(f"CAST(array_size({to_array(arguments[0]).text}) AS BIGINT)", "long")


def _at(base: int) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        array = to_array(arguments[0])
        index = f"{to_int(arguments[1])} - {base}" if base else to_int(arguments[1])
        return Sql(f"get({array.text}, {index})", element_type(array.type))

    return build


def _contains(arguments: Sequence[Sql]) -> Sql:
    array, wanted = to_array(arguments[0]), arguments[1]
    if wanted.is_array:
        all_of = cast_array(wanted, element_type(array.type)).text
        test = f"array_size(array_except({all_of}, {array.text})) = 0"
    else:
        test = f"coalesce(array_contains({array.text}, {_element(array, wanted)}), false)"
    return Sql(f"CASE WHEN {array.text} IS NOT NULL THEN {test} END", "bool")


def _overlap(arguments: Sequence[Sql]) -> Sql:
    array, other = to_array(arguments[0]), to_array(arguments[1])
    shared = f"array_intersect({array.text}, {cast_array(other, element_type(array.type)).text})"
    test = f"coalesce(array_size({shared}) > 0, false)"
    return Sql(f"CASE WHEN {array.text} IS NOT NULL THEN {test} END", "bool")


def _scalar_in(arguments: Sequence[Sql]) -> Sql:
    array = to_array(arguments[1])
    value = _element(array, arguments[0])
    test = f"coalesce(array_contains({array.text}, {value}), false)"
    return Sql(f"CASE WHEN {value} IS NOT NULL THEN {test} END", "bool")


def _position(base: int) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        array = to_array(arguments[0])
        found = f"nullif(array_position({array.text}, {_element(array, arguments[1])}), 0L)"
        return Sql(f"({found} - 1L)" if base == 0 else found, "long")

    return build


def _append(arguments: Sequence[Sql]) -> Sql:
    array = to_array(arguments[0])
    return Sql(f"array_append({array.text}, {_element(array, arguments[1])})", array.type)


def _prepend(arguments: Sequence[Sql]) -> Sql:
    array = to_array(arguments[1])
    return Sql(f"array_prepend({array.text}, {_element(array, arguments[0])})", array.type)


def _concat(arguments: Sequence[Sql]) -> Sql:
    array = to_array(arguments[0])
    other = cast_array(to_array(arguments[1]), element_type(array.type))
    return Sql(f"concat({array.text}, {other.text})", array.type)


def _set(build: Callable[[Sequence[Sql]], Sql]) -> Callable[[Sequence[Sql]], Sql]:
    """Return the builder of a set: sorted, nulls first, without repeats."""

    def build_set(arguments: Sequence[Sql]) -> Sql:
        array = build(arguments)
        return Sql(f"sort_array(array_distinct({array.text}))", array.type)

    return build_set


def _slice(arguments: Sequence[Sql]) -> Sql:
    array, start = to_array(arguments[0]), to_int(arguments[1])
    size = f"array_size({array.text})"
    end = to_int(arguments[2]) if len(arguments) > 2 else size
    cut = f"slice({array.text}, {start} + 1, least({end}, {size}) - least({start}, {size}))"
    valid = f"{start} >= 0 AND {start} <= {size} AND {start} <= {end}"
    return Sql(f"CASE WHEN {valid} THEN {cut} END", array.type)


def _to_string(arguments: Sequence[Sql]) -> Sql:
    array = cast_array(to_array(arguments[0]), "string")
    return Sql(f"array_join({array.text}, {to_text(arguments[1]).text}, 'null')", "string")


def _from_string(arguments: Sequence[Sql]) -> Sql:
    """Split at a regular expression; like Java's split, empty texts at the end are dropped."""
    text, pattern = to_text(arguments[0]).text, to_text(arguments[1]).text
    parts = f"split({text}, {pattern})"
    last = f"array_max(transform({parts}, (e, i) -> CASE WHEN e != '' THEN i + 1 ELSE 0 END))"
    kept = f"CASE WHEN {text} = '' THEN {parts} ELSE slice({parts}, 1, {last}) END"
    return Sql(kept, "array<string>")


def check_path(name: str, path: Sql) -> str:
    """Return the SQL of a JSONPath.

    Raises:
        Invalid: It is not a text, or not a path of names and indices.
    """
    text = constant_text(name, "the path", path)
    if _PATH.fullmatch(text) is None:
        raise Invalid(f"function {name} needs a path like $.a.b[0], not '{text}'")
    return quote_text(text)


def _json_value(arguments: Sequence[Sql]) -> Sql:
    """Take a scalar out of JSON; an object or an array there gives null."""
    path, json = check_path("json_value", arguments[1]), to_text(arguments[0]).text
    found = f"get_json_object({json}, {path})"
    # what a wildcard finds keeps its quotes, so a text that begins with a bracket is no array there
    quoted = f"get_json_object(concat('[', {json}, ']'), concat('$[*]', substring({path}, 2)))"
    is_nested = f"left(coalesce({quoted}, {found}), 1) IN ('{{', '[')"
    value = Sql(f"CASE WHEN NOT {is_nested} THEN {found} END", "string")
    if len(arguments) < 3:
        return value
    name = constant_text("json_value", "the type", arguments[2]).lower()
    kind: SqlType | None = CAST_TYPES.get(name)
    if kind not in ("long", "double", "string"):
        raise Invalid(f"function json_value takes LONG, DOUBLE or STRING as its type, not '{name}'")
    return cast_to(value, kind)


def _json_query(arguments: Sequence[Sql]) -> Sql:
    path = check_path("json_query", arguments[1])
    return Sql(f"get_json_object({to_text(arguments[0]).text}, {path})", "json")


def _parse_json(arguments: Sequence[Sql]) -> Sql:
    text = to_text(arguments[0]).text
    return Sql(f"CASE WHEN try_parse_json({text}) IS NOT NULL THEN {text} END", "json")


def _to_json_string(arguments: Sequence[Sql]) -> Sql:
    value = to_value(arguments[0])
    if value.type == "json":
        return Sql(value.text, "string")
    wrapped = f"to_json(array({value.text}))"
    return Sql(f"substring({wrapped}, 2, length({wrapped}) - 2)", "string")


def _json_keys(arguments: Sequence[Sql]) -> Sql:
    inner = _json_query(arguments).text
    return Sql(f"json_object_keys({inner})", "array<string>")


def _json_object(arguments: Sequence[Sql]) -> Sql:
    if len(arguments) % 2:
        raise Invalid("function json_object needs names and values in turn")
    pieces: list[str] = []
    for i in range(0, len(arguments), 2):
        name = quote_text(constant_text("json_object", "a name", arguments[i]))
        pieces.append(f"{name}, {to_value(arguments[i + 1]).text}")
    made = f"named_struct({', '.join(pieces)})"
    return Sql(f"to_json({made}, map('ignoreNullFields', 'false'))", "json")


def _whole(value: Callable[[Sequence[Sql]], Sql], least: int, most: int | None) -> Function:
    return Function(value, least, most, takes_arrays=True)


_OF_BOTH: Mapping[str, Function] = {
    "length": _whole(_length, 1, 1),
    "offset": _whole(_at(0), 2, 2),
    "ordinal": _whole(_at(1), 2, 2),
    "contains": _whole(_contains, 2, 2),
    "overlap": _whole(_overlap, 2, 2),
    "append": _whole(_append, 2, 2),
    "prepend": _whole(_prepend, 2, 2),
    "concat": _whole(_concat, 2, 2),
    "slice": _whole(_slice, 2, 3),
    "to_string": _whole(_to_string, 2, 2),
}
FUNCTIONS: Mapping[str, Function] = {
    "array": _whole(_array, 0, None),
    **{f"{kind}_{name}": made for kind in ("array", "mv") for name, made in _OF_BOTH.items()},
    "array_offset_of": _whole(_position(0), 2, 2),
    "array_ordinal_of": _whole(_position(1), 2, 2),
    "array_set_add": _whole(_set(_append), 2, 2),
    "array_set_add_all": _whole(_set(_concat), 2, 2),
    "scalar_in_array": _whole(_scalar_in, 2, 2),
    "string_to_array": Function(_from_string, 2, 2),
    "mv_to_array": _whole(lambda arguments: to_array(arguments[0]), 1, 1),
    "array_to_mv": _whole(lambda a: cast_array(to_array(a[0]), "string"), 1, 1),
    "string_to_mv": Function(_from_string, 2, 2),
    "json_value": Function(_json_value, 2, 3),
    "json_query": Function(_json_query, 2, 2),
    "json_keys": Function(_json_keys, 2, 2),
    "json_object": _whole(_json_object, 0, None),
    "parse_json": Function(_parse_json, 1, 1),
    "try_parse_json": Function(_parse_json, 1, 1),
    "to_json_string": _whole(_to_json_string, 1, 1),
}
