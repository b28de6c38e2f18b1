"""Plain appends: publications that add segments to chunks that are there, and do nothing else.

Nearly every commit is one, and all of its publish that is not in the database is Python that other writers wait for. So
they are planned here, in a fifth of the time that `publishing` takes for the same commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.core.log.commits import Change, Commit, CommitKind, DatasourceCommit, Publication
from carnac.core.log.entries import ENTRY_BITS, Chunk, Entry
from carnac.core.segments.version import IdRanges, SegmentVersion

if TYPE_CHECKING:
    from carnac.core.log.publish_view import ChunkView
    from carnac.core.segments.segment import Segment
    from carnac.core.time.intervals import Interval

PLAIN_SEGMENTS_MAX = 64
NO_IDS = IdRanges()


def is_plain(publication: Publication) -> bool:
    """Whether it does nothing but add segments, each where its chunk is, under no condition but a lease."""
    if (
        publication.kind is not CommitKind.APPEND
        or publication.requirements
        or publication.lookups
        or publication.proof is not None
        or not publication.changes
    ):
        return False
    for change in publication.changes:
        if not change.adds or change.drops or change.places or change.restores:
            return False
        if change.takes_over or change.refolds or change.covers:
            return False
    return True


def plan_append(
    view: ChunkView, publication: Publication, *, revision: int, at_ms: int
) -> Commit | None:
    """Return the commit that `publishing.plan_any` plans, if the publication is as simple as that; else None.

    It is if it is plain, names one datasource and few segments, and each lies within a live chunk, the one that it
    was written for.
    """
    if (
        len(publication.changes) != 1
        or not is_plain(publication)
        or not publication.names_batch_well
    ):
        return None
    (change,) = publication.changes
    entries = _entries(view, change, revision << ENTRY_BITS)
    if entries is None:
        return None
    done = DatasourceCommit(datasource=change.datasource, segments=change.adds, adds=entries)
    return Commit(
        revision=revision,
        kind=publication.kind,
        at_ms=at_ms,
        changes=(done,),
        writer=publication.writer,
        batch=publication.batch,
        base_revision=publication.base_revision,
        offsets=publication.offsets,
        after=publication.after,
        message=publication.message,
    )


def _entries(view: ChunkView, change: Change, first_id: int) -> tuple[Entry, ...] | None:
    if len(change.adds) > PLAIN_SEGMENTS_MAX:
        return None
    places: dict[Interval, _ChunkAppend] = {}
    for segment in change.adds:
        home = segment.chunk
        if segment.datasource != change.datasource or not (
            home.start_ms <= segment.min_time_ms and segment.max_time_ms < home.end_ms
        ):
            return None
        place = places.get(home)
        if place is None:
            found = view.chunks(change.datasource, home)
            if len(found) != 1 or found[0].interval != home:
                return None
            place = places[home] = _ChunkAppend(found[0])
        place.end += 1
    return tuple(
        [
            places[segment.chunk].add(segment, first_id | ordinal)
            for ordinal, segment in enumerate(change.adds)
        ]
    )


class _ChunkAppend:
    """A live chunk to which one commit appends segments.

    Attributes:
        end: Greater than the partition id of the last of them.
    """

    __slots__ = ("_chunk", "_group", "_next", "_version", "end")

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk.interval
        self._next = self.end = chunk.next_partition_id
        self._group = NO_IDS
        self._version = chunk.version
        if chunk.version.minor:
            self._version = SegmentVersion(chunk.version.major_ms, 0)

    def add(self, segment: Segment, entry_id: int) -> Entry:
        """Return the entry of the next of them, once their end is known."""
        partition_id = self._next
        self._next += 1
        if self._group is NO_IDS:
            self._group = IdRanges(((partition_id, self.end - 1),))
        return Entry(
            entry_id=entry_id,
            segment_id=segment.segment_id,
            chunk=self._chunk,
            span=segment.span,
            clip=None,
            version=self._version,
            partition_id=partition_id,
            overshadowed_ids=NO_IDS,
            update_group=self._group,
        )
