"""The completions at the cursor of a statement: decided from the text alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

_TOKENS = re.compile(
    r"""
      (?P<text>'(?:[^']|'')*(?:'|(?P<open_text>\Z)))
    | (?P<comment>--[^\n]*(?:\n|(?P<open_line>\Z)) | /\*.*?(?:\*/|(?P<open_comment>\Z)))
    | (?P<quoted>"(?P<inner>(?:[^"]|"")*)(?:"|(?P<open_name>\Z)))
    | (?P<word>[^\W\d]\w*)
    | (?P<number>\d[\w.]*)
    | (?P<sign>\S)
    """,
    re.DOTALL | re.VERBOSE,
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_KEYWORDS = """
ALL AND ANY AS ASC BETWEEN BY CASE CAST CROSS DESC DESCRIBE DISTINCT ELSE END EXCEPT EXISTS EXPLAIN FALSE FILTER FROM
FULL GROUP HAVING IN INNER INTERSECT INTERVAL IS JOIN LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OVER PARTITION QUALIFY
RIGHT ROWS SELECT SHOW TABLES THEN TIMESTAMP TRUE UNION USING VALUES WHEN WHERE WINDOW WITH
"""
KEYWORDS = tuple(_KEYWORDS.split())
"""Keywords of statements that the store runs."""
_RESERVED = frozenset(KEYWORDS)
_BEFORE_TABLES = frozenset({"DESCRIBE", "FROM", "JOIN"})
_CLAUSES = _BEFORE_TABLES | {"GROUP", "HAVING", "LIMIT", "ON", "ORDER", "SELECT", "WHERE", "WITH"}


class Kind(Enum):
    """The kinds of completions."""

    NOTHING = auto()
    TABLE = auto()
    COLUMN = auto()
    ANYTHING = auto()


@dataclass(frozen=True, slots=True)
class Context:
    """The place of the cursor in a statement.

    Attributes:
        typed: The part of the name before the cursor, its opening quote included.
        owner: The name before the dot of a column.
    """

    kind: Kind
    typed: str = ""
    owner: str = ""

    @property
    def prefix(self) -> str:
        """The typed beginning of the name."""
        return self.typed.removeprefix('"')


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, a name or a sign of a statement."""

    text: str
    is_quoted: bool = False
    is_word: bool = False

    @property
    def keyword(self) -> str:
        return self.text.upper() if self.is_word else ""

    @property
    def is_name(self) -> bool:
        return self.is_quoted or (self.is_word and self.keyword not in _RESERVED)


def find_context(before: str) -> Context:
    """Return what may come after this part of a statement."""
    tokens: list[_Token] = []
    typed = ""
    for match in _TOKENS.finditer(before):
        if any(match[name] is not None for name in ("open_text", "open_line", "open_comment")):
            return Context(Kind.NOTHING)
        if match["open_name"] is not None or (match["word"] and match.end() == len(before)):
            typed = match[0]
        elif match["number"] and match.end() == len(before):
            return Context(Kind.NOTHING)
        elif not match["comment"]:
            tokens.append(_token(match))
    if tokens and tokens[-1].text == ".":
        return Context(Kind.COLUMN, typed, tokens[-2].text if len(tokens) > 1 else "")
    return Context(_kind_after(tokens), typed)


def _token(match: re.Match[str]) -> _Token:
    if match["quoted"]:
        return _Token(match["inner"].replace('""', '"'), is_quoted=True)
    return _Token(match[0], is_word=bool(match["word"]))


def _kind_after(tokens: Sequence[_Token]) -> Kind:
    """Return what may come after the tokens; a list of tables goes on after a comma."""
    if not tokens:
        return Kind.ANYTHING
    clause = next((one.keyword for one in reversed(tokens) if one.keyword in _CLAUSES), "")
    last = tokens[-1]
    if last.keyword in _BEFORE_TABLES or (last.text == "," and clause in _BEFORE_TABLES):
        return Kind.TABLE
    return Kind.ANYTHING


def tables_of(statement: str, datasources: Collection[str]) -> dict[str, str]:
    """Return the datasources that a statement reads, by every name that it has for them: their own and aliases."""
    by_fold = {name.lower(): name for name in datasources}
    tokens = [_token(match) for match in _TOKENS.finditer(statement) if not match["comment"]]
    found: dict[str, str] = {}
    for context, token in enumerate(tokens):
        if not token.is_name or _kind_after(tokens[:context]) is not Kind.TABLE:
            continue
        name = by_fold.get(token.text.lower())
        if name is None:
            continue
        found[name.lower()] = name
        after = tokens[context + 1 : context + 3]
        if after and after[0].keyword == "AS":
            after = after[1:]
        if after and after[0].is_name:
            found[after[0].text.lower()] = name
    return found


def written(name: str) -> str:
    """Return a name as a statement has it: in quotes where it needs them."""
    if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def matching(context: Context, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the names that begin with the typed text, as a statement has them, each with its description.

    Args:
        names: Descriptions by name; names that need quotes get them.
    """
    prefix = context.prefix.lower()
    found = [(name, words) for name, words in names.items() if name.lower().startswith(prefix)]
    if context.typed.startswith('"'):
        return [('"' + name.replace('"', '""') + '"', words) for name, words in found]
    return [(written(name), words) for name, words in found]
