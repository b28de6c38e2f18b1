"""Where statements end: the typed text is cut at each `;` that is not part of a text, a name or a comment."""

from __future__ import annotations

import re

_PIECES = re.compile(
    r"""
      '(?:[^']|'')*(?:'|\Z)               # a text; what is not closed goes on to the end
    | "(?:[^"]|"")*(?:"|\Z)               # a name
    | \$(?P<tag>[A-Za-z_]*)\$.*?(?:\$(?P=tag)\$|\Z)
    | (?P<comment>--[^\n]* | /\*.*?(?:\*/|\Z))
    | (?P<end>;)
    """,
    re.DOTALL | re.VERBOSE,
)
LEAVING = frozenset({"exit", "quit"})
"""Words that end the prompt, as they do elsewhere: no statement begins with them."""


def split_statements(text: str) -> tuple[list[str], str]:
    """Return the statements that end with `;`, without it, and what is left; those of comments alone are left out."""
    statements: list[str] = []
    start = 0
    for piece in _PIECES.finditer(text):
        if piece["end"]:
            statements.append(text[start : piece.start()].strip())
            start = piece.end()
    return [one for one in statements if not is_blank(one)], text[start:].strip()


def bare(text: str) -> str:
    """Return a statement with a space in place of each text, quoted name and comment."""
    return _PIECES.sub(lambda piece: ";" if piece["end"] else " ", text)


def is_blank(text: str) -> bool:
    """Whether the text holds comments and spaces alone."""
    return not _PIECES.sub(lambda piece: "" if piece["comment"] else piece[0], text).strip()


def is_dot_command(text: str) -> bool:
    """Whether the text is for the prompt itself."""
    return text.lstrip().startswith(".") or text.strip().rstrip(";").lower() in LEAVING


def is_whole(text: str) -> bool:
    """Whether what was typed can be done as it is, so that Enter does it; otherwise a line follows."""
    if is_dot_command(text):
        return True
    statements, rest = split_statements(text)
    return not rest or (bool(statements) and is_blank(rest))
