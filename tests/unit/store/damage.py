"""Damage to a segment's file: a bit here or there, an end that is missing, another segment's bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pyarrow.parquet as pq

Damage: TypeAlias = Callable[[Path], None]


def put(path: Path, content: bytes) -> None:
    """Replace a file, as a copy from a backup would."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def flipped(content: bytes, place: int, bit: int = 2) -> bytes:
    """Return the content with one bit of it turned over."""
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return bytes(changed)


def _flip(path: Path, place: int) -> None:
    put(path, flipped(path.read_bytes(), place))


def _chunk(path: Path, column: str) -> pq.ColumnChunkMetaData:
    group = pq.ParquetFile(path).metadata.row_group(0)
    found = [group.column(number) for number in range(group.num_columns)]
    return next(one for one in found if one.path_in_schema == column)


def flip_values(path: Path) -> None:
    """In the last page of the ids."""
    chunk = _chunk(path, "id")
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    _flip(path, start + chunk.total_compressed_size - 2)


def flip_dictionary(path: Path) -> None:
    """In the words of the names."""
    chunk = _chunk(path, "name")
    assert chunk.dictionary_page_offset is not None
    _flip(path, chunk.data_page_offset - 2)


def flip_page_header(path: Path) -> None:
    """In what says how long a page is."""
    _flip(path, _chunk(path, "__time").data_page_offset + 3)


def flip_footer(path: Path) -> None:
    """In the middle of the file's own description."""
    length = path.stat().st_size
    footer = int.from_bytes(path.read_bytes()[-8:-4], "little")
    _flip(path, length - 8 - footer // 2)


def flip_magic(path: Path) -> None:
    """In the last byte of all."""
    _flip(path, path.stat().st_size - 1)


def truncate(path: Path) -> None:
    """The last third is missing."""
    content = path.read_bytes()
    put(path, content[: 2 * len(content) // 3])


def empty(path: Path) -> None:
    """Nothing is left of it, as after a crash of a machine whose disk lies."""
    put(path, b"")


def swap(path: Path) -> None:
    """It holds what another segment's file holds."""
    other = next(one for one in sorted(path.parent.glob("*.parquet")) if one != path)
    put(path, other.read_bytes())


DAMAGES: dict[str, Damage] = {
    "values": flip_values,
    "dictionary": flip_dictionary,
    "page header": flip_page_header,
    "footer": flip_footer,
    "magic": flip_magic,
    "truncated": truncate,
    "empty": empty,
    "swapped": swap,
}
