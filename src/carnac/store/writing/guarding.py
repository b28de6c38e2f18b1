"""Writes under the locks of a task: locks on inputs before they are read, and requirements of a publication."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from carnac.core.log.allocation import AllocationRequest
from carnac.core.log.commits import LockHeld
from carnac.core.log.entries import Chunk, VisibleSegment
from carnac.core.time.granularity import Granularity
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from carnac.ports import WriteGuard
from carnac.ports.places import Allocator, AskForPlaces, LockFirst, NumberOwn, PlacePlan

if TYPE_CHECKING:
    from carnac.specs.ingest.spec import IngestSpec


def lock_inputs(
    guard: WriteGuard | None,
    datasource: str,
    entries: Sequence[VisibleSegment],
    where: IntervalSet,
    *,
    granularity: Granularity | None = None,
) -> None:
    """Get the locks on the segments that a write is going to replace; without a guard, none.

    Args:
        entries: Segments that are visible there now.
        where: Time that is replaced.
        granularity: Granularity of the new time chunks; None: the chunks stay as they are.
    """
    if guard is None:
        return
    chunks = {item.entry.chunk for item in entries}
    ids: dict[IntervalSet, list[int]] = defaultdict(list)
    for item in entries:
        ids[IntervalSet((item.entry.chunk,))].append(item.entry.partition_id)
    changes = granularity is not None and any(
        granularity.bucket(chunk.start_ms) != chunk for chunk in chunks
    )
    guard.lock_inputs(
        datasource,
        where.union(interval_set(chunks)),
        partitions={
            place: tuple(sorted(set(some))) for place, some in sorted(ids.items(), key=str)
        },
        changes_granularity=changes,
    )


@contextmanager
def placing(
    guard: WriteGuard | None,
    allocator: Allocator | None,
    spec: IngestSpec,
    find_chunks: Callable[[IntervalSet], Sequence[Chunk]],
) -> Iterator[PlacePlan | None]:
    """Yield how the segments of an ingestion get their places; executors are answered until the block ends.

    Args:
        find_chunks: Returns the live time chunks that overlap.
    """
    is_append = spec.mode == "append"
    terms = None if guard is None else guard.place_terms(is_append=is_append)

    def begin(chunks: Sequence[Interval]) -> Mapping[Interval, int]:
        where = interval_set(chunks)
        if guard is not None and terms is not None and terms.locks_first:
            guard.lock_output(spec.datasource, where)
        live = find_chunks(where) if is_append else ()
        return {chunk.interval: chunk.next_partition_id for chunk in live}

    if terms is None:
        yield None
    elif terms.is_alone:
        yield NumberOwn(begin=begin)
    elif terms.locks_first:
        yield LockFirst(begin=begin)
    elif allocator is None:
        yield None
    else:
        template = AllocationRequest(
            datasource=spec.datasource,
            at_ms=0,
            segment_granularity=str(spec.granularity.segment_granularity),
            sequence="",
            owner=terms.owner,
            lock=terms.lock,
        )
        with allocator.serving() as url:
            yield AskForPlaces(template=template, url=url, allocate=allocator.allocate)


def publishing(
    guard: WriteGuard | None, datasource: str, where: IntervalSet, *, is_append: bool
) -> AbstractContextManager[tuple[LockHeld, ...]]:
    """Be in the publishing section; where nothing is written, and without a guard, there is none."""
    if guard is None or not where:
        return nullcontext(())
    return guard.publishing(datasource, where, is_append=is_append)
