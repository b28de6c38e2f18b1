"""How values show themselves to people: as one short line, and as a table in a notebook; texts of strangers in HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from carnac.core.texts import cut, one_line

T_co = TypeVar("T_co", covariant=True)

LINE_MAX = 60
"""Characters of a fact in a line."""
CELL_MAX = 200
"""Characters of a value in a table."""
ROWS_MAX = 20
"""Rows of a table in a notebook."""
_NULL = "<i>null</i>"
UNSHOWABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML has not, control characters and lone surrogates."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Shown:
    """A value that shows itself by facts: names and short texts. Empty facts are left out of its line."""

    __slots__ = ()

    def _facts(self) -> Mapping[str, str]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return facts_line(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        """Return the facts as a table, for a notebook."""
        return facts_table(self._facts())


class Listing(tuple[T_co, ...]):
    """Values of one kind: a tuple, and in a notebook a table with a row for each."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the first of them as a table, for a notebook."""
        rows = [one._facts() for one in self[:ROWS_MAX] if isinstance(one, Shown)]  # noqa: SLF001 - they are its kind
        head = tuple(rows[0]) if rows else ()
        rest = f"the first {ROWS_MAX} of {len(self):,}" if len(self) > ROWS_MAX else ""
        return html_table(head, [list(row.values()) for row in rows], note=rest or f"{len(self):,}")


def facts_line(kind: str, facts: Mapping[str, str]) -> str:
    """Return facts as one line, such as `<Tag: tag good, revision 4>`."""
    words = (f"{name} {one_line(cut(text, LINE_MAX))}" for name, text in facts.items() if text)
    return f"<{kind}: {', '.join(words)}>"


def html_table(
    names: Sequence[str], rows: Iterable[Sequence[str | None]], *, note: str = ""
) -> str:
    """Return a table of texts, each escaped and cut; None is shown as null.

    Args:
        note: Text below it; empty: none.
    """
    head = "".join(f"<th>{escape_text(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    below = f"<p>{escape_text(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def facts_table(facts: Mapping[str, str]) -> str:
    """Return a table of names and texts, a row for each."""
    rows = "".join(
        f"<tr><th>{escape_text(name)}</th>{_cell(text)}</tr>" for name, text in facts.items()
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _cell(text: str | None) -> str:
    return f"<td>{_NULL if text is None else escape_text(cut(text, CELL_MAX))}</td>"


def escape_text(text: str) -> str:
    """Return a text as HTML shows it, between tags and in quoted attributes."""
    return html.escape(UNSHOWABLE.sub(REPLACEMENT, text))
