"""Patterns of letters for times, as Joda-Time has them, and what they are elsewhere.

Druid's specs and expressions use Joda's letters (`yyyy-MM-dd HH:mm:ss`). The pipeline parses with
strptime directives or Spark's own patterns, so a pattern is taken apart once, here, into tokens.

Source: documentation of org.joda.time.format.DateTimeFormat. Not taken: letters whose meaning
depends on a locale's calendar or that cannot be parsed back (`z` names of zones, eras, centuries).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from carnac.errors import Invalid

_LETTERS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")

_FIELD_BY_LETTER = {
    "y": "year",
    "Y": "year",
    "x": "weekyear",
    "M": "month",
    "d": "day",
    "D": "day_of_year",
    "e": "day_of_week",
    "E": "day_name",
    "w": "week",
    "H": "hour",
    "k": "clock_hour",
    "h": "half_day_hour",
    "K": "half_day_hour_0",
    "m": "minute",
    "s": "second",
    "S": "fraction",
    "a": "half_day",
    "Z": "offset",
}


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of a pattern.

    Attributes:
        field: What it stands for (`year`, `minute`, …), or `text` for characters that stand for
            themselves.
        width: How often the letter is repeated; 0 for `text`.
        text: The characters; empty unless `field` is `text`.
    """

    field: str
    width: int = 0
    text: str = ""


def parse_pattern(pattern: str) -> tuple[Token, ...]:
    """Return the tokens of a Joda pattern.

    Raises:
        Invalid: A quote is left open, or a letter stands for nothing that can be read.
    """
    tokens: list[Token] = []
    for match in _LETTERS.finditer(pattern):
        piece = match.group()
        if piece == "'":
            raise Invalid(f"pattern '{pattern}' has a quote that is not closed", pattern=pattern)
        if match.group(1) is not None:
            tokens.append(Token("text", 0, match.group(1).replace("''", "'") or "'"))
        elif match.group(2) is None:
            tokens.append(Token("text", 0, piece))
        elif piece[0] not in _FIELD_BY_LETTER:
            raise Invalid(
                f"pattern '{pattern}' has the letter '{piece[0]}', which stands for nothing that "
                "can be read; put text into single quotes",
                pattern=pattern,
            )
        else:
            tokens.append(Token(_FIELD_BY_LETTER[piece[0]], len(piece)))
    if not any(token.field != "text" for token in tokens):
        raise Invalid(f"pattern '{pattern}' has no letters that stand for a time", pattern=pattern)
    return tuple(tokens)
