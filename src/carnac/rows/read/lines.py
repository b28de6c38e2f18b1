"""Bytes to records with their line number and byte offset, a block at a time, without copying them.

A record is a line, or with quotes a row of CSV that may go over several lines. A block of some megabytes is searched
for line breaks at once (NumPy), and its records become one Arrow array of text over the same bytes. Only blocks with
broken UTF-8 are looked at record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from carnac.core.texts import first_line
from carnac.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Longs = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

BLOCK_BYTES = 4 << 20
MAX_RECORD_BYTES = 64 << 20
"""A longer record is rejected; `MAX_RAW_BYTES` of it are kept."""
MAX_RAW_BYTES = 1 << 20

REASON_UTF8 = "invalid UTF-8"
CHARACTER_MASK, INSIDE_CHARACTER = 0xC0, 0x80
"""A byte inside of a character in UTF-8 is `10xxxxxx`."""
REASON_TOO_LONG = "record too long"
_BOM = b"\xef\xbb\xbf"
_NEWLINE = 10


class Reject(NamedTuple):
    """A record that is no row.

    Attributes:
        line: 1 for the first line of the file; None if it is not known.
        byte_offset: Of its first byte, after decompression; None if it has none.
    """

    line: int | None
    byte_offset: int | None
    raw: str
    reason: str


class Records(NamedTuple):
    """Some records of a file.

    Attributes:
        ends: Where each ends in `data`, its line break included; the first starts at 0, each other where one ends.
        lines: Line number in which each starts.
        data: UTF-8, exactly these records.
        base: Offset in the file of each record's first byte.
    """

    data: bytes
    ends: Longs
    lines: Longs
    offsets: Longs

    @classmethod
    def of(
        cls, values: Sequence[bytes], lines: Sequence[int] | Longs, offsets: Sequence[int] | Longs
    ) -> Records:
        """Return records of which each is a value by itself."""
        import numpy as np

        ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
        return cls(b"".join(values), ends, np.array(lines, np.int64), np.array(offsets, np.int64))

    def values(self, wanted: Flags) -> list[bytes]:
        """Return the bytes of some of them."""
        import numpy as np

        starts = np.concatenate(([0], self.ends[:-1]))[wanted].tolist()
        bounds = zip(starts, self.ends[wanted].tolist(), strict=True)
        return [self.data[start:end] for start, end in bounds]

    def only(self, wanted: Flags) -> Records:
        """Return some of them."""
        return Records.of(self.values(wanted), self.lines[wanted], self.offsets[wanted])

    def rejects(self, wanted: Flags, reason: str, *, has_lines: bool = True) -> list[Reject]:
        """Return some of them as rejected ones; without `has_lines` their line numbers mean nothing."""
        lines, offsets = self.lines[wanted].tolist(), self.offsets[wanted].tolist()
        return [
            Reject(line if has_lines else None, offset, escape_bytes(raw), reason)
            for line, offset, raw in zip(lines, offsets, self.values(wanted), strict=True)
        ]

    def are_broken(self) -> Flags | None:
        """Return of each whether it is no UTF-8; None if all are."""
        import numpy as np

        if _is_text(self.data) and not self._cuts_a_character():
            return None
        every = np.ones(len(self.ends), dtype=np.bool_)
        return np.array([not _is_text(one) for one in self.values(every)], dtype=np.bool_)

    def _cuts_a_character(self) -> bool:
        """Whether a record begins inside of a character of the data, which is text as a whole."""
        import numpy as np

        starts = self.ends[self.ends < len(self.data)]
        heads = np.frombuffer(self.data, np.uint8)[starts]
        return bool((heads & CHARACTER_MASK == INSIDE_CHARACTER).any())


class RecordBounds(NamedTuple):
    """Where records end in a block.

    Attributes:
        breaks: Indexes of the line breaks that end a record, into all of the block's.
        malformed: For each of them, whether the record is malformed; None if none is.
    """

    breaks: Longs
    malformed: Longs | None = None


CutFunction = Callable[[bytes, "Longs", bool], "RecordBounds"]


@dataclass(slots=True)
class RecordReader:
    """Reads a stream once.

    Attributes:
        name: The file, for errors.
        cut: Decides which line breaks end a record; None: all.
        knows_lines: Whether the number of the first line is known.
        end_offset: Records that start there or later are left.
        line: Number of the line that comes next.
        count: Records seen so far, the rejected ones included.
        rejects: Records that are no text, or too long.
    """

    stream: Any
    name: str
    cut: CutFunction | None = None
    malformed_reason: str = "malformed record"
    knows_lines: bool = True
    start_offset: int = 0
    end_offset: int | None = None
    line: int = 1
    count: int = 0
    rejects: list[Reject] = field(default_factory=list)

    def __iter__(self) -> Iterator[Records]:
        """Yield the records that are text.

        Raises:
            Invalid: The stream is not what its name says (truncated, not compressed, UTF-16).
        """
        carry = b""
        offset = self.start_offset
        while True:
            block = self._read()
            data = carry + block if carry else block
            if offset == 0 and not carry:
                data, offset = self._without_mark(data)
            if not data:
                if block:
                    continue
                return
            used, records = self._records(data, offset, is_last=not block)
            yield from records
            if self.end_offset is not None and offset + used >= self.end_offset:
                return
            carry = data[used:]
            offset += used
            if not block:
                return
            if len(carry) > MAX_RECORD_BYTES:
                carry, offset = self._skip_long(carry, offset)

    def _read(self) -> bytes:
        return read_bytes(self.stream, BLOCK_BYTES, self.name)

    def _without_mark(self, data: bytes) -> tuple[bytes, int]:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise Invalid(f"input file {self.name} is UTF-16; convert it to UTF-8", url=self.name)
        return (data[3:], 3) if data.startswith(_BOM) else (data, 0)

    def _records(self, data: bytes, offset: int, *, is_last: bool) -> tuple[int, list[Records]]:
        """Return how many bytes were used, and the records in them."""
        import numpy as np

        breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE).astype(np.int64)
        if is_last and (len(breaks) == 0 or breaks[-1] != len(data) - 1):
            breaks = np.append(breaks, len(data) - 1)
        cut = None if self.cut is None else self.cut(data, breaks, is_last)
        chosen = np.arange(len(breaks)) if cut is None else cut.breaks
        if len(chosen) == 0:
            return 0, []
        ends = breaks[chosen] + 1
        starts = np.concatenate(([0], ends[:-1]))
        lines = np.concatenate(([0], chosen[:-1] + 1)) + self.line
        if self.end_offset is not None and offset + int(starts[-1]) >= self.end_offset:
            keep = int(np.searchsorted(starts + offset, self.end_offset))
            ends, starts, lines = ends[:keep], starts[:keep], lines[:keep]
            chosen = chosen[:keep]
            if keep == 0:
                return len(data), []
        used = int(ends[-1])
        self.line += int(chosen[-1]) + 1
        self.count += len(ends)
        records = Records(data[:used], ends, lines, starts + offset)
        if cut is not None and cut.malformed is not None:
            records = self._take_out(
                records, cut.malformed[: len(ends)] != 0, self.malformed_reason
            )
        records = self._take_out(records, records.are_broken(), REASON_UTF8)
        return used, [records] if len(records.ends) else []

    def _take_out(self, records: Records, bad: Flags | None, reason: str) -> Records:
        """Return the records that are not `bad`; the others are rejected."""
        if bad is None or not bad.any():
            return records
        self.rejects += records.rejects(bad, reason, has_lines=self.knows_lines)
        return records.only(~bad)

    def _skip_long(self, carry: bytes, offset: int) -> tuple[bytes, int]:
        """Reject the record that `carry` starts with; return what follows it, and where."""
        self.count += 1
        self._reject(self.line, offset, carry[:MAX_RAW_BYTES], REASON_TOO_LONG)
        while True:
            at = carry.find(b"\n")
            if at >= 0:
                self.line += 1
                return carry[at + 1 :], offset + at + 1
            offset += len(carry)
            carry = self._read()
            if not carry:
                return b"", offset

    def _reject(self, line: int, offset: int, raw: bytes, reason: str) -> None:
        self.rejects.append(
            Reject(line if self.knows_lines else None, offset, escape_bytes(raw), reason)
        )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_bytes(stream: Any, size: int, name: str) -> bytes:
    """Return the next bytes of a file.

    Raises:
        Invalid: It is not what its name says: truncated, not compressed.
    """
    try:
        return bytes(stream.read(size))
    except (OSError, EOFError) as error:
        text = first_line(error)
        raise Invalid(f"input file {name} cannot be read: {text}", url=name) from error


def escape_bytes(raw: bytes) -> str:
    r"""Return the bytes as text, without the line break at their end; broken UTF-8 as `\xNN`."""
    return raw[:MAX_RAW_BYTES].rstrip(b"\r\n").decode(errors="backslashreplace")


def record_array(records: Records) -> pa.StringArray:
    """Return the records as an Arrow array over their own bytes, line breaks included."""
    import numpy as np
    import pyarrow as pa

    offsets = np.concatenate((np.zeros(1, np.int32), records.ends.astype(np.int32)))
    return pa.Array.from_buffers(
        pa.string(), len(records.ends), [None, pa.py_buffer(offsets), pa.py_buffer(records.data)]
    )


def long_array(values: Longs) -> pa.Int64Array:
    """Return the numbers as an Arrow array over the same memory; `pyarrow.array` would import pandas (0.4 s)."""
    import numpy as np
    import pyarrow as pa

    plain = np.ascontiguousarray(values, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(plain), [None, pa.py_buffer(plain)])
