"""Rows of one leaf, kept until the leaf has reported: in memory while they are few, in a file when they are many."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from carnac.errors import DiskFull
from carnac.ports.temporary import own_folder

if TYPE_CHECKING:
    from carnac.ports.queries import LeafReport

HELD_BYTES_MAX = 32 << 20
"""Maximum size of one part in memory; the rest goes to a file."""
GROUP_BYTES = 32 << 20
"""Size of the tables in which a part is handed on."""

_numbers = count()
_lock = threading.Lock()


class Part:
    """The rows that one leaf gives for one request. Used by the thread that asks it, then by the one that merges.

    Args:
        may_spill: Whether more than `HELD_BYTES_MAX` goes to a file.

    Attributes:
        rows: Rows so far.
        size_bytes: Size of these rows, as Arrow has them in memory.
        report: Report of the leaf at the end of its rows; None before that.
    """

    def __init__(self, *, may_spill: bool) -> None:
        self.rows = 0
        self.size_bytes = 0
        self.report: LeafReport | None = None
        self._may_spill = may_spill
        self._schema: pa.Schema | None = None
        self._held: list[pa.RecordBatch] = []
        self._path: Path | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep rows.

        Raises:
            DiskFull: There is no room for a file.
        """
        self._schema = batch.schema
        self.rows += batch.num_rows
        self.size_bytes += batch.nbytes
        if not batch.num_rows:
            return
        if self._writer is None and self._may_spill and self.size_bytes > HELD_BYTES_MAX:
            self._begin_file(batch.schema)
        if self._writer is None:
            self._held.append(batch)
        else:
            _write(self._writer, batch)

    def finish(self, report: LeafReport) -> None:
        """Note that these are all rows."""
        self.report = report
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows, so many at once that they fit memory; once at least, if the leaf sent a schema."""
        if self._schema is None:
            return
        batches, size, is_first = [], 0, True
        for batch in self._batches():
            batches.append(batch)
            size += batch.nbytes
            if size >= GROUP_BYTES:
                yield pa.Table.from_batches(batches, self._schema)
                batches, size, is_first = [], 0, False
        if batches or is_first:
            yield pa.Table.from_batches(batches, self._schema)

    def close(self) -> None:
        """Forget the rows. Idempotent."""
        self._held = []
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        path, self._path = self._path, None
        if path is not None:
            path.unlink(missing_ok=True)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._path is None:
            yield from self._held
            return
        with pa.OSFile(str(self._path)) as source:  # a map would go before the rows do
            reader = pa.ipc.open_file(source)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)

    def _begin_file(self, schema: pa.Schema) -> None:
        with _lock:
            number = next(_numbers)
        self._path = own_folder("answers") / f"{number}.arrow"
        try:
            writer = self._writer = pa.ipc.new_file(str(self._path), schema)
        except OSError as error:
            raise _no_room(error) from error
        held, self._held = self._held, []
        for batch in held:
            _write(writer, batch)


def _write(writer: pa.ipc.RecordBatchFileWriter, batch: pa.RecordBatch) -> None:
    try:
        writer.write_batch(batch)
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> DiskFull:
    return DiskFull(
        f"the broker's temporary folder has no room for the rows of an answer ({error.strerror or error}); "
        "make some, or select fewer rows"
    )
