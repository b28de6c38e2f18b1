"""Texts of strangers in HTML and XML: the one function that escapes them."""

from __future__ import annotations

import html
import re

UNSHOWABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML has not, control characters and lone surrogates."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def escape_text(text: str) -> str:
    """Return a text as HTML shows it, between tags and in quoted attributes."""
    return html.escape(UNSHOWABLE.sub(REPLACEMENT, text))
