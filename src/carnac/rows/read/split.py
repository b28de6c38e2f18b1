"""How the files of a job are shared out among its tasks. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from carnac.rows.read.inputs import InputFile, split_files
from carnac.specs.ingest.inputs import InputFormat

MAX_RANGE_BYTES = 256 << 20
"""Large files of lines are read in ranges of at most this."""
RANGES_PER_CORE = 3
"""… and of at least so many, so that no core waits long for another."""
BINS_PER_CORE = 16
"""With more files than this times the cores, small files share tasks."""
MAX_BIN_BYTES = 256 << 20
"""Files do not share a task beyond this."""


def share_out(
    files: Sequence[InputFile], file_format: InputFormat, *, cores: int
) -> list[tuple[InputFile, ...]]:
    """Return what each task reads, the most work first.

    Every file, or range of one, is in exactly one task.
    """
    total = sum(file.read_bytes for file in files)
    ideal = -(-total // (cores * RANGES_PER_CORE))
    pieces = split_files(files, file_format, max_bytes=min(ideal, MAX_RANGE_BYTES))
    count = min(len(pieces), max(cores * BINS_PER_CORE, -(-total // MAX_BIN_BYTES)))
    bins: list[list[InputFile]] = [[] for _ in range(count)]
    loads = [0] * count
    heap = [(0, index) for index in range(count)]
    for piece in sorted(pieces, key=lambda piece: -piece.read_bytes):
        load, index = heapq.heappop(heap)
        bins[index].append(piece)
        loads[index] = load + piece.read_bytes
        heapq.heappush(heap, (loads[index], index))
    order = sorted(range(count), key=lambda index: -loads[index])
    return [tuple(bins[index]) for index in order if bins[index]]  # empty files weigh nothing
