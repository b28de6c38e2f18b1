"""JSONPath, as far as `flattenSpec` takes it.

Taken are `$`, `.name`, `['name']`, `["name"]`, `[0]` and `[-1]` (the last), which name one place, and `[*]` and `.*`,
which name every value of an array or object. Slices, unions, filters, `..` and functions are refused.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, TypeAlias

from carnac.specs.base import problem


class _Every(Enum):
    VALUE = "*"


EVERY: Final = _Every.VALUE
"""The step to every value of an array or object."""

Step: TypeAlias = str | int | _Every

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]'"*?()@\s]+)|\[(?P<index>-?\d+)\]|(?P<every>\.\*|\[\s*\*\s*\])"""
    r"""|\[\s*(?P<quoted>'[^']+'|"[^"]+")\s*\]"""
)


def parse_path(expr: str, name: str) -> tuple[Step, ...]:
    """Return the steps of a JSONPath: names of fields, indexes of arrays from 0, or from -1 backwards, and `EVERY`.

    Args:
        name: Of the field that the path is for.

    Raises:
        ValueError: It is none, or one of a kind that is not taken.
    """
    if not expr.startswith("$"):
        raise problem(f"field '{name}' of type path needs an expr that starts with $, like $.a.b")
    steps: list[Step] = []
    at = 1
    while at < len(expr):
        match = _STEP.match(expr, at)
        if match is None:
            raise problem(
                f"path '{expr}' of field '{name}' cannot be read at '{expr[at:]}'; of JSONPath are taken names, "
                "indexes and wildcards, like $.a.b[0], $['a b'], $.a[-1] and $.a[*].b"
            )
        if match["index"] is not None:
            steps.append(int(match["index"]))
        elif match["every"] is not None:
            steps.append(EVERY)
        else:
            steps.append(match["name"] or match["quoted"][1:-1])
        at = match.end()
    return tuple(steps)
