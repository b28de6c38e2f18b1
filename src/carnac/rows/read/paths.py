"""Where in a record a field is: `flattenSpec` and its JSONPaths, for the engine.

A path with wildcards finds an array of the values there, in their order. Nulls and missing fields are left out; if no
value is left, the result is null. So a path means the same in JSON, where a field may be missing, and in columns, where
it can only be null.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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


def engine_path(steps: tuple[Step, ...]) -> str:
    """Return a path to one place as DuckDB's JSON functions read it."""
    return "$" + "".join(
        _engine_index(step) if isinstance(step, int) else "." + json.dumps(step, ensure_ascii=False)
        for step in steps
        if step is not EVERY
    )


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
    return f"list_transform({values}, lambda e: json_extract(e, {_quoted(last)}))"


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
        f"TRY(json_extract({document}, {_quoted(steps, ending)}))" for ending in ("[*]", ".*")
    )
    return f"list_concat({array}, {members})"


def _quoted(steps: tuple[Step, ...], ending: str = "") -> str:
    return "'" + (engine_path(steps) + ending).replace("'", "''") + "'"


def _engine_index(index: int) -> str:
    return f"[{index}]" if index >= 0 else f"[#{index}]"
