"""Patterns of letters for times, as Joda-Time has them, and their equivalents elsewhere.

Druid's specs and expressions use Joda's letters (`yyyy-MM-dd HH:mm:ss`). DuckDB reads and prints by
directives (`%Y-%m-%d`), so a pattern is taken apart once, here, into tokens.

Source: documentation of org.joda.time.format.DateTimeFormat. Not taken: letters whose meaning
depends on a locale's calendar or that cannot be parsed back (`z` names of zones, eras, centuries).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass

from carnac.errors import Invalid

_LETTERS = re.compile(r"'((?:[^']|'')*)(?:'|\Z)|([A-Za-z])\2*|[^A-Za-z']+")

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
        field: Field of a time that it stands for (`year`, `minute`, …), or `text` for characters that stand for
            themselves.
        width: How often the letter is repeated; 0 for `text`.
        text: The characters; empty unless `field` is `text`.
    """

    field: str
    width: int = 0
    text: str = ""


def parse_pattern(pattern: str) -> tuple[Token, ...]:
    """Return the tokens of a Joda pattern. A quote that is left open lasts until the end, as it does there.

    Raises:
        Invalid: A letter stands for nothing that can be read.
    """
    tokens: list[Token] = []
    for match in _LETTERS.finditer(pattern):
        piece = match.group()
        if match.group(1) is not None:
            _add_text(tokens, "'" if piece == "''" else match.group(1).replace("''", "'"))
        elif match.group(2) is None:
            _add_text(tokens, piece)
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


def _add_text(tokens: list[Token], text: str) -> None:
    if not text:
        return
    if tokens and tokens[-1].field == "text":
        text = tokens.pop().text + text
    tokens.append(Token("text", 0, text))


_READ: Mapping[str, Mapping[int, str]] = {
    "year": {0: "%Y", 2: "%y"},
    "weekyear": {1: "%G", 4: "%G"},
    "week": {0: "%V"},
    "day_of_week": {0: "%u"},
    "month": {0: "%B", 1: "%m", 2: "%m", 3: "%b"},
    "day": {0: "%d"},
    "day_of_year": {0: "%j"},
    "day_name": {0: "%A", 1: "%a", 2: "%a", 3: "%a"},
    "hour": {0: "%H"},
    "half_day_hour": {0: "%I"},
    "minute": {0: "%M"},
    "second": {0: "%S"},
    "fraction": {0: "%f", 3: "%g", 9: "%n"},
    "half_day": {0: "%p"},
    "offset": {0: "%Z", 1: "%z", 2: "%z"},
}
"""Specifiers of DuckDB's `strptime`, by field and width; 0: any other width."""
_PRINTED: Mapping[str, Mapping[int, str]] = {
    "year": {1: "%Y", 2: "%y", 4: "%Y"},
    "weekyear": {4: "%G"},
    "month": {1: "%-m", 2: "%m", 3: "%b", 4: "%B"},
    "week": {2: "%V"},
    "day": {1: "%-d", 2: "%d"},
    "day_of_year": {1: "%-j", 3: "%j"},
    "day_name": {1: "%a", 2: "%a", 3: "%a", 4: "%A"},
    "day_of_week": {1: "%u"},
    "hour": {1: "%-H", 2: "%H"},
    "half_day_hour": {1: "%-I", 2: "%I"},
    "minute": {1: "%-M", 2: "%M"},
    "second": {1: "%-S", 2: "%S"},
    "fraction": {3: "%g"},
    "half_day": {1: "%p"},
    "offset": {1: "+0000", 2: "+00:00"},
}
"""Specifiers of DuckDB's `strftime` for a time in UTC, by field and width."""
_OF_WEEKS = {"weekyear", "week", "day_of_week"}
_OF_YEARS = {"year", "month", "day", "day_of_year"}


def has_offset(pattern: str) -> bool:
    """Whether times of this pattern name their own zone or offset.

    Raises:
        Invalid: It is not a pattern.
    """
    return any(token.field == "offset" for token in parse_pattern(pattern))


def has_names(pattern: str) -> bool:
    """Whether times of this pattern hold words, which are of a language.

    Raises:
        Invalid: It is not a pattern.
    """
    return any(
        token.field in {"day_name", "half_day"} or (token.field == "month" and token.width > 2)
        for token in parse_pattern(pattern)
    )


def to_strptime(pattern: str) -> str:
    """Return the pattern as strptime directives, as DuckDB reads them (`%g` is milliseconds).

    Raises:
        Invalid: It is not a pattern, has a part that strptime cannot read, or parts that name no time together.
    """
    directives = _directives(pattern, _READ, "read")
    fields = {token.field for token in parse_pattern(pattern)}
    why = _no_time(fields)
    if why:
        raise Invalid(f"pattern '{pattern}' {why}", pattern=pattern)
    return directives


def _no_time(fields: Set[str]) -> str:
    """Return why fields name no time together; empty if they do."""
    if not fields & {"year", "weekyear"}:
        return "has no year, so it names no time"
    if fields & _OF_WEEKS and (not _OF_WEEKS - {"day_of_week"} <= fields or fields & _OF_YEARS):
        return "mixes years with weeks; write both of a week, as in xxxx-'W'ww or xxxx-'W'ww-e"
    if {"hour", "half_day"} <= fields:
        return "has H beside a; write h for the hours of half a day"
    return ""


def to_strftime(pattern: str) -> str:
    """Return the pattern as the directives by which DuckDB's `strftime` prints a time in UTC.

    Raises:
        Invalid: It is not a pattern, or has a part that no directive prints.
    """
    return _directives(pattern, _PRINTED, "printed")


def _directives(pattern: str, table: Mapping[str, Mapping[int, str]], what: str) -> str:
    pieces: list[str] = []
    for token in parse_pattern(pattern):
        if token.field == "text":
            pieces.append(token.text.replace("%", "%%"))
            continue
        widths = table.get(token.field, {})
        directive = widths.get(token.width, widths.get(0))
        if directive is None:
            raise Invalid(
                f"pattern '{pattern}' has a part that cannot be {what}: {token.field}",
                pattern=pattern,
            )
        pieces.append(directive)
    return "".join(pieces)
