"""Charts to files: SVG, PNG or HTML, without a browser and without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from carnac.console.html import clean_texts, embed_json, fill_page
from carnac.console.png import shrink_png
from carnac.console.text_widths import with_widths
from carnac.core.showing import escape_text
from carnac.errors import Invalid, NotFound, Unavailable
from carnac.named_files import write_named

if TYPE_CHECKING:
    from carnac.console.looks import Chart

FORMATS = (".svg", ".png", ".html")
PNG_SCALE = 2.0
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{{policy}}
<title>{{title}}</title>
<style>:root { color-scheme: light dark } svg.marks { max-width: max(calc(100vw - 4.5em), 46em); height: auto }</style>
<script>{{bundle}}</script>
</head>
<body>
<div id="chart"></div>
<script id="data" type="application/json">{{data}}</script>
<script>
vegaEmbed("#chart", JSON.parse(document.getElementById("data").textContent), {
  ast: true, renderer: "svg", actions: { export: true, source: false, compiled: false, editor: false },
});
</script>
</body>
</html>
"""
"""A picture is as wide as a large window; in a smaller one it is smaller, as long as its texts can be read. Its
expressions are interpreted (`ast`): nothing is evaluated. There is no menu entry that opens a page of another."""


def render_chart(chart: Chart, suffix: str) -> bytes:
    """Return the chart as the bytes of a file with that suffix: `.svg`, `.png` or `.html`.

    Its texts may be anybody's.

    Raises:
        Invalid: There is no such format.
        Unavailable: The library that draws is not installed.
    """
    _check_suffix(suffix)
    converter = load_converter()
    chart = cast("Chart", clean_texts(chart))
    if suffix == ".svg":
        svg: str = converter.vegalite_to_svg(chart)
        return with_widths(svg).encode()
    if suffix == ".png":
        return shrink_png(converter.vegalite_to_png(chart, scale=PNG_SCALE))
    return _render_page(chart, converter.javascript_bundle()).encode()


def _render_page(chart: Chart, bundle: str) -> str:
    """Return the chart as a page.

    Args:
        bundle: The script that draws.
    """
    head = chart.get("title")
    title = head.get("text") if isinstance(head, dict) else head
    parts = {"title": escape_text(str(title or "Carnac")), "data": embed_json(chart)}
    return fill_page(PAGE, parts, bundle=bundle)


def write_chart(chart: Chart, path: Path) -> None:
    """Write the chart to a file; its suffix says the format.

    Raises:
        Invalid: There is no such format.
        Unavailable: The library that draws is not installed.
        CarnacError: The file cannot be written; see `named_file`.
    """
    data = render_chart(chart, path.suffix.lower())
    write_named(path, data)


def check_picture(path: Path) -> None:
    """Check that a picture can be drawn and where it goes; ask before long work whose result is to be drawn.

    Raises:
        Invalid: There is no such format.
        NotFound: There is no such folder.
        Unavailable: The library that draws is not installed.
    """
    _check_suffix(path.suffix.lower())
    if not path.parent.is_dir():
        raise NotFound(f"there is no folder {path.parent} to write {path.name} to")
    load_converter()


def _check_suffix(suffix: str) -> None:
    if suffix not in FORMATS:
        given = f"'{suffix}'" if suffix else "a name without suffix"
        raise Invalid(f"a picture is one of {', '.join(FORMATS)}, not {given}")


def load_converter() -> Any:
    """Return what draws; ask for it before long work whose result is to be drawn.

    Raises:
        Unavailable: It is not installed.
    """
    try:
        import vl_convert
    except ImportError:
        raise Unavailable(
            "pictures need the package vl-convert-python: pip install 'carnac[demo]'"
        ) from None
    return vl_convert
