"""A file of JSON that holds an array, or several: elements as records, as if each stood on a line of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from carnac.errors import Invalid
from carnac.rows.read.lines import BLOCK_BYTES, Records, Reject, read_bytes

ARRAY_BYTES_MAX = 256 << 20
"""An array is taken apart in memory; a larger file must have lines."""
HEAD_BYTES = 4096
"""White space before the first bracket, at most."""
_BLANK = " \t\r\n"
_BOM = b"\xef\xbb\xbf"
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
    text = head.removeprefix(_BOM).lstrip(_BLANK.encode())
    return text[:1] == b"[" and text[1:].lstrip(_BLANK.encode())[:1] in {b"{", b"]", b""}


def whole_of_array(head: bytes) -> bytes | None:
    """Return the elements that are whole in the first bytes of a file, as an array; None: none is."""
    text = head.removeprefix(_BOM).decode(errors="ignore")
    found: list[str] = []
    with suppress(json.JSONDecodeError):
        found += (text[start:end] for start, end in _elements(text))
    return f"[{','.join(found)}]".encode() if found else None


@dataclass(slots=True)
class ArrayReader:
    """Reads the arrays of a file, one after the other, as the pages of an API are saved.

    Attributes:
        count: Elements so far.
        rejects: None: a mistake ends the reading, because what comes after it cannot be told apart.
    """

    stream: Any
    name: str
    count: int = 0
    rejects: list[Reject] = field(default_factory=list)

    def __iter__(self) -> Iterator[Records]:
        """Yield the elements.

        Raises:
            Invalid: The file is damaged, no UTF-8, no JSON, or too large for an array.
        """
        text, shift = self._text()
        offset, line, counted = shift, 1, 0
        found: list[tuple[bytes, int, int]] = []
        try:
            for start, end in _elements(text):
                offset += len(text[counted:start].encode())
                line += text.count("\n", counted, start)
                counted = start
                self.count += 1
                found.append((text[start:end].encode() + b"\n", line, offset))
                if len(found) == _ELEMENTS_AT_ONCE:
                    yield Records.of(*zip(*found, strict=True))
                    found = []
        except json.JSONDecodeError as error:
            offset = len(text[: error.pos].encode()) + shift
            raise Invalid(
                f"input file {self.name} cannot be read: its array of JSON has a mistake in line {error.lineno},"
                f" at byte {offset} of the file: {error.msg}",
                url=self.name,
            ) from None
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
        shift = len(_BOM) if data.startswith(_BOM) else 0
        try:
            return data[shift:].decode(), shift
        except UnicodeDecodeError as error:
            raise Invalid(f"{self.name} is not UTF-8: {error.reason}", url=self.name) from None


def _elements(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each element of the arrays of a text begins and ends.

    Raises:
        JSONDecodeError: There is a mistake; all elements before it have been yielded.
    """
    decoder = json.JSONDecoder(strict=False)  # a raw tab in a text is a mistake of one row
    at = _skip(text, 0)
    while at < len(text):
        if text[at] != "[":
            raise json.JSONDecodeError("only a further array may come after an array", text, at)
        at = _skip(text, at + 1)
        is_open = text[at : at + 1] != "]"
        while is_open:
            try:
                _, end = decoder.raw_decode(text, at)
            except RecursionError:
                raise json.JSONDecodeError("too many levels of nesting", text, at) from None
            yield at, end
            at = _skip(text, end)
            mark = text[at : at + 1]
            if mark not in {",", "]"}:
                raise json.JSONDecodeError("neither , nor ] comes after an element", text, at)
            is_open = mark == ","
            at = _skip(text, at + 1) if is_open else at
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _BLANK:
        at += 1
    return at
