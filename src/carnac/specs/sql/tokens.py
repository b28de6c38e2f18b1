"""Tokens of a SQL text, as far as the words around a SELECT need them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from carnac.errors import Invalid

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<endless>/\*)
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<word>[^\W\d]\w*)
    | (?P<number>\d[\w.]*)
    | (?P<sign>>=|<=|<>|[^'"])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token.

    Attributes:
        kind: `word`, `quoted`, `text`, `number` or `sign`.
        value: A word in capitals; a name or a text without its quotes; else as it is written.
        name: The same, but a word as it is written.
        start, end: Its place, as `text[start:end]`.
        depth: How many parentheses are open around it; both parentheses of a pair count as inside.
    """

    kind: str
    value: str
    name: str
    start: int
    end: int
    depth: int


def tokens_of(sql: str) -> list[Token]:
    """Return the tokens; comments and blanks are none.

    Raises:
        Invalid: A quote or a comment has no end.
    """
    found: list[Token] = []
    at = depth = 0
    while at < len(sql):
        match = _TOKEN.match(sql, at)
        if match is None:
            raise Invalid(f"the quote at character {at + 1} of the statement has no end")
        kind = str(match.lastgroup)
        if kind == "endless":
            raise Invalid(f"the comment at character {at + 1} of the statement has no end")
        at = match.end()
        if kind == "space":
            continue
        depth += match[0] == "("
        name = _without_quotes(kind, match[0])
        value = name.upper() if kind == "word" else name
        found.append(Token(kind, value, name, match.start(), at, depth))
        depth -= match[0] == ")"
    return found


def words_at(tokens: Sequence[Token], at: int, *words: str) -> bool:
    """Whether these words or signs stand there, one after the other."""
    some = tokens[at : at + len(words)]
    return len(some) == len(words) and all(
        one.kind in {"word", "sign"} and one.value == word
        for one, word in zip(some, words, strict=True)
    )


def _without_quotes(kind: str, text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0]) if kind in {"text", "quoted"} else text
