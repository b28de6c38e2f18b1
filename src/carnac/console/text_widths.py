"""Texts of a picture as wide as the picture was laid out for, whatever font its reader has.

A picture is laid out once, by the widths of Helvetica, which are Arial's and Liberation Sans's too. Where none of them
is installed, letters are a seventh wider, and texts side by side would overlap. So every text says how wide it is
(`textLength`), and a viewer fits the letters in; with the right font nothing changes.
"""

from __future__ import annotations

import re
import unicodedata
from html import unescape

_FIRST = " "
_REGULAR = """
278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 584 584
584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 667 667 611 278
278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 278 556 500 722 500 500
500 334 260 334 584
"""
_BOLD = """
278 333 474 556 556 889 722 238 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 333 333 584 584
584 611 975 722 722 722 722 667 611 778 722 278 556 722 611 833 722 778 667 778 722 667 611 722 667 944 667 667 611 333
278 333 584 556 333 556 611 556 611 556 333 611 611 278 278 556 278 889 611 611 611 611 389 556 333 611 556 778 556 556
500 389 280 389 584
"""
REGULAR, BOLD = tuple(map(int, _REGULAR.split())), tuple(map(int, _BOLD.split()))
"""Widths of the printable characters of ASCII, in thousandths of the size. Source: Adobe's metrics of Helvetica."""
_OTHERS = {"…": 1000, "–": 556, "—": 1000, "·": 278, "×": 584, "²": 333, "≤": 549, "▼": 990}
_WIDE, _USUAL = 1000, 556

_TEXT = re.compile(r"<text (?P<attributes>[^>]*)>(?P<content>[^<]+)</text>")
_SIZE = re.compile(r'font-size="(?P<size>[\d.]+)px"')


def text_width(text: str, size: float, *, is_bold: bool = False) -> float:
    """Return how wide a line of text is in Helvetica, in pixels; characters that it has not are estimated."""
    return size * sum(_letter_width(letter, BOLD if is_bold else REGULAR) for letter in text) / 1000


def with_widths(svg: str) -> str:
    """Return a picture whose texts say how wide they are."""
    return _TEXT.sub(_with_width, svg)


def _with_width(text: re.Match[str]) -> str:
    attributes, content = text["attributes"], text["content"]
    size = _SIZE.search(attributes)
    if size is None or "textLength" in attributes:
        return text[0]
    is_bold = 'font-weight="bold"' in attributes
    width = text_width(unescape(content), float(size["size"]), is_bold=is_bold)
    fitted = f'textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f"<text {attributes} {fitted}>{content}</text>"


def _letter_width(letter: str, widths: tuple[int, ...]) -> int:
    place = ord(letter) - ord(_FIRST)
    if 0 <= place < len(widths):
        return widths[place]
    if unicodedata.combining(letter):
        return 0
    is_wide = unicodedata.east_asian_width(letter) in {"F", "W"}
    return _WIDE if is_wide else _OTHERS.get(letter, _USUAL)
