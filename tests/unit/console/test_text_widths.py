"""Pictures where neither Helvetica nor Arial is installed: drawn with DejaVu alone, no text touches another."""

from __future__ import annotations

import html
import re
import struct
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from carnac.console.export import render_chart
from carnac.console.looks import chart_head
from carnac.console.text_widths import text_width, with_widths
from tests.house.checkout import ROOT
from tests.nightly import by_day

FONT = "DejaVu Sans"
PICTURES = sorted((ROOT / "docs" / "images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
MARGIN = 2
"""Pixels by which letters may reach beyond their own width."""
SYMBOL = 6
"""Half of a symbol of a legend."""


class Box(NamedTuple):
    """Where something is drawn, in pixels."""

    what: str
    left: float
    top: float
    right: float
    bottom: float

    def touches(self, other: Box) -> bool:
        return (
            self.left + MARGIN < other.right
            and other.left + MARGIN < self.right
            and self.top + MARGIN < other.bottom
            and other.top + MARGIN < self.bottom
        )


def opacity(png: bytes) -> np.ndarray:
    """Return how opaque each pixel of a PNG file of four bytes a pixel is; a filter looks at no other bytes of them."""
    place, parts, size = 8, [], (0, 0)
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        kind, data = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            size = struct.unpack_from(">II", data)
        elif kind == b"IDAT":
            parts.append(data)
        place += length + 12
    width, height = size
    lines = np.frombuffer(zlib.decompress(b"".join(parts)), np.uint8).reshape(height, 1 + 4 * width)
    above = np.zeros(width, np.uint8)
    rows = []
    for line in lines:
        above = unfiltered(int(line[0]), line[4::4], above)
        rows.append(above)
    return np.array(rows)


def unfiltered(kind: int, line: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return a line of a PNG file, of one byte a pixel, without its filter."""
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, dtype=np.uint8)
    if kind == 2:
        return line + above
    left, corner, found = 0, 0, []
    for value, up in zip(line.tolist(), above.tolist(), strict=True):
        if kind == 3:
            added = (left + up) // 2
        else:
            guess = left + up - corner
            far = (abs(guess - left), abs(guess - up), abs(guess - corner))
            added = (left, up, corner)[far.index(min(far))]
        left, corner = (value + added) & 0xFF, up
        found.append(left)
    return np.array(found, np.uint8)


@cache
def drawn_width(content: str, size: float, *, is_bold: bool, length: str | None) -> float:
    """Return how wide a text is, drawn with DejaVu alone."""
    import vl_convert

    weight = 'font-weight="bold"' if is_bold else ""
    fitted = f'textLength="{length}" lengthAdjust="spacingAndGlyphs"' if length else ""
    width = int(20 + len(content) * size)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{int(2 * size)}">'
        f'<text transform="translate(8,{1.5 * size})" font-family="{FONT}" font-size="{size}px" {weight} {fitted}>'
        f"{html.escape(content)}</text></svg>"
    )
    inked = np.nonzero(opacity(vl_convert.svg_to_png(svg)).max(axis=0))[0]
    return float(inked.max() - inked.min() + 1) if len(inked) else 0.0


def boxes(svg: str) -> Iterator[Box]:
    """Yield where texts and the symbols of legends are, as they are drawn with DejaVu."""
    stack = [(ET.fromstring(svg), 0.0, 0.0, False, 1.0)]
    while stack:
        node, x, y, is_turned, seen = stack.pop()
        transform = node.get("transform", "")
        move = re.match(r"translate\(([-\d.]+),([-\d.]+)\)", transform)
        if move:
            x, y = x + float(move[1]), y + float(move[2])
        is_turned |= "rotate(-90" in transform
        seen *= float(node.get("opacity", "1"))
        if node.tag == f"{SVG}text" and node.text and seen:
            yield text_box(node, x, y, is_turned=is_turned)
        elif "role-legend-symbol" in (node.get("class") or ""):
            for symbol in node:
                at = re.match(r"translate\(([-\d.]+),([-\d.]+)\)", symbol.get("transform", ""))
                if at is not None:
                    across, down = x + float(at[1]), y + float(at[2])
                    yield Box(
                        "symbol", across - SYMBOL, down - SYMBOL, across + SYMBOL, down + SYMBOL
                    )
        stack.extend((child, x, y, is_turned, seen) for child in node)


def text_box(node: ET.Element, x: float, y: float, *, is_turned: bool) -> Box:
    content, size = node.text or "", float((node.get("font-size") or "11px").removesuffix("px"))
    is_bold = node.get("font-weight") == "bold"
    width = drawn_width(content, size, is_bold=is_bold, length=node.get("textLength"))
    start = {"middle": width / 2, "end": width}.get(node.get("text-anchor", "start"), 0.0)
    if is_turned:  # upwards
        return Box(content, x - size * 0.8, y - width + start, x + size * 0.2, y + start)
    return Box(content, x - start, y - size * 0.8, x - start + width, y + size * 0.2)


def overlaps(svg: str) -> list[tuple[str, str]]:
    found = list(boxes(svg))
    assert len(found) > 3
    return [(one.what, other.what) for one, other in combinations(found, 2) if one.touches(other)]


@pytest.fixture(scope="module", autouse=True)
def dejavu() -> None:
    if drawn_width("mmmm", 20, is_bold=False, length=None) < text_width("mmmm", 20) * 1.1:
        pytest.skip(f"the font {FONT} is not installed here")


LEGEND = {
    **chart_head("Names that are long, in a title that is longer", "and a subtitle below it"),
    "data": {"values": [{"x": n, "commit": f"{n} append: January to November"} for n in range(9)]},
    "mark": "bar",
    "width": 700,
    "encoding": {
        "x": {"field": "x", "type": "quantitative", "title": "how many milliwatts come in"},
        "color": {
            "field": "commit",
            "legend": {
                "orient": "bottom",
                "columns": 3,
                "labelLimit": 400,
                "columnPadding": 10,
            },
        },
    },
}


@pytest.mark.slow
def test_without_widths_the_legend_overlaps_and_with_them_it_does_not() -> None:
    svg = render_chart(LEGEND, ".svg").decode()
    assert overlaps(svg) == []
    assert overlaps(re.sub(r' textLength="[^"]*" lengthAdjust="\w+"', "", svg)) != []


@pytest.mark.slow
@pytest.mark.parametrize("path", by_day(PICTURES, 3), ids=lambda path: path.stem)
def test_no_text_of_our_pictures_touches_another(path: Path) -> None:
    """Nor where letters are not fitted into the widths that texts have, as librsvg does not."""
    svg = path.read_text(encoding="utf-8")
    assert overlaps(svg) == []
    unfitted = re.sub(r' textLength="[^"]*" lengthAdjust="\w+"', "", svg)
    assert overlaps(unfitted) == []
    size = re.search(r'width="(\d+)" height="(\d+)"', svg)
    assert size is not None
    for one in boxes(unfitted):
        assert one.left >= 0, one
        assert one.right <= int(size[1]), one
        assert one.bottom <= int(size[2]), one


def test_widths_are_those_of_the_layout() -> None:
    assert text_width("Hamburg", 10) == pytest.approx(41.12)
    assert text_width("Hamburg", 10, is_bold=True) > text_width("Hamburg", 10)
    assert text_width("日本", 10) == 20
    assert text_width("e\N{COMBINING ACUTE ACCENT}", 10) == text_width("e", 10)


def test_texts_keep_what_they_say() -> None:
    text = '<text font-size="10px" font-weight="bold">a &lt; b</text>'
    wide = with_widths(text)
    fitted = r'textLength="[\d.]+" lengthAdjust="spacingAndGlyphs"'
    assert re.fullmatch(
        rf'<text font-size="10px" font-weight="bold" {fitted}>a &lt; b</text>', wide
    )
    assert with_widths(wide) == wide
    assert with_widths("<text>no size</text>") == "<text>no size</text>"
