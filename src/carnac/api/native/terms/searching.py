"""Conditions of searches on a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from carnac.api.native.terms.reading import (
    block_of,
    list_of,
    refused,
    text_of,
)
from carnac.api.native.terms.values import Sql, to_text
from carnac.api.sql.requests import Unreadable
from carnac.core.quoting import quote_text

Test = Callable[[Sql], str]
"""Returns the condition that a value must pass."""
KNOWN = ("contains", "insensitive_contains", "fragment", "regex", "all")


def as_text(value: Sql) -> str:
    """Return a value as filters see it: conditions are `true` and `false`."""
    return to_text(value).text


def search_test(value: object) -> Test:
    """Return the test that a search query makes of a text."""
    query: Mapping[str, Any] = block_of(value, "query")
    kind = str(query.get("type"))
    if kind == "all":
        return lambda one: f"({one.text} IS NOT NULL)"
    if kind == "regex":
        pattern = quote_text(text_of(query, "pattern"))
        return lambda one: f"regexp_matches({as_text(one)}, {pattern})"
    if kind not in {"contains", "insensitive_contains", "fragment"}:
        raise refused(kind, "search query", KNOWN, {})
    parts: list[Any] = list_of(query, "values") if kind == "fragment" else [query.get("value")]
    if not parts or not all(isinstance(part, str) for part in parts):
        raise Unreadable(f"a search query of type {kind} needs a text to look for")
    exact = query.get("caseSensitive", query.get("case_sensitive", kind == "contains")) is True

    def test(one: Sql) -> str:
        text = as_text(one) if exact else f"lower({as_text(one)})"
        wanted = (quote_text(part if exact else part.lower()) for part in parts)
        return f"({' AND '.join(f'contains({text}, {part})' for part in wanted)})"

    return test
