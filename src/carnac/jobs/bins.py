"""How work is shared between Spark tasks: in bins that are about equally full, the fullest first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TypeVar

from carnac.rows.read.inputs import InputFile
from carnac.rows.read.ranges import split_files
from carnac.specs.ingest.inputs import InputFormat

T = TypeVar("T")

BINS_PER_CORE = 4
"""Small items share a Spark task; so many tasks for each core even out what was guessed wrongly."""
MAX_ROWS_PER_BIN = 5_000_000
"""No item joins others in a task beyond this, so that the work lost with a worker is bounded."""
MAX_BYTES_PER_BIN = 256 << 20
"""Nor beyond this, where items are files."""
MAX_RANGE_BYTES = 256 << 20
"""Large files of lines and of CSV are read in ranges of at most this."""
RANGES_PER_CORE = 3
"""… and of at least so many, so that no core waits long for another."""
FILE_BINS_PER_CORE = 16
"""With more files than this times the cores, small files share tasks."""


def into_bins(
    items: Sequence[T],
    weight: Callable[[T], int],
    *,
    cores: int,
    per_core: int = BINS_PER_CORE,
    most: int = MAX_ROWS_PER_BIN,
) -> list[list[T]]:
    """Return the items in bins of about equal weight, as many as serve the cores well, none of them empty.

    A bin is one Spark task: starting one costs more than a small item.

    Args:
        weight: Returns the weight of an item, in rows or in bytes.
        per_core: Bins for each core, where there are so many items.
        most: Weight beyond which there are more bins than that.
    """
    wanted = max(cores * per_core, -(-sum(map(weight, items)) // most))
    bins: list[list[T]] = [[] for _ in range(min(len(items), wanted))]
    heap = [(0, index) for index in range(len(bins))]
    for item in sorted(items, key=weight, reverse=True):
        filled, index = heapq.heappop(heap)
        bins[index].append(item)
        heapq.heappush(heap, (filled + weight(item), index))
    order = sorted(heap, key=lambda one: (-one[0], one[1]))
    return [bins[index] for _, index in order if bins[index]]  # items without weight fill no bin


def share_out(
    files: Sequence[InputFile], file_format: InputFormat, *, cores: int
) -> list[tuple[InputFile, ...]]:
    """Return what each task reads, the most work first.

    Every file, or range of one, is in exactly one task. One core has nothing to balance, and each task plans its
    statements anew: it gets as few as their sizes allow.
    """
    ranges, bins_per_core = (RANGES_PER_CORE, FILE_BINS_PER_CORE) if cores > 1 else (1, 1)
    ideal = -(-sum(file.read_bytes for file in files) // (cores * ranges))
    pieces = split_files(files, file_format, max_bytes=min(ideal, MAX_RANGE_BYTES))
    bins = into_bins(
        pieces,
        lambda piece: piece.read_bytes,
        cores=cores,
        per_core=bins_per_core,
        most=MAX_BYTES_PER_BIN,
    )
    return [tuple(some) for some in bins]
