"""Rejected rows in deep storage: written by `rejections`, listed and read here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.errors import Corrupt, NotFound

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.ports import DeepStorage

QUARANTINE_FOLDER = "quarantine"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineJob:
    """The rejected rows of one job.

    Attributes:
        path: Folder in deep storage, as the job's report gives it.
        datasource: Folder name of the datasource (as in paths, with unusual characters escaped).
        modified_at_ms: When the last of its files was written.
    """

    path: str
    datasource: str
    job_id: str
    files: int
    size_bytes: int
    modified_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    r"""A row that could not be parsed.

    Attributes:
        line: From 1; None where it is not known (a range of a large file).
        byte_offset: After decompression; None for formats without lines.
        raw: The text, broken UTF-8 as `\\xNN`; JSON of the fields for formats without text.
    """

    file: str
    line: int | None
    byte_offset: int | None
    raw: str
    reason: str


def find_quarantine(storage: DeepStorage, datasource: str | None = None) -> list[QuarantineJob]:
    """Return the jobs that have rejected rows, newest first.

    Args:
        datasource: Folder name of a datasource; None: all.
    """
    jobs: dict[str, QuarantineJob] = {}
    folder = QUARANTINE_FOLDER if datasource is None else f"{QUARANTINE_FOLDER}/{datasource}"
    for file in storage.list_files(folder):
        parts = file.path.split("/")
        if len(parts) != 4 or not file.path.endswith(".parquet"):
            continue
        path = "/".join(parts[:3])
        known = jobs.get(path)
        jobs[path] = QuarantineJob(
            path=path,
            datasource=parts[1],
            job_id=parts[2],
            files=1 + (known.files if known else 0),
            size_bytes=file.size_bytes + (known.size_bytes if known else 0),
            modified_at_ms=max(file.modified_at_ms, known.modified_at_ms if known else 0),
        )
    return sorted(jobs.values(), key=lambda job: (-job.modified_at_ms, job.path))


def count_quarantine(storage: DeepStorage, path: str) -> dict[str, int]:
    """Return the number of rejected rows of a job by reason, largest first.

    Raises:
        NotFound: There are none.
        Corrupt: A file cannot be read.
    """
    counts: dict[str, int] = {}
    for table in _tables(storage, path, columns=["reason"]):
        for found in table.column("reason").value_counts().to_pylist():
            counts[found["values"]] = counts.get(found["values"], 0) + found["counts"]
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def read_quarantine(
    storage: DeepStorage, path: str, *, reason: str | None = None
) -> Iterator[RejectedRow]:
    """Yield the rejected rows of a job, file by file, in order of input file and line within each.

    Args:
        path: Folder of the job, as its report or `find_quarantine` gives it.
        reason: Only rows rejected for it.

    Raises:
        NotFound: There are none.
        Corrupt: A file cannot be read.
    """
    for table in _tables(storage, path):
        for row in table.to_pylist():
            if reason is None or row["reason"] == reason:
                yield RejectedRow(**row)


def _tables(
    storage: DeepStorage, path: str, columns: list[str] | None = None
) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = [file for file in storage.list_files(path) if file.path.endswith(".parquet")]
    if not files:
        raise NotFound(f"there are no rejected rows in '{path}'", path=path)
    for file in files:
        try:
            with storage.open_read(file.path) as source:
                yield pq.read_table(source, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise Corrupt(
                f"quarantine file {file.path} cannot be read: {error}", path=file.path
            ) from error
