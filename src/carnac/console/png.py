"""PNG files: from arrays of palette indexes, or written by others and made smaller; without an imaging library."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SIGNATURE = b"\x89PNG\r\n\x1a\n"
INDEXED = 3


def encode_png(pixels: npt.NDArray[np.uint8], palette: Sequence[tuple[int, int, int]]) -> bytes:
    """Return a picture of palette indexes, rows from top to bottom.

    Args:
        palette: At most 256 colours; the first is see-through.
    """
    height, width = pixels.shape
    rows = b"".join(b"\x00" + row.tobytes() for row in pixels)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, INDEXED, 0, 0, 0)),
        (b"PLTE", b"".join(bytes(color) for color in palette)),
        (b"tRNS", b"\x00"),
        (b"IDAT", zlib.compress(rows, level=9)),
        (b"IEND", b""),
    )
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def shrink_png(png: bytes) -> bytes:
    """Return the same picture in fewer bytes, as the renderer compresses fast, not well."""
    chunks = []
    place = len(SIGNATURE)
    while place < len(png):
        (size,) = struct.unpack_from(">I", png, place)
        chunks.append((png[place + 4 : place + 8], png[place + 8 : place + 8 + size]))
        place += size + 12
    pixels = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    first = next(index for index, (kind, _) in enumerate(chunks) if kind == b"IDAT")
    kept = [(kind, data) for kind, data in chunks if kind != b"IDAT"]
    kept.insert(first, (b"IDAT", zlib.compress(pixels, level=9)))
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in kept)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
