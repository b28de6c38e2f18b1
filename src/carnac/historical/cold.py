"""Cold reads: files that are not on this machine's disk, read by ranges from deep storage as a scan needs them.

Arrow's Parquet reader asks for the column chunks of the row groups that a scan cannot skip. Ranges that lie close
together become one request, and none becomes too long. The checksum in a record is over the whole file, which is not
read: so whole blocks are read, each of which has a checksum of its own there.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from carnac.core.segments.blocks import read_blocks
from carnac.core.segments.segment import Segment
from carnac.errors import Cancelled, CarnacError, NotFound, Unavailable
from carnac.ports import DeepStorage
from carnac.ports.segment_files import NOT_THERE, check_file, damaged
from carnac.ports.storage import require_there

if TYPE_CHECKING:
    import pyarrow.dataset as ds

GAP_MAX_BYTES = 1 << 20
"""Bytes between two ranges that are read, too, so that both are one request."""
RUN_MAX_BYTES = 64 << 20
"""Maximum size of one request."""
OPEN_THREADS = 16
"""Footers that are read at a time."""


class ColdFile:
    """A file in deep storage as Arrow reads it; one place in it at a time, as of an open file. For one query.

    Attributes:
        segment: Segment of the file.
        error: The first failure to read the file, as an engine may raise it in words of its own; None: none.
        has_rows_read: More than its footer was read.
    """

    closed = False

    def __init__(self, storage: DeepStorage, segment: Segment, stop: threading.Event) -> None:
        self.segment = segment
        self.error: CarnacError | None = None
        self.has_rows_read = False
        self._is_open = False
        self._storage = storage
        self._stop = stop
        self._at = 0
        self._blocks = read_blocks(segment.blocks, segment.size_bytes)
        self._is_whole = False

    def tell(self) -> int:
        """Return where the next `read` begins."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place from the beginning (0), from here (1) or from the recorded end (2)."""
        self._at = (0, self._at, self.segment.size_bytes)[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes from here, by one request if they are `RUN_MAX_BYTES` or fewer.

        Raises:
            OSError: Nobody wants them any more, or deep storage does not give them as they were written: `error` says
                which. Arrow keeps what is raised here as long as the file, so that it must not be what goes further up
                and refers to all that the statement has.
        """
        end = self.segment.size_bytes
        if size >= 0:
            end = min(end, self._at + size)
        try:
            if self._stop.is_set():
                raise Cancelled("the query was cancelled while it read from deep storage")
            found = self._read_checked(end)
        except CarnacError as error:
            self.error = self.error or error
        else:
            self._at += len(found)
            self.has_rows_read = self._is_open
            return found
        raise OSError(self.error.message)

    def footer_is_read(self) -> None:
        """Note that later reads are of rows."""
        self._is_open = True

    def _read_checked(self, end: int) -> bytes:
        """Return what is between here and an end, if it is what was written."""
        if end <= self._at:
            return b""
        blocks = self._blocks
        if blocks is None:
            self._check_whole()
            return self._read(self._at, end)
        first, last = self._at // blocks.block_bytes, -(-end // blocks.block_bytes)
        step = max(1, RUN_MAX_BYTES // blocks.block_bytes)
        pieces: list[bytes] = []
        for number in range(first, last, step):
            begin = number * blocks.block_bytes
            until = min(min(number + step, last) * blocks.block_bytes, self.segment.size_bytes)
            piece = self._read(begin, until)
            wrong = blocks.find_wrong(number, piece)
            if wrong is not None:
                raise damaged(self.segment, f"block {wrong} of it is not what was written")
            pieces.append(piece[max(0, self._at - begin) : end - begin])
        return b"".join(pieces)

    def _check_whole(self) -> None:
        """Read a file once from start to end whose record has no checksums of blocks, and compare."""
        if self._is_whole:
            return
        size_bytes = self.segment.size_bytes
        runs = range(0, size_bytes, RUN_MAX_BYTES)
        check_file(
            self.segment,
            (self._read(at, min(at + RUN_MAX_BYTES, size_bytes)) for at in runs),
        )
        self._is_whole = True

    def _read(self, begin: int, end: int) -> bytes:
        path = self.segment.path
        try:
            found = self._storage.read_range(path, begin, end)
        except NotFound as error:
            require_there(self._storage)
            raise damaged(self.segment, NOT_THERE) from error
        except CarnacError:
            raise
        except Exception as error:  # of a library of some object store
            raise Unavailable(f"cannot read '{path}' from deep storage: {error}") from error
        if len(found) < end - begin:
            raise damaged(self.segment, f"ends {begin + len(found)} bytes from its beginning")
        return found

    def close(self) -> None:
        """Do nothing: nothing is open."""


def open_cold(files: Sequence[ColdFile]) -> dict[str, object]:
    """Read the footers of files; return `pyarrow.dataset.Dataset`s by segment id.

    Those that cannot be read are not there; their `ColdFile.error` says why.
    """
    if len(files) <= 1:
        found = [_opened(file) for file in files]
    else:
        with ThreadPoolExecutor(min(OPEN_THREADS, len(files))) as pool:
            found = list(pool.map(_opened, files))
    return {
        file.segment.segment_id: one
        for file, one in zip(files, found, strict=True)
        if one is not None
    }


def _opened(file: ColdFile) -> ds.Dataset | None:
    import pyarrow as pa
    import pyarrow.dataset as ds

    try:
        fragment = _form().make_fragment(pa.PythonFile(file, mode="r"))
        dataset = ds.FileSystemDataset([fragment], fragment.physical_schema, fragment.format)
    except (pa.ArrowException, OSError) as error:
        first_line = str(error).partition("\n")[0]
        file.error = file.error or damaged(file.segment, f"it is no Parquet file: {first_line}")
    else:
        file.footer_is_read()
        return dataset
    return None


def _form() -> ds.ParquetFileFormat:
    import pyarrow as pa
    import pyarrow.dataset as ds

    ranges = pa.CacheOptions(hole_size_limit=GAP_MAX_BYTES, range_size_limit=RUN_MAX_BYTES)
    options = ds.ParquetFragmentScanOptions(pre_buffer=True, cache_options=ranges)
    return ds.ParquetFileFormat(default_fragment_scan_options=options)
