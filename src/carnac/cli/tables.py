"""Aligned tables of plain text, and how numbers, sizes and times are written for people."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from carnac.core.time.intervals import MAX_MS, MIN_MS, format_ms
from carnac.core.time.intervals import interval_text as interval_text  # noqa: PLC0414
from carnac.core.words import bytes_text as bytes_text  # noqa: PLC0414  # commands find all their words here
from carnac.core.words import counted as counted  # noqa: PLC0414
from carnac.core.words import number_text as number_text  # noqa: PLC0414

GAP = "  "
MIN_WIDTH = 8
PROSE_WIDTH = 30
"""A column of sentences that has less room than this gives it up: its texts stand below their rows."""
INDENT = "    "


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title, how it is aligned, and whether it may be cut to fit a terminal.

    Attributes:
        is_number: Right-aligned, and never cut.
        is_whole: Text that is of no use when it is cut, such as a time.
        is_prose: Sentences, in the last column, which are broken over lines and never cut.
    """

    title: str
    is_number: bool = False
    is_whole: bool = False
    is_prose: bool = False


def columns_of(titles: str) -> list[Column]:
    """Return columns from their titles between bars.

    Args:
        titles: `#` ends that of a number, `!` that of a whole text, `~` that of prose.
    """
    words = [word.strip() for word in titles.split("|")]
    return [
        Column(
            word.rstrip("#!~"),
            is_number=word.endswith("#"),
            is_whole=word.endswith("!"),
            is_prose=word.endswith("~"),
        )
        for word in words
    ]


def render_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, width: int | None = None
) -> list[str]:
    """Return the lines of a table: titles, a rule, then the rows.

    Args:
        width: Width of the terminal; text columns are cut with `…` to fit into it, prose is broken. None: as wide as
            it is.
    """
    titles = [printable(column.title, keep="") for column in columns]
    cells = [[printable(cell, keep="") for cell in row] for row in rows]
    widths = [
        max(text_width(title), *(text_width(row[i]) for row in cells), 0)
        for i, title in enumerate(titles)
    ]
    whole = widths[-1]
    if width is not None:
        _shrink(widths, columns, width)
    rule = GAP.join("─" * size for size in widths)
    if columns[-1].is_prose and width is not None:
        is_cramped = widths[-1] < min(whole, PROSE_WIDTH) or len(rule) > width
        if is_cramped:
            return _with_prose_below(columns, cells, width)
    lines = [_line(titles, columns, widths), rule]
    for row in cells:
        *others, last = row
        pieces = _broken(last, widths[-1]) if columns[-1].is_prose else [last]
        lines.append(_line([*others, pieces[0]], columns, widths))
        lines.extend(_line([*[""] * len(others), more], columns, widths) for more in pieces[1:])
    return lines


def _with_prose_below(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int
) -> list[str]:
    """Return the lines of a table without its last column, whose texts stand below their rows."""
    head, rule, *rows = render_table(columns[:-1], [row[:-1] for row in cells], width=width)
    lines = [head, rule]
    for line, row in zip(rows, cells, strict=True):
        below = _broken(row[-1], max(MIN_WIDTH, width - len(INDENT))) if row[-1] else []
        lines += [line, *(f"{INDENT}{piece}".rstrip() for piece in below)]
    return lines


def text_width(text: str) -> int:
    """Return how many cells of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def format_seconds(seconds: float) -> str:
    """Return `0.35 s`, `12.4 s`, `3 min 5 s`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def format_age(duration_ms: int) -> str:
    """Return `0 s`, `12 s`, `3 min`, `5 h`, `2 d`: how long ago, roughly."""
    seconds = max(0, duration_ms) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def short_ms(at_ms: int) -> str:
    """Return an instant as short as is exact, such as `2013-02-01` or `2013-02-01 05:30`."""
    if at_ms <= MIN_MS:
        return "-∞"
    if at_ms >= MAX_MS:
        return "∞"
    day, _, time = format_ms(at_ms).removesuffix("Z").partition("T")
    for ending in (":00.000", ".000"):
        if time.endswith(ending):
            time = time.removesuffix(ending)
            break
    return day if time == "00:00" else f"{day} {time}"


def second_ms(at_ms: int) -> str:
    """Return an instant to the second, `2013-02-01 05:30:00`, UTC."""
    return format_ms(at_ms)[:19].replace("T", " ")


def _line(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    parts = []
    for cell, column, size in zip(row, columns, widths, strict=True):
        text = _cut(cell, size)
        pad = " " * (size - text_width(text))
        parts.append(pad + text if column.is_number else text + pad)
    return GAP.join(parts).rstrip()


def _shrink(widths: list[int], columns: Sequence[Column], width: int) -> None:
    """Take cells from the widest text column until the table fits or nothing can be cut."""
    while sum(widths) + len(GAP) * (len(widths) - 1) > width:
        texts = [
            i
            for i, column in enumerate(columns)
            if not (column.is_number or column.is_whole)
            and widths[i] > max(MIN_WIDTH, text_width(printable(column.title, keep="")))
        ]
        if not texts:
            return
        widest = max(texts, key=lambda i: widths[i])
        widths[widest] -= 1


def _cut(text: str, size: int) -> str:
    return text if text_width(text) <= size else _head(text, size - 1) + "…"


def _head(text: str, size: int) -> str:
    """Return as much of the beginning as fits into so many cells."""
    kept, used = [], 0
    for char in text:
        used += _char_width(char)
        if used > size:
            break
        kept.append(char)
    return "".join(kept)


def _broken(text: str, size: int) -> list[str]:
    """Return the text in lines of so many cells, broken at blanks, or inside of what is longer."""
    lines = []
    while text_width(text) > size:
        head = _head(text, size)
        ends = len(head) if text[len(head)] == " " else head.rfind(" ")
        at = ends if ends > 0 else len(head)
        lines.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return [*lines, text] if text or not lines else lines


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Cf", "Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"F", "W"} else 1


def printable(text: str, *, keep: str = "\n\t") -> str:
    """Return a text as a terminal may get it: control characters are shown, where it would obey them.

    Args:
        keep: Those that it may obey.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
