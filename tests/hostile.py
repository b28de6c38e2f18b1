"""Hostile texts, numbers and values, which every fuzzer puts through the doors of the product."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

from hypothesis import strategies as st

DEEP = 900
"""Levels of nesting that a parser takes and a recursive function does not."""
LONG = 100_000
"""Characters that no name has."""

UNFIT_LETTERS = (
    "\0",
    "\x01",
    "\x07",
    "\x08",
    "\x1b",
    "\x7f",
    "\x85",
    "\x9b",
    "\ud800",
    "\udbff",
    "\udc00",
    "\udfff",
)
"""Controls of both blocks and halves of surrogate pairs: no text may have them."""
LINE_ENDS = ("\n", "\r", "\r\n", "\t", "\x0b", "\x0c", "\u2028", "\u2029")
_BEFORE_OR_AFTER = st.text("ab", max_size=2)

unfit_texts: st.SearchStrategy[str] = st.builds(
    "{}{}{}".format, _BEFORE_OR_AFTER, st.sampled_from(UNFIT_LETTERS), _BEFORE_OR_AFTER
)
"""Texts that every door refuses."""
unfit_names: st.SearchStrategy[str] = unfit_texts | st.builds(
    "{}{}{}".format, _BEFORE_OR_AFTER, st.sampled_from(LINE_ENDS), _BEFORE_OR_AFTER
)
"""Names that every door refuses."""
odd_texts: st.SearchStrategy[str] = st.sampled_from(
    (
        "",
        " ",
        "\u00a0",
        " a",
        "a ",
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "C:\\a",
        "%00",
        "%2e%2e%2f",
        "%s%n",
        "{0}",
        "$(id)",
        "`id`",
        "${jndi:ldap://a/b}",
        "-rf",
        "--help",
        "'",
        '"',
        "''",
        "'; DROP TABLE tasks; --",
        '" OR ""="',
        "a`b",
        "\\u0000",
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "]]>",
        "&amp;",
        "null",
        "None",
        "true",
        "NaN",
        "0",
        "-1",
        "1e999",
        "2015-09-12",
        "2015-09-12/2015-09-13",
        "*",
        "?",
        "#",
        "a=b",
        "a,b",
        "a:b",
        "\u200f\u202eabc",
        "\u2066a\u2069",
        "\u200b",
        "\ufeff",
        "\ufffe",
        "\U0010ffff",
        "e\u0301" * 20,
        "a" + "\u0316" * 50,
        "😀👩‍👩‍👧‍👦",
        "ﷺ",
        "İ",
        "ß",
        "ǆ",
        "x" * 255,
        "x" * 256,
        "ä" * 255,
        "x" * LONG,
    )
)
"""Texts that a door takes or refuses, and that nothing inside may misread."""
texts: st.SearchStrategy[str] = unfit_names | odd_texts | st.text(max_size=8)

numbers: st.SearchStrategy[int | float] = st.sampled_from(
    (
        0,
        -1,
        -0.0,
        0.1,
        5e-324,
        1e308,
        math.inf,
        -math.inf,
        math.nan,
        2**31,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**63 + 1,
        -(2**63),
        -(2**63) - 1,
        2**64,
        10**23,
        10**400,
    )
)


def nested(depth: int, *, key: str | None = None) -> object:
    """Return lists inside one another, or objects under that key."""
    value: object = 1
    for _ in range(depth):
        value = [value] if key is None else {key: value}
    return value


nestings: st.SearchStrategy[object] = st.sampled_from(
    (
        nested(DEEP),
        nested(DEEP, key="a"),
        nested(DEEP, key="context"),
        [[]] * 1_000,
        {f"k{number}": number for number in range(10_000)},
        list(range(10_000)),
    )
)
"""Values that are deep, or wide."""
scalars: st.SearchStrategy[object] = st.none() | st.booleans() | numbers | texts
values: st.SearchStrategy[object] = nestings | st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
"""Anything that Python reads from JSON."""


def as_json(value: object) -> bytes:
    """A body; half surrogate pairs as escapes, and what is too deep for the encoder as brackets."""
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return b'{"a":' * DEEP + b"1" + b"}" * DEEP


def places(value: object) -> Iterator[tuple[object, ...]]:
    """Where something can be replaced in a value."""
    yield ()
    inner: Sequence[tuple[object, object]] = ()
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    for key, item in inner:
        for place in places(item):
            yield (key, *place)


def replaced(value: object, place: tuple[object, ...], by: object) -> object:
    """Return a value with something else in a place."""
    if not place:
        return by
    changed = cast("Any", copy.deepcopy(value))
    at = changed
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = by
    return changed
