"""The input of a merge of pass 2: the parts, what becomes of them, and how its segments get their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.time.intervals import Interval
from carnac.rows.normalise.shape import RowShape

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.core.log.allocation import AllocationRequest
    from carnac.specs.ingest.layout import PartitionsSpec

DEFAULT_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Ask for the next place when a segment begins.

    Attributes:
        first: The request for the first one.
    """

    url: str
    first: AllocationRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Places that the driver has got; segments beyond them are left to publish."""

    pending_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Numbers `first`, `first + step`, … of a chunk."""

    chunk: Interval
    first: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part file, Arrow IPC: rows of one chunk that one task read.

    Attributes:
        path: Or URL.
        table: The rows themselves, where they are few and the process that read them merges them: there is no file.
        memory_bytes: Size of the rows in memory.
        range_index: Number of the range of the first sort column that the rows are in; ranges follow one another in the
            order of rows. Of a hash bucket: its number.
    """

    chunk: Interval
    path: str
    rows: int
    memory_bytes: int
    range_index: int = 0
    table: pa.Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """The work of one task of pass 2. Picklable.

    Attributes:
        parts: With rows of this chunk only.
        chunk: The time chunk that all rows lie in.
        output_url: Root of deep storage, as `DeepStorage.url` gives it.
        path_prefix: Folder of the segment files below that root, without slashes at its ends.
        id_prefix: An id from the `IdSource`, of this task alone. Segment ids are derived from it and from the attempt,
            so that two attempts never write to one file.
        target_bytes: Size that a file aims at (dynamic partitioning only); None: rows alone decide.
        is_perfect: Whether these parts hold all rows that the job has for the chunk.
        temp_dir: Local folder for rows that do not fit into memory; made if missing, left empty.
        numbers: How its segments get their places; None: publish finds them.
    """

    datasource: str
    parts: tuple[Part, ...]
    shape: RowShape
    chunk: Interval
    partitions: PartitionsSpec
    output_url: str
    path_prefix: str
    id_prefix: str
    created_at_ms: int
    temp_dir: str
    target_bytes: int | None = None
    is_perfect: bool = True
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    numbers: Ask | Given | Own | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A merge and about how much work it is."""

    task: MergeTask
    rows: int


def segment_id(id_prefix: str, attempt: int, index: int) -> str:
    """Return the id of the segment that an attempt of a task writes as its `index`-th."""
    return f"{id_prefix}a{attempt}s{index}"
