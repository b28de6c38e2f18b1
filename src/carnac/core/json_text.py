"""JSON from people: read after a look at how long and how deep it is, and refused in one sentence."""

from __future__ import annotations

import json
import re

from carnac.core.texts import NESTING_MAX, WHOLE_MAX, short
from carnac.errors import Invalid

LENGTH_MAX = 8 << 20
"""Characters of a text that is read as a whole."""
_NOT_BRACKETS = re.compile(r"""[^][{}"'#]+""")
_HALF = re.compile(r"[\ud800-\udfff]|\\[uU](?:0000)?[dD][89a-fA-F]")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def parse_json(text: str, what: str) -> object:
    """Return what a JSON text says; `what` is its name in messages.

    Raises:
        Invalid: It is none; names a field twice; is too long, too deep, or holds a number or a text that nothing keeps.
    """
    check_shape(_TEXT.sub("", text) if len(text) <= LENGTH_MAX else text, what)
    try:
        value = json.loads(text, object_pairs_hook=_once_each, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise Invalid(
            f"the {what} is not valid JSON: line {error.lineno}, column {error.colno}: "
            f"{error.msg[0].lower()}{error.msg[1:]}"
        ) from None
    check_letters(text, value, what)
    return value


def check_letters(text: str, value: object, what: str) -> None:
    """Refuse halves of surrogate pairs in what was read from a text: nothing can be written with them.

    Raises:
        Invalid: There is one.
    """
    if _HALF.search(text) is not None:
        try:
            json.dumps(value, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise Invalid(f"the {what} holds half of a surrogate pair; take it out") from None


def check_shape(text: str, what: str) -> None:
    """Check a text before it is parsed: how long it is, and how deep its brackets are.

    Raises:
        Invalid: It is longer than `LENGTH_MAX`, or deeper than `NESTING_MAX`.
    """
    if len(text) > LENGTH_MAX:
        raise Invalid(f"the {what} has {len(text):,} characters; at most {LENGTH_MAX:,} are read")
    depth = 0
    for bracket in _NOT_BRACKETS.sub("", text):
        depth += (bracket in "[{") - (bracket in "]}")
        if depth > NESTING_MAX:
            raise Invalid(f"the {what} is nested deeper than {NESTING_MAX} levels; make it flatter")


def check_names(names: list[str]) -> None:
    """Refuse an object that names a field twice.

    Raises:
        Invalid: It does.
    """
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        shown = ", ".join(name if name.isprintable() else short(name) for name in repeated)
        raise Invalid(f"{shown} is given more than once; keep one of them")


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    check_names([name for name, _ in pairs])
    return dict(pairs)


def _whole(digits: str) -> int:
    if len(digits) > len(str(WHOLE_MAX)) + 1:
        raise Invalid(f"a number of {len(digits)} digits needs more than 64 bits; write it as text")
    return int(digits)
