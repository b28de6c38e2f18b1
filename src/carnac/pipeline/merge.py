"""Pass 2: the part files of one time chunk become sorted segment files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.intervals import Interval
from carnac.core.segments import Segment
from carnac.pipeline.shape import RowShape

if TYPE_CHECKING:
    from carnac.specs.layout import PartitionsSpec

DEFAULT_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """What one task of pass 2 does. Picklable.

    Attributes:
        parts: Paths or URLs of part files (`.parquet`, or `.arrow` for Arrow IPC) with rows of this chunk only.
        chunk: The time chunk that all rows lie in.
        output_url: Root of deep storage, as `DeepStorage.url` gives it.
        path_prefix: Folder of the segment files below that root, without slashes at its ends.
        id_prefix: An id from the `IdSource`, of this task alone. Segment ids are derived from it and from the attempt,
            so that two attempts never write to one file.
        is_perfect: Whether these parts hold all rows that the job has for the chunk.
        temp_dir: Local folder for what does not fit into memory; made if missing, left empty.
    """

    datasource: str
    parts: tuple[str, ...]
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
    threads: int = 1


def segment_id(id_prefix: str, attempt: int, index: int) -> str:
    """Return the id of the segment that an attempt of a task writes as its `index`-th."""
    return f"{id_prefix}a{attempt}s{index}"


def merge_parts(
    task: MergeTask, *, attempt: int = 0, on_rows: Callable[[int], None] | None = None
) -> tuple[Segment, ...]:
    """Merge, roll up, sort and cut the rows of the parts, and write one file per segment.

    The parts are left as they are. If it fails, it removes the files that this attempt wrote.

    Args:
        attempt: Which attempt at the task this is; another number for every attempt, also speculative ones.
        on_rows: Called with the number of rows written since its last call.

    Returns:
        The records of the segments, in the order of their partitions; empty if the parts hold no row.

    Raises:
        Invalid: A sum of longs does not fit into 64 bits; names the metric.
        Unavailable: Deep storage or the temporary folder is full, or does not answer.
        Corrupt: A part file is not readable.
    """
    raise NotImplementedError
