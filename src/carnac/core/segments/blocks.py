"""Checksums of the blocks of a segment's file: a part of the file can be believed without a look at the rest.

They stand in the segment's record as a text: how many units a block has, then the checksums of all blocks. A block's
is the CRC-32 of those of its units, so that a writer, without knowing how long the file becomes, counts in units.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import pack, unpack

UNIT_BYTES = 1 << 16
BLOCKS_MAX = 128
"""Maximum number of blocks of a file: a record stays small, however large the file is."""


class UnitSums:
    """The checksums of the units of a file that is written from start to end."""

    def __init__(self) -> None:
        self._sums: list[int] = []
        self._left = 0  # bytes that the last unit lacks

    def add(self, data: memoryview) -> None:
        """Take in the next bytes."""
        at = 0
        while at < data.nbytes:
            if not self._left:
                self._sums.append(0)
                self._left = UNIT_BYTES
            piece = data[at : at + self._left]
            self._sums[-1] = zlib.crc32(piece, self._sums[-1])
            self._left -= piece.nbytes
            at += piece.nbytes

    def text(self) -> str:
        """Return the checksums as they stand in a record."""
        units = max(1, -(-len(self._sums) // BLOCKS_MAX))
        blocks = [_sum_of(self._sums[at : at + units]) for at in range(0, len(self._sums), units)]
        return f"{units}:{b64encode(pack(f'<{len(blocks)}I', *blocks)).decode()}"


@dataclass(frozen=True, slots=True)
class BlockSums:
    """The checksums of the blocks of a file.

    Attributes:
        block_bytes: Of each block but the last one.
    """

    block_bytes: int
    sums: Sequence[int]

    def find_wrong(self, first: int, data: bytes) -> int | None:
        """Return the number of the first block that is not what was written; None: all are.

        Args:
            first: The number of the block with which `data` begins.
            data: Whole blocks.
        """
        view = memoryview(data)
        for number, at in enumerate(range(0, len(data), self.block_bytes), first):
            block = view[at : at + self.block_bytes]
            units = (
                zlib.crc32(block[unit : unit + UNIT_BYTES])
                for unit in range(0, len(block), UNIT_BYTES)
            )
            if _sum_of(units) != self.sums[number]:
                return number
        return None


def read_blocks(text: str, size_bytes: int) -> BlockSums | None:
    """Return the checksums that a record of a file of some size has; None: it has none, or others than it should."""
    units, _, encoded = text.partition(":")
    if not units.isdecimal() or not int(units):
        return None
    block_bytes = int(units) * UNIT_BYTES
    try:
        body = b64decode(encoded, validate=True)
    except Error:
        return None
    if len(body) != 4 * -(-size_bytes // block_bytes):
        return None
    return BlockSums(block_bytes, unpack(f"<{len(body) // 4}I", body))


def _sum_of(units: Iterable[int]) -> int:
    known = [*units]
    return zlib.crc32(pack(f"<{len(known)}I", *known))
