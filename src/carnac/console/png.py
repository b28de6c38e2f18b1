"""PNG files from arrays of palette indexes: small, and without an imaging library."""

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


def encode_png(
    pixels: npt.NDArray[np.uint8], palette: Sequence[tuple[int, int, int]], *, clear: int = 0
) -> bytes:
    """Return a picture of palette indexes, rows from top to bottom.

    Args:
        palette: At most 256 colours.
        clear: The index that is see-through.
    """
    height, width = pixels.shape
    rows = b"".join(b"\x00" + row.tobytes() for row in pixels)
    alpha = bytes(0 if index == clear else 255 for index in range(clear + 1))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, INDEXED, 0, 0, 0)),
        (b"PLTE", b"".join(bytes(color) for color in palette)),
        (b"tRNS", alpha),
        (b"IDAT", zlib.compress(rows, level=9)),
        (b"IEND", b""),
    )
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
