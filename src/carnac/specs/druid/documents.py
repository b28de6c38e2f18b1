"""Druid's functions of JSON documents that no database of ours has.

Source: Druid's documentation of its SQL functions, and answers of Druid 33. Where an answer is a slip of the library
that reads JSON there (a list over an object leaves its first element alone, a null within an object that has no such
key is lost), the value on the right counts, as documented.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from carnac.errors import Invalid

_QUOTED = frozenset(".'\"[]")
"""Signs in a key that is written in brackets."""


def merge_documents(documents: Sequence[str | None]) -> str | None:
    """Return the union of JSON documents; of values with the same key, the last one counts; None: there is none.

    Objects are united at all depths, lists are put together. Nulls among the documents add nothing.

    Raises:
        Invalid: A list, an object or a plain value is to be united with one of another of these kinds, or a document
            is nested too deeply.
    """
    merged: Any = None
    try:
        for document in documents:
            new = None if document is None else json.loads(document)
            if merged is not None and new is not None and _kind(merged) != _kind(new):
                raise Invalid(f"JSON_MERGE cannot unite {_kind(merged)} with {_kind(new)}")
            if new is not None:
                merged = new if merged is None else _merged(merged, new)
        if merged is None:
            return None
        return json.dumps(merged, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise Invalid("JSON_MERGE cannot read a document that is nested so deeply") from None


def paths_of(document: str) -> list[str]:
    """Return the paths of all plain values in a JSON document, and of all lists that hold no other value.

    Raises:
        Invalid: It is nested too deeply.
    """
    try:
        return list(_paths(json.loads(document), "$"))
    except RecursionError:
        raise Invalid("JSON_PATHS cannot read a document that is nested so deeply") from None


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else "a plain value"


def _merged(left: Any, right: Any) -> Any:
    if isinstance(left, dict) and isinstance(right, dict):
        both = {key: _merged(left[key], right[key]) for key in left.keys() & right.keys()}
        return left | right | both
    if isinstance(left, list) and isinstance(right, list):
        return left + right
    return right


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            part = f"['{key}']" if _QUOTED & set(key) else f".{key}"
            yield from _paths(inner, path + part)
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        for place, inner in enumerate(value):
            yield from _paths(inner, f"{path}[{place}]")
    else:
        yield path
