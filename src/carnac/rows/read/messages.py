"""Messages of a stream as records: where lines of files have a byte offset, these have the offset of their message.

A message of JSON is an object, over as many lines as it likes, or an object a line; one of CSV is a row, or some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from carnac.kafka.envelopes import objects_in
from carnac.rows.read.csv import REASON_QUOTES, Quotes
from carnac.rows.read.lines import REASON_UTF8, Records, Reject, escape_bytes

if TYPE_CHECKING:
    from carnac.rows.read.lines import Longs
    from carnac.specs.ingest.inputs import CsvFormat, TsvFormat

QUOTE = b'"'


class Messages(NamedTuple):
    """Some messages of a partition, in order."""

    values: Sequence[bytes]
    offsets: Sequence[int]


class MessageSource(Protocol):
    """The messages of a part of a partition. Picklable."""

    def blocks(self) -> Iterator[Messages]:
        """Yield them, in order, the same ones each time."""
        ...


@dataclass(frozen=True, slots=True)
class HeldMessages:
    """Messages in memory."""

    held: Messages

    def blocks(self) -> Iterator[Messages]:
        """Yield them."""
        yield self.held


@dataclass(slots=True)
class MessageReader:
    """The messages of a source as records of JSON.

    Attributes:
        count: Records so far, rejected and blank ones included.
        rejects: Those that are no text.
    """

    source: MessageSource
    count: int = 0
    rejects: list[Reject] = field(default_factory=list)

    def __iter__(self) -> Iterator[Records]:
        """Yield the records that are text."""
        for block in self.source.blocks():
            if block.values:
                records = self._records(block)
                if len(records.ends):
                    yield records

    def _records(self, block: Messages) -> Records:
        values, offsets = _divided(block)
        self.count += len(values)
        records = Records.of(values, [0] * len(values), offsets)
        bad = records.are_broken()
        if bad is None:
            return records
        self.rejects += records.rejects(bad, REASON_UTF8, has_lines=False)
        return records.only(~bad)


def _divided(block: Messages) -> tuple[Sequence[bytes], Sequence[int]]:
    """Return the messages of a block with those apart that hold an object in each line."""
    if not any(b"\n" in value for value in block.values):
        return block.values, block.offsets
    values: list[bytes] = []
    offsets: list[int] = []
    for value, offset in zip(block.values, block.offsets, strict=True):
        lines = objects_in(value)
        values += lines
        offsets += [offset] * len(lines)
    return values, offsets


class MessageLines:
    """The messages of a source as a stream of lines, for the reader of CSV; it knows which line is of which message.

    Attributes:
        rejects: Messages whose quotes are not closed: they would take the next ones in.
    """

    def __init__(self, source: MessageSource, file_format: CsvFormat | TsvFormat) -> None:
        self._blocks = source.blocks()
        self._quotes = Quotes(file_format.delimiter)
        self._starts: list[int] = []
        self._offsets: list[int] = []
        self._size = 0
        self.rejects: list[Reject] = []

    def read(self, _size: int) -> bytes:
        """Return the next block of lines; empty at the end."""
        for block in self._blocks:
            lines: list[bytes] = []
            for value, offset in zip(block.values, block.offsets, strict=True):
                if value.count(QUOTE) % 2 and self._is_open(value):
                    self.rejects.append(Reject(None, offset, escape_bytes(value), REASON_QUOTES))
                    continue
                line = value if value.endswith(b"\n") else value + b"\n"
                self._starts.append(self._size)
                self._offsets.append(offset)
                self._size += len(line)
                lines.append(line)
            if lines:
                return b"".join(lines)
        return b""

    def offsets_of(self, places: Longs) -> Longs:
        """Return the offsets of the messages that hold these bytes."""
        import numpy as np

        at = np.searchsorted(np.array(self._starts, dtype=np.int64), places, side="right") - 1
        found: Longs = np.array(self._offsets, dtype=np.int64)[at]
        return found

    def placed(self, records: Records) -> Records:
        """Return records of the stream as those of their messages."""
        return records._replace(offsets=self.offsets_of(records.offsets))

    def all_rejects(self, rejects: Sequence[Reject]) -> list[Reject]:
        """Return those of the reader, as those of their messages, and those that it was not given."""
        import numpy as np

        places = np.array([one.byte_offset or 0 for one in rejects], dtype=np.int64)
        offsets = self.offsets_of(places).tolist() if rejects else []
        moved = [
            one._replace(line=None, byte_offset=offset)
            for one, offset in zip(rejects, offsets, strict=True)
        ]
        return self.rejects + moved

    def _is_open(self, value: bytes) -> bool:
        import numpy as np

        data = value if value.endswith(b"\n") else value + b"\n"
        breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")).astype(np.int64)
        malformed = self._quotes.cut(data, breaks, is_last=True).malformed
        return malformed is not None and bool(malformed.any())
