"""A file of JSON that holds one array: its elements as records, as if each stood on a line of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from carnac.errors import Invalid
from carnac.rows.read.lines import BLOCK_BYTES, Records, Reject, escape_bytes, read_bytes

ARRAY_BYTES_MAX = 256 << 20
"""An array is taken apart in memory; a larger file must have lines."""
HEAD_BYTES = 4096
"""White space before the first bracket, at most."""
REASON_ARRAY = "malformed json array"
_BLANK = " \t\r\n"
_ELEMENTS_AT_ONCE = 10_000


class Rejoined:
    """A stream whose first bytes have been read."""

    def __init__(self, head: bytes, stream: Any) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Return up to so many bytes; none at the end."""
        head, self._head = self._head[:size], self._head[size:]
        return head + (bytes(self._stream.read(size - len(head))) if len(head) < size else b"")


def begins_array(head: bytes) -> bool:
    """Whether the first bytes of a file begin an array of objects."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANK.encode())
    return text[:1] == b"[" and text[1:].lstrip(_BLANK.encode())[:1] in {b"{", b"]", b""}


@dataclass(slots=True)
class ArrayReader:
    """Reads one array; all text from a mistake in it on is one rejected record.

    Attributes:
        count: Elements so far, the rejected ones included.
    """

    stream: Any
    name: str
    count: int = 0
    rejects: list[Reject] = field(default_factory=list)

    def __iter__(self) -> Iterator[Records]:
        """Yield the elements.

        Raises:
            Invalid: The file is damaged, no UTF-8, or too large for an array.
        """
        text, shift = self._text()
        decoder = json.JSONDecoder()
        at = text.index("[") + 1
        offset, line, counted = len(text[:at].encode()) + shift, 1 + text.count("\n", 0, at), at
        found: list[tuple[bytes, int, int]] = []
        is_first = True
        while True:
            start = _skip(text, at)
            if text[start : start + 1] == "]" and not text[start + 1 :].strip(_BLANK):
                break
            if not is_first and text[start : start + 1] == ",":
                start = _skip(text, start + 1)
                is_first = True
            offset += len(text[counted:start].encode())
            line += text.count("\n", counted, start)
            counted = start
            try:
                if not is_first:
                    raise ValueError("no comma between two elements")
                _, at = decoder.raw_decode(text, start)
            except (ValueError, RecursionError):
                self.count += 1
                raw = escape_bytes(text[start:].encode())
                self.rejects.append(Reject(line, offset, raw, REASON_ARRAY))
                break
            is_first = False
            self.count += 1
            found.append((text[start:at].encode() + b"\n", line, offset))
            if len(found) == _ELEMENTS_AT_ONCE:
                yield Records.of(*zip(*found, strict=True))
                found = []
        if found:
            yield Records.of(*zip(*found, strict=True))

    def _text(self) -> tuple[str, int]:
        pieces: list[bytes] = []
        size = 0
        while block := read_bytes(self.stream, BLOCK_BYTES, self.name):
            pieces.append(block)
            size += len(block)
            if size > ARRAY_BYTES_MAX:
                raise Invalid(
                    f"{self.name} is one JSON array of more than {ARRAY_BYTES_MAX >> 20} MiB;"
                    " write an object on each line",
                    url=self.name,
                )
        data = b"".join(pieces)
        shift = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        try:
            return data[shift:].decode(), shift
        except UnicodeDecodeError as error:
            raise Invalid(f"{self.name} is not UTF-8: {error.reason}", url=self.name) from None


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _BLANK:
        at += 1
    return at
