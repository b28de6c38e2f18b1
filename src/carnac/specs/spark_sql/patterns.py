"""Regular expressions that stand as literals in an expression of Spark SQL, wherever they stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

OPERATORS = frozenset(("rlike", "regexp"))
FUNCTIONS = frozenset(
    (
        "regexp", "regexp_count", "regexp_extract", "regexp_extract_all", "regexp_instr", "regexp_like",
        "regexp_replace", "regexp_substr", "rlike", "split",
    )
)  # fmt: skip
"""Functions whose second argument is a regular expression."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BY_NUMBER = re.compile(r"\\[uU0-9]")
_LETTERS = {"b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class Token(Protocol):
    """A word, sign or text of an expression."""

    @property
    def kind(self) -> str: ...  # noqa: D102 - `word`, `sign`, `text` and others

    @property
    def text(self) -> str: ...  # noqa: D102 - as it is written


def literal_patterns(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the regular expressions; not those with characters that are written as numbers."""
    for place, token in enumerate(tokens):
        name = token.text.lower() if token.kind == "word" else ""
        is_call = [one.text for one in tokens[place + 1 : place + 2]] == ["("]
        if is_call and name in FUNCTIONS:
            yield from _literal(tokens, _second_argument(tokens, place + 2))
        elif name in OPERATORS:
            yield from _literal(tokens, place + 1)


def _second_argument(tokens: Sequence[Token], start: int) -> int:
    """Return where it begins; the end if there is none."""
    depth = 0
    for place in range(start, len(tokens)):
        sign = tokens[place].text if tokens[place].kind == "sign" else ""
        if sign == "," and not depth:
            return place + 1
        depth += (sign in {"(", "[", "{"}) - (sign in {")", "]", "}"})
        if depth < 0:
            break
    return len(tokens)


def _literal(tokens: Sequence[Token], place: int) -> Iterator[str]:
    """Yield the text at a place, unless it is a part of something larger."""
    found, after = tokens[place : place + 1], tokens[place + 1 : place + 2]
    if not found or found[0].kind != "text" or _BY_NUMBER.search(found[0].text):
        return
    if all(one.kind == "word" or one.text in {")", ","} for one in after):
        yield _ESCAPED.sub(lambda one: _LETTERS.get(one[1], one[1]), found[0].text[1:-1])
