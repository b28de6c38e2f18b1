"""Functions of JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from carnac.core.druid import forms
from carnac.core.quoting import quote_text
from carnac.errors import Invalid
from carnac.specs.druid.terms.table import MANY, Function, constant, plain
from carnac.specs.druid.terms.texts import CAST_TYPES
from carnac.specs.druid.terms.values import Sql, cast_to, to_text, to_value

_PATH = re.compile(r"\$(?:\.[^.\[\]']+|\[\d+\]|\['[^']*'\])*")
_QUOTED = re.compile(r"\['([^']*)'\]")


def _path(value: Sql) -> str:
    """Return a JSONPath as DuckDB writes it.

    Raises:
        Invalid: It is no path of names and indices.
    """
    said = constant(value, "the path")
    if _PATH.fullmatch(said) is None:
        raise Invalid(f"a path is like $.a.b[0], not '{said}'")
    return _QUOTED.sub(lambda found: f'."{found[1]}"', said)


def json_value(document: Sql, path: str) -> Sql:
    """Return the value at a JSONPath as a text; null: there is none, or a list or an object.

    Raises:
        Invalid: The path has a star.
    """
    form = forms.json_value([None, path])
    if form is None:
        raise Invalid(f"a path is like $.a.b[0], not '{path}'")
    return Sql(forms.filled(form, document.text, quote_text(path)), "string")


def _json_value(arguments: Sequence[Sql]) -> Sql:
    found = json_value(to_text(arguments[0]), _path(arguments[1]))
    if len(arguments) < 3:
        return found
    kind = CAST_TYPES.get(constant(arguments[2], "the type").lower())
    if kind not in {"long", "double", "string"}:
        raise Invalid("json_value takes LONG, DOUBLE or STRING as its type")
    return cast_to(found, kind)


def _of_path(template: str, gives: str) -> Function:
    def build(arguments: Sequence[Sql]) -> Sql:
        taken = to_text(arguments[0]).text, quote_text(_path(arguments[1]))
        return Sql(forms.filled(template, *taken), gives)  # type: ignore[arg-type]

    return Function(build, 2, 2)


def _json_object(arguments: Sequence[Sql]) -> Sql:
    if len(arguments) % 2:
        raise Invalid("json_object takes names and values in turn")
    said = [
        quote_text(constant(one, "a name")) if place % 2 == 0 else _as_json(one)
        for place, one in enumerate(arguments)
    ]
    return Sql(f"CAST(json_object({', '.join(said)}) AS VARCHAR)", "json")


def _as_json(value: Sql) -> str:
    one = to_value(value)
    return f"TRY_CAST({one.text} AS JSON)" if one.kind == "json" else one.text


def _to_json_string(arguments: Sequence[Sql]) -> Sql:
    one = to_value(arguments[0])
    if one.kind == "json":
        return Sql(one.text, "string")
    return Sql(f"coalesce(CAST(to_json({one.text}) AS VARCHAR), 'null')", "string")


_PARSED = plain("t", "CASE WHEN json_valid({0}) THEN {0} END", "json")
FUNCTIONS: Mapping[str, Function] = {
    "json_value": Function(_json_value, 2, 3),
    "json_query": _of_path(f"CAST({forms.JSON_QUERY} AS VARCHAR)", "json"),
    "json_keys": _of_path("json_keys(TRY_CAST(_1 AS JSON), _2)", "array<string>"),
    "json_object": Function(_json_object, 0, MANY, is_whole=True),
    "parse_json": _PARSED,
    "try_parse_json": _PARSED,
    "to_json_string": Function(_to_json_string, 1, 1, is_whole=True),
}
