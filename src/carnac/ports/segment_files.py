"""Whether a file holds what the record of its segment says: asked alike by all code that reads segment files."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from carnac.errors import Corrupt, Unavailable

BLOCK_BYTES = 1 << 20
ALGORITHMS = frozenset({"sha256"})
"""Those that records name."""
NOT_THERE = "is not there"
REMEDY = "run 'verify', then put back a copy of the file or replace its rows"


class Damage(NamedTuple):
    """How the bytes of a file differ from what was recorded.

    Attributes:
        detail: Description of the damage, as a phrase.
    """

    kind: Literal["size", "checksum"]
    detail: str


class Recorded(Protocol):
    """The part of a segment's record that identifies its file and describes its content."""

    @property
    def segment_id(self) -> str:
        """The segment's id."""
        ...

    @property
    def datasource(self) -> str:
        """The datasource that it was written for."""
        ...

    @property
    def path(self) -> str:
        """Place in deep storage."""
        ...

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        ...

    @property
    def checksum(self) -> str:
        """`<algorithm>:<hex>` over the file's bytes."""
        ...


class Readable(Protocol):
    """A file that is open for reading."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at its end."""
        ...


def require_file(place: Path) -> Path:
    """Return a place where a file is, not a pipe or a device, whose end may never come.

    Raises:
        FileNotFoundError: There is none.
    """
    if not place.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place))
    return place


def blocks_of(file: Readable) -> Iterator[bytes]:
    """Yield what is left of a file, block by block."""
    while block := file.read(BLOCK_BYTES):
        yield block


def find_damage(segment: Recorded, blocks: Iterable[bytes]) -> Damage | None:
    """Return how the bytes of a segment's file differ from its record."""
    algorithm, _, expected = segment.checksum.partition(":")
    if algorithm not in ALGORITHMS:
        return Damage("checksum", f"its record names an unknown checksum, '{segment.checksum}'")
    digest = hashlib.new(algorithm)
    size_bytes = 0
    for block in blocks:
        digest.update(block)
        size_bytes += len(block)
    if size_bytes != segment.size_bytes:
        detail = f"has {size_bytes} bytes, recorded are {segment.size_bytes}"
        return Damage("size", detail)
    if digest.hexdigest() != expected:
        return Damage("checksum", "its bytes are not those that were written")
    return None


def check_file(segment: Recorded, blocks: Iterable[bytes]) -> None:
    """Refuse a segment's file whose bytes are not those that were written.

    Raises:
        Corrupt: As `damaged`.
    """
    damage = find_damage(segment, blocks)
    if damage is not None:
        raise damaged(segment, damage.detail)


def require_storage(segment: Recorded, place: Path) -> None:
    """Tell deep storage that is away from a file that is gone: of a disk that is not mounted no folder is there.

    Args:
        place: Of the file that is gone, or of a copy.

    Raises:
        Unavailable: It is away.
    """
    parts = Path(segment.path).parts
    if len(parts) < 2 or place.parts[-len(parts) :] != parts:  # of a copy
        return
    folder = place.parents[len(parts) - 2]
    if not folder.is_dir():
        raise Unavailable(
            f"deep storage {folder.parent} has no folder '{folder.name}': mount it, or put it back, and ask again"
        )


def damaged(segment: Recorded, detail: str) -> Corrupt:
    """Return the error where a segment's file is not as its record says."""
    return Corrupt(
        f"file {segment.path} of segment {segment.segment_id} of {segment.datasource} is damaged ({detail});"
        f" {REMEDY}",
        segment_id=segment.segment_id,
        path=segment.path,
    )


def local_name(segment_id: str) -> str:
    """Return what a copy of a segment's file is called in a folder of such copies, whatever the id is."""
    is_safe = (
        segment_id.isascii()
        and segment_id.replace("-", "").replace("_", "").isalnum()
        and len(segment_id) < 100
    )
    return f"{segment_id if is_safe else hashlib.sha256(segment_id.encode()).hexdigest()}.parquet"
