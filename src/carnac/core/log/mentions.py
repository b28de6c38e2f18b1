"""Texts of an erased condition within other texts: whether one mentions them, and what is left of it without them.

Upper and lower case are one. A quote may be doubled, as within SQL, and a text that is searched may be JSON. A text
that is part of a longer word is another text: `carl` is not in `Carlsberg`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

GAP = "…"
"""Stands for what is taken out."""
NESTED_MAX = 3
"""How deep a text is looked for in JSON that is a text in JSON."""
_DEPTH_MAX = 40
_WORD = "[^\\W_\u0e00-\U0010ffff]"
"""Letters and digits of scripts that write something between words: others have no end of a word to look for."""
_EDGE = f"(?:(?<!{_WORD})|(?!{_WORD}))"
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Mentions:
    """Finds any of some texts; thousands of them take little longer than one.

    Args:
        texts: Empty ones are nowhere.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        folded = {text.casefold() for text in texts if text}
        forms = folded | {text.replace("'", "''") for text in folded}
        self._pattern = re.compile(f"{_EDGE}{_one_of(sorted(forms), 0)}{_EDGE}") if forms else None

    def is_in(self, text: str | None) -> bool:
        """Whether a text mentions one of them, as it is or as JSON."""
        if self._pattern is None or not text:
            return False
        for _ in range(NESTED_MAX):
            if self._pattern.search(text.casefold()):
                return True
            if "\\" not in text:
                return False
            text = _unescaped(text)
        return False

    def without(self, text: str) -> str:
        """Return what is left of a text, with `GAP` for each mention, or for all of it if one is in escapes of JSON."""
        if not self.is_in(text) or self._pattern is None:
            return text
        parts = [letter.casefold() for letter in text]  # one letter may be two
        places = [place for place, part in enumerate(parts) for _ in part]
        left, end = [], 0
        for found in self._pattern.finditer("".join(parts)):
            left.append(text[end : places[found.start()]])
            end = places[found.end() - 1] + 1
        shown = GAP.join([*left, text[end:]])
        return GAP if self.is_in(shown) else shown


def _one_of(texts: Sequence[str], depth: int) -> str:
    """Return the pattern of sorted texts: those with one beginning share it, so that a search tries few."""
    if depth == _DEPTH_MAX:
        return f"(?:{'|'.join(re.escape(one) for one in reversed(texts))})"
    branches = []
    for _, group in groupby((one for one in texts if one), key=lambda one: one[0]):
        alike = list(group)
        shared = _shared(alike[0], alike[-1])
        rest = [one[len(shared) :] for one in alike]
        branches.append(re.escape(shared) + ("" if rest == [""] else _one_of(rest, depth + 1)))
    return f"(?:{'|'.join(branches)})" + ("?" if "" in texts else "")


def _shared(first: str, last: str) -> str:
    """Return the beginning that two texts share, and all that are sorted between them."""
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((place for place, (one, other) in pairs if one != other), len(first))]


def _unescaped(text: str) -> str:
    """Return a text with the escapes of JSON undone, wherever they are."""
    plain = _ESCAPE.sub(_letter, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _letter(found: re.Match[str]) -> str:
    escaped = found[1]
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _CONTROLS.get(escaped, escaped)
