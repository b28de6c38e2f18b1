"""Where in a record a field is: `flattenSpec` and JSONPath.

Taken of JSONPath: `$`, `.name`, `['name']`, `["name"]`, `[0]` and `[-1]` (the last), which name one place. Wildcards,
filters, slices and functions do not, and are refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.specs.inputs import FlattenSpec

Step = str | int

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]'"*?()@\s]+)|\[(?P<index>-?\d+)\]|\[\s*(?P<quoted>'[^']*'|"[^"]*")\s*\]"""
)


def parse_path(expr: str, name: str) -> tuple[Step, ...]:
    """Return the steps of a JSONPath: names of fields, and indexes of arrays from 0, or from -1 backwards.

    Raises:
        Invalid: It is not a path to one place.
    """
    steps: list[Step] = []
    at = 1
    while at < len(expr):
        match = _STEP.match(expr, at)
        if match is None:
            raise Invalid(
                f"path '{expr}' of field '{name}' cannot be read at '{expr[at:]}'; "
                "use names and indexes, like $.a.b[0] or $['a b']",
                path=expr,
            )
        if match["index"] is not None:
            steps.append(int(match["index"]))
        else:
            steps.append(match["name"] or match["quoted"][1:-1])
        at = match.end()
    return tuple(steps)


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
    """Return where the fields are that a `flattenSpec` describes; None: the top level as it is.

    Raises:
        Invalid: A path cannot be read.
    """
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
    """Return the path as DuckDB's JSON functions read it."""
    return "$" + "".join(
        _engine_index(step) if isinstance(step, int) else "." + json.dumps(step, ensure_ascii=False)
        for step in steps
    )


def _engine_index(index: int) -> str:
    return f"[{index}]" if index >= 0 else f"[#{index}]"
