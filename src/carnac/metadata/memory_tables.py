"""The records of the memory store: the log in temporal form, chunks, segments, and their trash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from carnac.core.locks.model import Lock
from carnac.core.locks.table import LockTable
from carnac.core.log import laws
from carnac.core.log.allocation import AllocationDecision, Key, PendingChunk, PendingSegment
from carnac.core.log.commits import Change, Commit, CommitKind, DatasourceCommit, Reserved
from carnac.core.log.entries import Chunk, Entry, EntryLife, VisibleSegment
from carnac.core.log.reverting import brought_into_sight
from carnac.core.segments.record import dump_schema
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError
from carnac.metadata import retention as keeping
from carnac.metadata.chunk_rows import (
    ChunkRow,
    changes_by_chunk,
    keep_reserved,
    next_row,
    summarise,
)
from carnac.metadata.retention import Kept
from carnac.ports import DatasourceInfo, Tag


@dataclass(slots=True)
class EntryRecord:
    """An entry with its life: visible at r if added <= r < dropped."""

    datasource: str
    entry: Entry
    dropped: int | None = None

    def is_visible(self, revision: int) -> bool:
        """Whether it was there after the commit of `revision`."""
        return self.entry.added_revision <= revision and (
            self.dropped is None or self.dropped > revision
        )


@dataclass(slots=True)
class LookupRecord:
    """A lookup with its life."""

    name: str
    mapping: Mapping[str, str]
    added: int
    dropped: int | None = None


class MemoryTables:
    """What the SQL stores keep in tables, in dictionaries."""

    def __init__(self) -> None:
        self.commits: dict[int, Commit] = {}
        self.until: dict[int, int] = {}
        self.entries: dict[int, EntryRecord] = {}
        self.segments: dict[str, Segment] = {}
        self.trash: dict[str, int] = {}
        self.chunk_rows: dict[str, dict[Interval, ChunkRow]] = defaultdict(dict)
        self.schemas: dict[str, dict[str, None]] = defaultdict(dict)
        self.covers: dict[str, list[tuple[int, Interval]]] = defaultdict(list)
        self.lookups: list[LookupRecord] = []
        self.pending: dict[Key, PendingSegment] = {}
        self.pending_chunks: dict[tuple[str, Interval], PendingChunk] = {}

    # ------------------------------------------------------------------------------------------------ reading

    def live(self, datasource: str) -> Iterator[Entry]:
        """Yield the live entries of a datasource."""
        for record in self.entries.values():
            if record.datasource == datasource and record.dropped is None:
                yield record.entry

    def live_chunks(self, datasource: str, interval: Interval | None) -> list[Chunk]:
        """Return the live chunks that overlap, in order of time."""
        rows = self.chunk_rows.get(datasource, {})
        return [
            row.chunk()
            for _, row in sorted(rows.items())
            if row.entries and (interval is None or row.interval.overlaps(interval))
        ]

    def visible(self, datasource: str, revision: int) -> list[VisibleSegment]:
        """Return what was visible at a revision, in order of chunk and partition id."""
        found = [
            record.entry
            for record in self.entries.values()
            if record.datasource == datasource and record.is_visible(revision)
        ]
        found.sort(key=lambda entry: (entry.chunk.start_ms, entry.partition_id, entry.entry_id))
        return [
            VisibleSegment(segment=self.segments[entry.segment_id], entry=entry) for entry in found
        ]

    def last_change(self, datasource: str, revision: int) -> int:
        """Return the last retained commit up to `revision` that changed the datasource; else `revision`."""
        return max(
            (
                commit.revision
                for commit in self.commits.values()
                if commit.revision <= revision
                and any(change.datasource == datasource for change in commit.changes)
            ),
            default=revision,
        )

    def lookups_at(self, revision: int) -> dict[str, Mapping[str, str]]:
        """Return the lookups at a revision, by name."""
        return {
            record.name: record.mapping
            for record in sorted(self.lookups, key=lambda record: record.name)
            if record.added <= revision and (record.dropped is None or record.dropped > revision)
        }

    # ------------------------------------------------------------------------------------------------ writing

    def require_writable(self, commit: Commit) -> None:
        """Refuse what cannot be written.

        Raises:
            Invalid: A new segment's id is known already.
            NotFound: A segment that comes back into sight is in the trash or unknown.
        """
        for change in commit.changes:
            new = {segment.segment_id for segment in change.segments}
            if len(new) < len(change.segments) or not new.isdisjoint(self.segments):
                raise keeping.known_already("a new segment has the id of another")
            dropped = {entry.segment_id for entry in change.drops}
            for entry in change.adds:
                back = entry.segment_id
                is_trash = back in self.trash and back not in dropped
                if back not in new and (back not in self.segments or is_trash):
                    raise keeping.cannot_come_back(back, change.datasource)

    def apply(self, commit: Commit) -> None:
        """Write a commit."""
        self.commits[commit.revision] = commit
        for change in commit.changes:
            for segment in change.segments:
                self.segments[segment.segment_id] = segment
                self.schemas[change.datasource].setdefault(dump_schema(segment.columns))
            for entry in change.drops:
                self.entries[entry.entry_id].dropped = commit.revision
            for entry in change.adds:
                self.entries[entry.entry_id] = EntryRecord(change.datasource, entry)
            self.covers[change.datasource] += [(commit.revision, one) for one in change.covers]
            self._apply_chunks(change, commit.revision)
        for lookup in commit.lookups:
            for record in self.lookups:
                if record.name == lookup.name and record.dropped is None:
                    record.dropped = commit.revision
            if lookup.mapping is not None:
                self.lookups.append(LookupRecord(lookup.name, lookup.mapping, commit.revision))

    def apply_allocation(self, decision: AllocationDecision) -> None:
        """Write an allocation."""
        self.pending |= {one.key: one for one in decision.puts}
        self.pending_chunks |= {(one.datasource, one.interval): one for one in decision.founded}
        for chunk in decision.live:
            rows = self.chunk_rows[chunk.datasource]
            rows[chunk.interval] = replace(
                rows[chunk.interval], next_partition_id=chunk.next_partition_id
            )

    def settle_places(self, change: Change) -> None:
        """Forget the reservations that a publication used, and the reserved chunks that it made."""
        used = {place.pending_id for place in change.places if isinstance(place, Reserved)}
        chunks = {one.chunk for one in self.pending.values() if one.pending_id in used}
        rows = self.chunk_rows[change.datasource]
        for chunk in chunks:
            founded = self.pending_chunks.get((change.datasource, chunk))
            if founded is not None and (row := rows.get(chunk)) is not None:
                settled = keep_reserved(row, founded)
                if settled is not None:
                    rows[chunk] = settled
                    del self.pending_chunks[change.datasource, chunk]
        self.pending = {key: one for key, one in self.pending.items() if one.pending_id not in used}

    def forget_pending(self, is_over: Callable[[PendingSegment], bool]) -> int:
        """Remove reservations, and the chunks in which none is left; return how many there were."""
        left = {key: one for key, one in self.pending.items() if not is_over(one)}
        count = len(self.pending) - len(left)
        self.pending = left
        places = {(one.datasource, one.chunk) for one in left.values()}
        self.pending_chunks = {
            place: chunk for place, chunk in self.pending_chunks.items() if place in places
        }
        return count

    def _apply_chunks(self, change: DatasourceCommit, revision: int) -> None:
        rows = self.chunk_rows[change.datasource]
        for interval, what in changes_by_chunk(change).items():
            members = [one for one in self.live(change.datasource) if one.chunk == interval]
            row = next_row(
                rows.get(interval), interval, what, revision, partial(summarise, members)
            )
            rows[interval] = replace(row, changes=0)

    # --------------------------------------------------------------------------------------------- forgetting

    def unseen_segments(self, kept: Kept) -> list[Segment]:
        """Return the segments outside of the trash that no kept revision sees, oldest first."""
        seen = {
            record.entry.segment_id
            for record in self.entries.values()
            if kept.sees(record.entry.added_revision, record.dropped)
        }
        return [
            segment
            for segment_id, segment in self.segments.items()
            if segment_id not in seen and segment_id not in self.trash
        ]

    def reasons(self, kept: Kept, tags: Iterable[Tag]) -> dict[str, str]:
        """Return why segments that are not visible now stay: the oldest kept revision that sees them."""
        live = {
            record.entry.segment_id for record in self.entries.values() if record.dropped is None
        }
        named: dict[int, list[str]] = defaultdict(list)
        for tag in tags:
            named[tag.revision].append(tag.name)
        found: dict[str, int] = {}
        for record in self.entries.values():
            segment_id = record.entry.segment_id
            seen = kept.first_seeing(record.entry.added_revision, record.dropped)
            if seen is not None and segment_id not in live and segment_id not in self.trash:
                found[segment_id] = min(seen, found.get(segment_id, seen))
        return {
            segment_id: keeping.reason(revision, named.get(revision, ()))
            for segment_id, revision in found.items()
        }

    def trim(
        self, kept: Kept, until: Mapping[int, int], trashed: Sequence[Segment], now_ms: int
    ) -> None:
        """Forget what no kept revision needs; put segments into the trash."""
        self.until |= until
        self.trash |= {segment.segment_id: now_ms for segment in trashed}
        forgotten = [revision for revision in self.commits if revision not in kept]
        for revision in forgotten:
            self._cover_restored(self.commits[revision])
        self._unite_covers({kept.gap_around(revision) for revision in forgotten})
        for revision in forgotten:
            del self.commits[revision]
            self.until.pop(revision, None)
        self.entries = {
            entry_id: record
            for entry_id, record in self.entries.items()
            if kept.needs(record.entry.added_revision, record.dropped)
        }
        self.lookups = [one for one in self.lookups if kept.sees(one.added, one.dropped)]
        oldest = kept.revisions[0] if kept.revisions else 0
        for datasource, rows in self.chunk_rows.items():
            remembered = {
                record.entry.chunk
                for record in self.entries.values()
                if record.datasource == datasource
            }
            for interval, row in list(rows.items()):
                if not row.entries and row.revision <= oldest and interval not in remembered:
                    del rows[interval]

    def _cover_restored(self, commit: Commit) -> None:
        for change in commit.changes if commit.kind is CommitKind.REVERT else ():
            self.covers[change.datasource] += [
                (commit.revision, piece) for piece in brought_into_sight(change)
            ]

    def _unite_covers(self, gaps: Collection[tuple[int, int]]) -> None:
        for datasource, covers in self.covers.items():
            for first, last in gaps:
                inside = [one for one in covers if first <= one[0] <= last]
                outside = [one for one in covers if not first <= one[0] <= last]
                united = [] if first == 1 else keeping.unite_covers(inside)
                covers = outside + united  # noqa: PLW2901 - the next gap starts from what is left
            self.covers[datasource] = covers

    def forget_segments(self, segment_ids: Iterable[str]) -> None:
        """Remove trashed segments, and schemas that no segment has any more."""
        for segment_id in segment_ids:
            if self.trash.pop(segment_id, None) is not None:
                del self.segments[segment_id]
        for datasource, schemas in self.schemas.items():
            used = {
                dump_schema(segment.columns)
                for segment in self.segments.values()
                if segment.datasource == datasource
            }
            self.schemas[datasource] = {schema: None for schema in schemas if schema in used}

    # ---------------------------------------------------------------------------------------- self-examination

    def counts(self) -> dict[str, int]:
        """Return the number of records of each kind."""
        return {
            "commits": len(self.commits),
            "entries": len(self.entries),
            "segments": len(self.segments),
            "chunks": sum(len(rows) for rows in self.chunk_rows.values()),
            "covers": sum(len(covers) for covers in self.covers.values()),
            "schemas": sum(len(schemas) for schemas in self.schemas.values()),
            "lookups": len(self.lookups),
            "pending_segments": len(self.pending),
            "pending_chunks": len(self.pending_chunks),
        }

    def find_problems(self) -> Iterator[str]:
        """Yield a sentence for each contradiction."""
        for datasource, rows in self.chunk_rows.items():
            live = list(self.live(datasource))
            try:
                laws.check_entries(datasource, live)
            except CarnacError as error:
                yield error.message
            for interval in rows.keys() | {entry.chunk for entry in live}:
                members = [entry for entry in live if entry.chunk == interval]
                row = rows.get(interval)
                if row is None or row.live != summarise(members) or row.entries != len(members):
                    yield f"chunk {interval} of {datasource} is recorded as {row}, which its entries are not"


class MemoryView:
    """What a publish reads: `PublishView` on the tables."""

    def __init__(self, tables: MemoryTables, locks: LockTable) -> None:
        self._tables = tables
        self._locks = locks

    def locks(self, lock_ids: Sequence[int]) -> Sequence[Lock]:
        """Return those of the locks that there are."""
        return list(self._locks.find(lock_ids))

    def pending(self, pending_ids: Sequence[str]) -> Sequence[PendingSegment]:
        """Return those of the reservations that there are."""
        wanted = set(pending_ids)
        return [one for one in self._tables.pending.values() if one.pending_id in wanted]

    def pending_chunks(self, datasource: str, interval: Interval) -> Sequence[PendingChunk]:
        """Return the reserved chunks that overlap `interval`."""
        return [
            one
            for one in self._tables.pending_chunks.values()
            if one.datasource == datasource and one.interval.overlaps(interval)
        ]

    def find_pending(self, keys: Sequence[Key]) -> Sequence[PendingSegment]:
        """Return the reservations that were made for these requests."""
        found = (self._tables.pending.get(key) for key in keys)
        return [one for one in found if one is not None]

    def chunks(self, datasource: str, interval: Interval) -> Sequence[Chunk]:
        """Return the live chunks that overlap `interval`, in order of time."""
        return self._tables.live_chunks(datasource, interval)

    def entries(self, datasource: str, interval: Interval) -> Sequence[Entry]:
        """Return the live entries of the live chunks that overlap `interval`."""
        return [one for one in self._tables.live(datasource) if one.chunk.overlaps(interval)]

    def entries_of(self, datasource: str, segment_ids: Sequence[str]) -> Sequence[Entry]:
        """Return the live entries of these segments."""
        wanted = set(segment_ids)
        return [one for one in self._tables.live(datasource) if one.segment_id in wanted]

    def highest_major_ms(self, datasource: str, interval: Interval) -> int | None:
        """Return the highest major version on record of chunks that overlap `interval`."""
        rows = self._tables.chunk_rows.get(datasource, {}).values()
        return max(
            (row.top_major_ms for row in rows if row.interval.overlaps(interval)), default=None
        )

    def dropped_by(self, datasource: str, segment_id: str, after_revision: int) -> int | None:
        """Return the last commit after `after_revision` that dropped an entry of the segment."""
        return max(
            (
                record.dropped
                for record in self._tables.entries.values()
                if record.datasource == datasource
                and record.entry.segment_id == segment_id
                and record.dropped is not None
                and record.dropped > after_revision
            ),
            default=None,
        )

    def lives_after(
        self, datasource: str, segment_ids: Sequence[str], after_revision: int
    ) -> Sequence[EntryLife]:
        """Return the entries of these segments that were live at `after_revision` or later."""
        wanted, commits = set(segment_ids), self._tables.commits
        return [
            EntryLife(
                entry=record.entry,
                dropped_by=record.dropped,
                is_moved=record.dropped is not None
                and (
                    record.dropped not in commits
                    or commits[record.dropped].kind is CommitKind.REWRITE
                ),
            )
            for record in self._tables.entries.values()
            if record.datasource == datasource
            and record.entry.segment_id in wanted
            and (record.dropped is None or record.dropped > after_revision)
        ]

    def changed_after(self, datasource: str, interval: Interval, after_revision: int) -> int | None:
        """Return the last commit after `after_revision` that changed a chunk that overlaps `interval`."""
        rows = self._tables.chunk_rows.get(datasource, {}).values()
        return max(
            (
                row.revision
                for row in rows
                if row.revision > after_revision and row.interval.overlaps(interval)
            ),
            default=None,
        )

    def lookup_set_by(self, name: str) -> int | None:
        """Return the commit that set the lookup to what it is; None if there is no such lookup."""
        live = [one.added for one in self._tables.lookups if one.name == name and not one.dropped]
        return max(live, default=None)

    def covering_after(
        self, datasource: str, interval: Interval, after_revision: int
    ) -> int | None:
        """Return the last commit after `after_revision` whose `covers` overlaps `interval`."""
        return max(
            (
                revision
                for revision, covered in self._tables.covers.get(datasource, ())
                if revision > after_revision and covered.overlaps(interval)
            ),
            default=None,
        )


def describe(name: str, visible: Sequence[VisibleSegment], revision: int) -> DatasourceInfo:
    """Return a datasource in numbers; it has something visible."""
    segments = {one.segment.segment_id: one.segment for one in visible}
    shown = [one.entry.visible.intervals for one in visible]
    return DatasourceInfo(
        name=name,
        segments=len(segments),
        chunks=len({one.entry.chunk for one in visible}),
        rows=sum(segment.rows for segment in segments.values()),
        size_bytes=sum(segment.size_bytes for segment in segments.values()),
        interval=Interval(
            min(pieces[0].start_ms for pieces in shown), max(pieces[-1].end_ms for pieces in shown)
        ),
        revision=revision,
    )
