"""Words within calls of Druid's SQL that DuckDB does not parse become arguments.

    FLOOR(x TO HOUR)                  date_trunc('hour', x)
    CEIL(x TO HOUR)                   TIME_CEIL(x, 'PT1H')
    JSON_VALUE(x, '$.a' RETURNING T)  JSON_VALUE(x, '$.a', 'T')
    JSON_OBJECT(KEY 'a' VALUE x)      JSON_OBJECT('a', x)
    JSON_OBJECT('a': x)               JSON_OBJECT('a', x)
    POSITION(x IN y FROM 3)           "position"(x, y, 3)
    TABLE(APPEND('a', 'b'))           (FROM "a" UNION ALL BY NAME FROM "b")

Source of the forms: Druid's documentation of its SQL functions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from carnac.core.druid.times import PERIODS
from carnac.core.quoting import quote

_PARTS = tuple(
    tuple(re.compile(part, re.IGNORECASE) for part in parts)
    for parts in (
        (r"\b(?:floor|ceil|ceiling)\s*\(", r"\bto\s+[a-z]+\s*\)"),
        (r"\bjson_(?:value|object)\s*\(",),
        (r"\bposition\s*\(", r"\bfrom\b"),
        (r"\bappend\s*\(",),
    )
)
"""What a statement with one of the forms has in it somewhere.

Each part is searched alone: a pattern of two of them looks for the second from each place of the first.
"""
_WORDS = re.compile(
    r"""(?P<pair>(?:\bkey\s+)?(?P<name>'(?:[^']|'')*')\s*(?:\bvalue\b|:(?!:)))
    | \btable\s*\(\s*append\s*\(\s*(?P<tables>(?:'(?:[^']|'')*'\s*,?\s*)+)\)\s*\)
    | '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?(?:\*/|\Z)
    | \b(?P<call>floor|ceil|ceiling|json_value|json_object|position)\s*\( | (?P<open>[(\[{])
    | \b(?P<word>in|from)\b
    | (?P<to>\bto\s+(?P<unit>[a-z]+)\s*(?=\)))
    | (?P<returning>\breturning\s+(?P<type>[a-z]+(?:\s+array)?)\s*(?=\)))
    | (?P<close>[)\]}])""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


_TEXT = re.compile(r"'(?:[^']|'')*'")


@dataclass(slots=True)
class _Call:
    """A call whose parenthesis is open; without a name: of another function, or a bracket.

    Attributes:
        searched: Where the IN of a search stands; None: none was read.
    """

    name: str = ""
    place: tuple[int, int] = (0, 0)
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    searched: tuple[int, int] | None = None

    def take(self, found: re.Match[str]) -> None:
        """Note what a word within the call becomes."""
        if found["to"] and self.name in {"floor", "ceil", "ceiling"}:
            unit = found["unit"].lower()
            is_floor = self.name == "floor"
            head = f"date_trunc('{unit}', " if is_floor else "TIME_CEIL("
            tail = "" if is_floor else f", '{PERIODS.get(unit, unit)}'"
            self.edits += [(*self.place, head), (*found.span(), tail)]
        elif found["returning"] and self.name == "json_value":
            self.edits.append((*found.span(), f", '{found['type']}'"))
        elif found["word"] and self.name == "position":
            self._search(found)
        elif found["pair"] and self.name == "json_object":
            self.edits.append((*found.span(), f"{found['name']},"))

    def _search(self, found: re.Match[str]) -> None:
        """Note the words of a search, which has both of them; without FROM it is DuckDB's own."""
        if found["word"].lower() == "in":
            self.searched = found.span()
        elif self.searched is not None and not self.edits:
            self.edits += [
                (*self.place, '"position"('),
                (*self.searched, ","),
                (*found.span(), ","),
            ]


def without_clauses(sql: str) -> str:
    """Return the statement with those words as arguments. Other forms stay, for DuckDB to refuse."""
    if not any(all(part.search(sql) for part in parts) for parts in _PARTS):
        return sql
    opened: list[_Call] = []
    edits: list[tuple[int, int, str]] = []
    for found in _WORDS.finditer(sql):
        if found["tables"]:
            tables = (quote(one[1:-1].replace("''", "'")) for one in _TEXT.findall(found["tables"]))
            edits.append((*found.span(), f"(FROM {' UNION ALL BY NAME FROM '.join(tables)})"))
        elif found["call"] or found["open"]:
            opened.append(_Call((found["call"] or "").lower(), found.span()))
        elif opened and found["close"]:
            edits += opened.pop().edits
        elif opened:
            opened[-1].take(found)
    pieces: list[str] = []
    at = 0
    for start, end, text in sorted(edits):
        pieces += [sql[at:start], text]
        at = end
    return "".join([*pieces, sql[at:]])
