"""Charts to files: SVG, PNG or HTML, without a browser and without a network."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

from carnac.errors import Invalid, Unavailable

FORMATS = (".svg", ".png", ".html")
PNG_SCALE = 2.0
FIT = "<style>svg.marks { max-width: calc(100vw - 4.5em); height: auto }</style>"
"""A picture is as wide as a large window; in a smaller one it is smaller."""
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def render_chart(chart: dict[str, object], suffix: str) -> bytes:
    """Return the chart as the bytes of a file with that suffix: `.svg`, `.png` or `.html`.

    Raises:
        Invalid: There is no such format.
        Unavailable: What draws is not installed.
    """
    _check_suffix(suffix)
    converter = load_converter()
    if suffix == ".svg":
        svg: str = converter.vegalite_to_svg(chart)
        return svg.encode()
    if suffix == ".png":
        return shrink_png(converter.vegalite_to_png(chart, scale=PNG_SCALE))
    html: str = converter.vegalite_to_html(chart, bundle=True, renderer="svg")
    return html.replace("<head>", "<head>" + FIT, 1).encode()


def shrink_png(png: bytes) -> bytes:
    """Return the same picture in fewer bytes: what draws it compresses fast, not well."""
    chunks = []
    place = len(PNG_SIGNATURE)
    while place < len(png):
        (size,) = struct.unpack_from(">I", png, place)
        chunks.append((png[place + 4 : place + 8], png[place + 8 : place + 8 + size]))
        place += size + 12
    pixels = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    first = next(index for index, (kind, _) in enumerate(chunks) if kind == b"IDAT")
    kept = [(kind, data) for kind, data in chunks if kind != b"IDAT"]
    kept.insert(first, (b"IDAT", zlib.compress(pixels, level=9)))
    return PNG_SIGNATURE + b"".join(_png_chunk(kind, data) for kind, data in kept)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_chart(chart: dict[str, object], path: Path) -> None:
    """Write the chart to a file; its suffix says the format.

    Raises:
        Invalid: There is no such format.
        Unavailable: What draws is not installed, or the file cannot be written.
    """
    data = render_chart(chart, path.suffix.lower())
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Unavailable(
            f"picture {path} cannot be written: {error.strerror}", path=str(path)
        ) from None


def check_picture(path: Path) -> None:
    """Check that a picture can be drawn and where it goes; ask before long work whose result is to be drawn.

    Raises:
        Invalid: There is no such format.
        Unavailable: What draws is not installed, or there is no such folder.
    """
    _check_suffix(path.suffix.lower())
    if not path.parent.is_dir():
        raise Unavailable(
            f"picture {path} cannot be written: there is no folder {path.parent}", path=str(path)
        )
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
