"""Parts of Druid's JSON: of native queries, and of filters in specs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from carnac.core.texts import short
from carnac.errors import Invalid
from carnac.specs.problems import suggest

Block = Mapping[str, Any]
DEPTH_MAX = 50
"""Deepest nesting of filters, post-aggregators and data sources."""


def check_depth(depth: int, what: str) -> None:
    """Check that something is not nested too deep."""
    if depth > DEPTH_MAX:
        raise Invalid(f"{what} are nested more than {DEPTH_MAX} deep")


def block_of(value: object, what: str) -> Block:
    """Return an object."""
    if not isinstance(value, Mapping):
        raise Invalid(f"{what} must be an object, not {short(value)}")
    return value


def blocks_of(owner: Block, name: str) -> list[Block]:
    """Return a list of objects, empty if it is not said."""
    return [block_of(one, f"each of {name}") for one in list_of(owner, name)]


def list_of(owner: Block, name: str) -> list[Any]:
    """Return a list, empty if it is not said."""
    value = owner.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise Invalid(f"{name} must be a list, not {short(value)}")
    return value


def text_of(owner: Block, *names: str, what: str = "") -> str:
    """Return the first of the texts that is said."""
    value = next((owner[name] for name in names if owner.get(name) is not None), None)
    if not isinstance(value, str) or not value:
        where = what or f"'{owner.get('type', owner.get('queryType', ''))}'"
        raise Invalid(f"{where} needs {names[0]} as a text, not {short(value)}")
    return value


def said(value: object) -> str:
    """Return the text of a value.

    Raises:
        Invalid: It is a list or an object, which no text stands for.
    """
    if isinstance(value, list | Mapping):
        raise Invalid(f"{short(value)} stands where a text, a number or null must be")
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def whole_of(owner: Block, name: str, default: int | None, *, least: int = 0) -> int | None:
    """Return a whole number, which may be a text."""
    value = owner.get(name)
    if value is None:
        return default
    try:
        number = (
            int(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
        )
    except ValueError:
        number = None
    if number is None or not least <= number < 1 << 63:
        raise Invalid(f"{name} must be a whole number of at least {least}, not {short(value)}")
    return number


def flag_of(owner: Block, name: str, *, default: bool = False) -> bool:
    """Return a flag, which may be a text, as old clients send it. Any other value gives the default."""
    value = owner.get(name)
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(str(value).lower(), default)


def refused(kind: object, what: str, known: Iterable[str], absent: Mapping[str, str]) -> Invalid:
    """Return what to raise about a type that is not translated.

    Args:
        known: Types that are.
        absent: Types of Druid that are not, and what to do instead.
    """
    name = str(kind)
    if name in absent:
        return Invalid(f"{what} '{name}' is not supported; {absent[name]}")
    return Invalid(f"there is no {what} {short(kind)}{suggest(name, list(known))}")
