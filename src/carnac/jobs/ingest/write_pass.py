"""Pass 2: the part files of all chunks become segments, on Spark, the largest chunk first."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from carnac.core.log.commits import Place
from carnac.core.segments.segment import Segment
from carnac.jobs.bins import into_bins
from carnac.jobs.ingest.places import PlaceTaker
from carnac.ports.far_files import client_errors
from carnac.rows.merge import merge_parts
from carnac.rows.merge_task import Merge, MergeTask, Part
from carnac.rows.output import local_root, note_waste, remove_file, size_of
from carnac.spark.tasks import Attempt


def plan_merges(
    parts: Iterable[Part], template: MergeTask, *, max_rows: int | None, new_id: Iterable[str]
) -> tuple[Merge, ...]:
    """Return the merges that make segments of all parts, in order of time.

    Args:
        template: Merge task with the fields that all merges have in common.
        max_rows: A chunk with more rows than this may be divided between merges, so that several cores share it; None
            where all rows of a chunk must meet (perfect rollup, hashed and range partitions).
        new_id: Ids, of which each merge takes one.
    """
    by_chunk: dict[object, list[Part]] = {}
    for part in sorted(parts, key=lambda part: (part.chunk, part.path)):
        by_chunk.setdefault(part.chunk, []).append(part)
    ids = iter(new_id)
    merges = []
    for chunk_parts in by_chunk.values():
        groups = _divide(chunk_parts, max_rows)
        merges += [
            Merge(
                task=replace(
                    template,
                    parts=tuple(group),
                    chunk=group[0].chunk,
                    id_prefix=next(ids),
                    is_perfect=len(groups) == 1,
                ),
                rows=sum(part.rows for part in group),
            )
            for group in groups
        ]
    return tuple(merges)


def _divide(parts: Sequence[Part], max_rows: int | None) -> list[list[Part]]:
    total = sum(part.rows for part in parts)
    if max_rows is None or total <= max_rows:
        return [list(parts)]
    count = min(len(parts), -(-total // max_rows))
    return [list(parts[index::count]) for index in range(count)]


def pack(merges: Sequence[Merge], *, cores: int) -> list[tuple[MergeTask, ...]]:
    """Return the merges in as many Spark tasks as serve the cores well, largest task first."""
    bins = into_bins(merges, lambda merge: merge.rows, cores=cores)
    return [tuple(merge.task for merge in chosen) for chosen in bins]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The output of a Spark task, and where some of it goes."""

    segments: tuple[Segment, ...]
    places: tuple[Place, ...]


def merge_all(tasks: tuple[MergeTask, ...], attempt: Attempt) -> Written:
    """Run the merges of one Spark task; if one fails, what the others wrote is removed."""
    segments: list[Segment] = []
    places: list[Place] = []
    try:
        for task in tasks:
            taker = None if task.numbers is None else PlaceTaker(task.numbers)
            segments += merge_parts(
                task,
                attempt=attempt.number,
                on_rows=lambda rows: attempt.count(rows=rows),
                watch=taker,
            )
            places += [] if taker is None else taker.places
    except BaseException:
        remove_segments(segments, tasks[0].output_url)
        raise
    return Written(segments=tuple(segments), places=tuple(places))


def remove_segments(segments: Iterable[Segment], output_url: str) -> None:
    """Remove the files of segments that will not be published; the error that is being handled says how much it was."""
    for segment in segments:
        with contextlib.suppress(OSError):
            remove_file(output_url, segment.path)
            note_waste(segment.size_bytes)


def remove_others(output_url: str, folder: str, keep: Iterable[str]) -> int:
    """Remove the files below a job's own folder that are not among `keep`; return their bytes.

    Such files are of attempts that died or lost a race. Files that are not seen here are left to garbage collection.
    """
    kept, removed = set(keep), 0
    root = local_root(output_url)
    if root is not None:
        if not os.path.isdir(f"{root}/{folder}"):  # noqa: PTH112 - most often it is not there
            return 0
        for path in sorted((root / folder).glob("*")):
            if path.relative_to(root).as_posix() not in kept:
                removed += size_of(path)
                with contextlib.suppress(OSError):
                    path.unlink()
        with contextlib.suppress(OSError):
            (root / folder).rmdir()  # only if nothing was kept
        return removed
    import fsspec

    filesystem, base = fsspec.core.url_to_fs(output_url)
    prefix = base.rstrip("/") + "/"
    with contextlib.suppress(OSError), client_errors():
        for name, details in filesystem.find(prefix + folder, detail=True).items():
            if name.removeprefix(prefix) not in kept:
                removed += int(details.get("size") or 0)
                filesystem.rm_file(name)
    return removed
