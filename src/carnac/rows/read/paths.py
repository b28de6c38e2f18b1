"""Where in a record a field is: `flattenSpec` and its JSONPaths, for the engine.

A path with wildcards finds an array of the values there, in their order. Nulls and missing fields are left out; if no
value is left, the result is null. So a path means the same in JSON, where a field may be missing, and in columns, where
it can only be null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from carnac.core.quoting import quote_text
from carnac.specs.ingest.json_paths import EVERY, Step, parse_path

if TYPE_CHECKING:
    from carnac.specs.ingest.inputs import FlattenSpec


@dataclass(frozen=True, slots=True)
class FieldPaths:
    """Finds fields in records.

    Attributes:
        listed: Steps by name of field, for those that `flattenSpec` lists.
        discovers: Whether every field of the top level is a field too.
    """

    listed: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    discovers: bool = True

    def find(self, name: str) -> tuple[Step, ...] | None:
        """Return where a field is; None if there is no such field."""
        if name in self.listed:
            return self.listed[name]
        return (name,) if self.discovers else None


def field_paths(flatten: FlattenSpec | None) -> FieldPaths:
    """Return where the fields are that a `flattenSpec` describes; None: the top level as it is."""
    if flatten is None:
        return FieldPaths()
    listed: dict[str, tuple[Step, ...]] = {}
    for one in flatten.fields:
        if one.type == "root":
            listed[one.name] = (one.expr or one.name,)
        else:
            listed[one.name] = parse_path(one.expr or "$", one.name)
    return FieldPaths(listed, flatten.use_field_discovery)


_STAR = "*"
"""A field of which DuckDB takes the name for a wildcard, in quotes too; a JSON pointer alone finds it."""


def has_plain_path(steps: tuple[Step, ...]) -> bool:
    """Whether one path leads to one place."""
    return EVERY not in steps and _STAR not in steps


def engine_place(document: str, steps: tuple[Step, ...], ending: str = "") -> str:
    """Return the arguments of a JSON function that looks at one place, as SQL.

    Args:
        document: SQL of JSON, or of the text of it.
        ending: Wildcard for what is in that place.
    """
    while _STAR in steps:
        at = steps.index(_STAR)
        if at:
            document = f"json_extract({document}, {quote_text(engine_path(steps[:at]))})"
        document, steps = f"json_extract({document}, '/{_STAR}')", steps[at + 1 :]
    return f"{document}, {quote_text(engine_path(steps) + ending)}"


def engine_look(function: str, places: Mapping[str, tuple[Step, ...]], document: str) -> _Look:
    """Return how a JSON function looks at several places without wildcards."""
    plain = [name for name, steps in places.items() if has_plain_path(steps)]
    paths = ", ".join(quote_text(engine_path(places[name])) for name in plain)
    others = [name for name in places if name not in plain]
    looks = [f"TRY({function}({document}, [{paths}]))"] if plain else []
    looks += [f"[TRY({function}({engine_place(document, places[name])}))]" for name in others]
    return _Look([*plain, *others], f"list_concat({', '.join(looks)})" if others else looks[0])


class _Look(NamedTuple):
    """The names of places, and SQL of a list of what is there, in the same order."""

    names: list[str]
    sql: str


def engine_path(steps: tuple[Step, ...]) -> str:
    """Return a plain path as DuckDB's JSON functions read it."""
    return "$" + "".join(
        _engine_index(step) if isinstance(step, int) else f".{_engine_name(str(step))}"
        for step in steps
    )


def _engine_name(name: str) -> str:
    """Return a name of a path: DuckDB reads a backslash before quotes and backslashes, and no other escapes of JSON."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def engine_values(document: str, steps: tuple[Step, ...]) -> str:
    """Return the values at a path with wildcards, as SQL: a list of JSON, with the nulls.

    Args:
        document: SQL of JSON, or of the text of it.
    """
    pieces: list[list[Step]] = [[]]
    for step in steps:
        if step is EVERY:
            pieces.append([])
        else:
            pieces[-1].append(step)
    first, *inner, last = (tuple(piece) for piece in pieces)
    values = _children(document, first)
    for piece in inner:
        values = f"flatten(list_transform({values}, lambda e: {_children('e', piece)}))"
    if not last:
        return values
    return f"list_transform({values}, lambda e: json_extract({engine_place('e', last)}))"


def engine_array(document: str, steps: tuple[Step, ...]) -> str:
    """Return what a path with wildcards finds, as SQL: a JSON array, or null."""
    return f"to_json({without_nulls(engine_values(document, steps), is_json=True)})"


def without_nulls(values: str, *, is_json: bool) -> str:
    """Return a list without its nulls, as SQL; null if nothing is left."""
    is_there = "json_type(e) <> 'NULL'" if is_json else "e IS NOT NULL"
    return f"NULLIF(list_filter({values}, lambda e: {is_there}), [])"


def _children(document: str, steps: tuple[Step, ...]) -> str:
    """Return the values of what is at a path: of an array or an object; it cannot be both."""
    array, members = (
        f"TRY(json_extract({engine_place(document, steps, ending)}))" for ending in ("[*]", ".*")
    )
    return f"list_concat({array}, {members})"


def _engine_index(index: int) -> str:
    return f"[{index}]" if index >= 0 else f"[#{index}]"
