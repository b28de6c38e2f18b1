"""Rows of a statement that are asked for later: pages in deep storage, as Arrow streams, which garbage collection ends.

The statement runs as an export does, into a file of this process; once all rows are there the file is cut into pages.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO

from carnac.core.segments.segment import safe_name
from carnac.errors import CarnacError, Invalid, TimedOut, TooLarge, Unavailable
from carnac.ports import JobProgress
from carnac.ports.temporary import own_folder
from carnac.rows.output import room_in
from carnac.store.upkeep.maintenance import ROWS_PREFIX

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.ports import DeepStorage
    from carnac.specs.tasks.spec import SelectTask
    from carnac.store.store import Store

PAGE_BYTES = 32 << 20
"""Bytes of a page, in Arrow's form, unless one row has more: a page is in memory as a whole."""
PAGES_MAX = 1_000
"""Pages of rows; of more rows each page has more."""


class NeedsMore(Unavailable):
    """A statement needs more memory or time than its task has, as every other attempt would."""

    retryable = False


def keep_rows(
    store: Store, task: SelectTask, name: str, *, on_progress: Callable[[JobProgress], None]
) -> Mapping[str, object]:
    """Run a SELECT and write its rows; return the report, which names the pages in order.

    Args:
        name: Name of the folder of the pages, of this attempt alone.

    Raises:
        Invalid: As `Store.export`; there are more rows than may be kept.
        NeedsMore: The statement needs more memory or time than it has.
        NotFound, Unavailable, DiskFull: As `Store.export`.
    """
    if task.engine == "spark" and store.settings.query_spark == "never":
        raise Invalid(
            "no statement is run on Spark here; leave engine out, or set query_spark to 'asked' or 'auto'"
        )
    scratch = own_folder("rows")
    with room_in(scratch.as_uri()), tempfile.TemporaryFile(dir=scratch) as file:
        limit = _Limited(file, store.settings.query_async_bytes, on_progress)
        try:
            found = store.export(
                task.query,
                limit,
                format="arrow",
                at=task.at,
                parameters=task.values,
                max_rows=task.max_rows,
                engine=task.engine,
                find_stop=limit.find_stop,
            )
        except TimedOut:
            raise NeedsMore(
                f"the statement took more than the {store.settings.query_timeout_ms:,} ms that the timeout of its "
                "context allows; give it more, or leave timeout out"
            ) from None
        except TooLarge as error:
            raise NeedsMore(error.message) from None
        folder = "/".join([ROWS_PREFIX, *map(safe_name, name.split("/"))])
        rows_max = max(task.rows_per_page, -(-found.rows // PAGES_MAX))
        pages = _write_pages(store.deep_storage, file, folder, rows_max)
    return {
        "revision": found.revision,
        "segmentsRead": found.segments_read,
        "rowStats": {"written": found.rows},
        "sizeBytes": sum(int(str(page["sizeBytes"])) for page in pages),
        "pages": pages,
    }


def _write_pages(
    storage: DeepStorage, file: BinaryIO, folder: str, rows_max: int
) -> list[dict[str, object]]:
    """Cut a file into pages; those of one that cannot be written as a whole are taken away again."""
    import pyarrow as pa

    pages: list[dict[str, object]] = []
    file.seek(0)
    try:
        with pa.ipc.open_file(file) as reader:
            for page in _cut(reader, rows_max):
                path = f"{folder}/{len(pages)}.arrows"
                data = _encoded(reader.schema, page)
                rows = sum(batch.num_rows for batch in page)
                pages.append({"path": path, "rows": rows, "sizeBytes": len(data)})
                storage.write(path, data)
    except BaseException:
        for written in pages:
            storage.delete(str(written["path"]))
        raise
    return pages


def _cut(reader: pa.RecordBatchFileReader, rows_max: int) -> Iterator[list[pa.RecordBatch]]:
    """Yield the rows of each page; of no rows one page, which has the columns."""
    page: list[pa.RecordBatch] = []
    rows = size = 0
    for number in range(reader.num_record_batches):
        batch, start = reader.get_batch(number), 0
        row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
        while start < batch.num_rows:
            fit = min(rows_max - rows, max(0, PAGE_BYTES - size) // row_bytes)
            if fit <= 0 and page:
                yield page
                page, rows, size = [], 0, 0
                continue
            page.append(batch.slice(start, max(1, fit)))
            taken = page[-1].num_rows
            start, rows, size = start + taken, rows + taken, size + taken * row_bytes
    yield page


def _encoded(schema: pa.Schema, batches: list[pa.RecordBatch]) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with closing(pa.ipc.new_stream(sink, schema, options=options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


class _Limited:
    """A file that takes so many bytes, and tells how many it has."""

    closed = False

    def __init__(
        self, file: BinaryIO, bytes_max: int, on_progress: Callable[[JobProgress], None]
    ) -> None:
        self._file = file
        self._bytes_max = bytes_max
        self._on_progress = on_progress
        self._size = 0

    def write(self, piece: bytes) -> int:
        """Take bytes.

        Raises:
            Invalid: There are too many by now.
            Revoked: Nobody wants them any more.
        """
        self._size += len(piece)
        if self._size > self._bytes_max:
            raise Invalid(
                f"the rows of the statement take more than {self._bytes_max:,} bytes; select fewer rows or columns, "
                "INSERT them INTO a datasource, or raise query_async_bytes",
                setting="query_async_bytes",
            )
        self._tell()
        return self._file.write(piece)

    def find_stop(self) -> CarnacError | None:
        """Tell that the statement runs; return the error by which it learns that nobody wants its rows any more."""
        try:
            self._tell()
        except CarnacError as error:
            return error
        return None

    def _tell(self) -> None:
        phase = "writes rows" if self._size else "runs the statement"
        self._on_progress(JobProgress(phase=phase, done=0, total=0))

    def flush(self) -> None:
        """Do nothing: it is read in this process."""

    def close(self) -> None:
        """Stay open: the rows are read next."""
