"""The log of a metadata store as a list of commits that forgets nothing; tests compare the stores in SQL with it.

Every answer is a scan over all commits that there ever were. The oracle plans with the core, whose decisions have tests
of their own. It states once more, as plainly as can be, how the state for these decisions is found, and which history
is forgotten. Allocation, locks and reverts are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from carnac.core.locks.model import Lock
from carnac.core.log.allocation import PendingChunk, PendingSegment
from carnac.core.log.commits import (
    Commit,
    CommitKind,
    CommitSummary,
    DatasourceSummary,
    Publication,
)
from carnac.core.log.entries import Chunk, Entry, EntryLife, VisibleSegment
from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import ColumnType, Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import Invalid
from carnac.metadata.read import retention as words
from carnac.ports import (
    Clock,
    DatasourceInfo,
    Head,
    IdSource,
    Lease,
    LeaseKind,
    Published,
    Tag,
    TrashedSegment,
    TrimReport,
)
from tests.support.log_algebra import plan_commit
from tests.support.log_lives import Life
from tests.support.position_oracle import PositionOracle


class LogOracle(PositionOracle):
    """Those of `MetadataStore`'s methods that tests ask of it, and `PublishView`'s."""

    def __init__(self, *, clock: Clock, ids: IdSource) -> None:
        super().__init__()
        self._clock = clock
        self._ids = ids
        self._start = Head(revision=0, at_ms=clock.now_ms())
        self._all: list[Commit] = []
        self._retained: set[int] = set()
        self._lives: list[Life] = []
        self._segments: dict[str, Segment] = {}
        self._trash: dict[str, int] = {}
        self._forgotten_chunks: dict[tuple[str, Interval], int] = {}
        self._batches: dict[tuple[str, str], Published] = {}
        self._tags: dict[str, Tag] = {}
        self._leases: dict[str, Lease] = {}

    # ----------------------------------------------------------------------------------------- writing

    def publish(self, publication: Publication) -> Published:
        key = (publication.writer or "", publication.batch or "")
        if publication.batch is not None and key in self._batches:
            return replace(self._batches[key], is_replay=True, commit=None)
        if (done := self.find_replay(publication)) is not None:
            return done
        now_ms, head = self._clock.now_ms(), self.head()
        words.require_base(publication.base_revision, head.revision)
        lease = self._leases.get(publication.lease_id or "")
        if publication.lease_id is not None and (
            lease is None or lease.expires_at_ms <= now_ms or lease.kind is not LeaseKind.WRITER
        ):
            raise words.no_writer_lease(publication.lease_id)
        words.require_history(publication.requirements, min(self._retained, default=None))
        commit = plan_commit(
            self, publication, revision=head.revision + 1, at_ms=max(now_ms, head.at_ms)
        )
        self._require_writable(commit)
        self._apply(commit)
        published = Published(
            revision=commit.revision, at_ms=commit.at_ms, is_replay=False, commit=commit
        )
        if publication.batch is not None:
            self._batches[key] = published
        return published

    def _require_writable(self, commit: Commit) -> None:
        for change in commit.changes:
            new = {segment.segment_id for segment in change.segments}
            if len(new) < len(change.segments) or new & self._segments.keys():
                raise Invalid("the publication names something that the store has already: an id")

    def _apply(self, commit: Commit) -> None:
        self._all.append(commit)
        self._retained.add(commit.revision)
        self.move_positions(commit)
        for change in commit.changes:
            self._segments |= {segment.segment_id: segment for segment in change.segments}
            dropped = {entry.entry_id for entry in change.drops}
            for life in self._lives:
                if life.entry.entry_id in dropped:
                    life.dropped = commit.revision
            self._lives += [Life(change.datasource, entry) for entry in change.adds]

    def trim(self, *, keep: Callable[[Sequence[Head]], set[int]], dry_run: bool) -> TrimReport:
        before = sorted(self._retained)
        kept = keep([self.head_of(revision) for revision in before])
        kept |= {tag.revision for tag in self._tags.values()} | set(before[-1:])
        for lease in self.leases():
            if lease.kind is LeaseKind.READER:
                kept |= {revision for revision in before if revision >= lease.revision}
        kept &= self._retained
        trashed = tuple(
            one
            for one in self._segments.values()
            if one.segment_id not in self._trash and not self._seen_from(one.segment_id, kept)
        )
        report = TrimReport(
            revisions_kept=len(kept),
            revisions_trimmed=len(before) - len(kept),
            oldest_revision=min(kept, default=0),
            trashed=trashed,
            reasons=self._reasons(kept),
        )
        if not dry_run:
            self._forget(kept)
            self._trash |= {one.segment_id: self._clock.now_ms() for one in trashed}
        return report

    def _seen_from(self, segment_id: str, revisions: Iterable[int]) -> list[int]:
        lives = [one for one in self._lives if one.entry.segment_id == segment_id]
        return [
            revision
            for revision in sorted(revisions)
            if any(life.is_seen_at(revision) for life in lives)
        ]

    def _reasons(self, kept: set[int]) -> dict[str, str]:
        reasons: dict[str, str] = {}
        for segment_id in self._segments.keys() - self._trash.keys():
            seen = self._seen_from(segment_id, kept)
            if seen and not self._seen_from(segment_id, [self.head().revision]):
                tags = [tag.name for tag in self._tags.values() if tag.revision == seen[0]]
                reasons[segment_id] = words.reason(seen[0], tags)
        return reasons

    def _forget(self, kept: set[int]) -> None:
        self._retained = kept
        self._lives = [
            life
            for life in self._lives
            if life.dropped in kept or any(life.is_seen_at(revision) for revision in kept)
        ]
        for datasource, interval in self._intervals():
            here = [life for life in self._lives if _is_in(life, datasource, interval)]
            changed = self._last_change(datasource, interval)
            if not here and changed is not None and changed <= min(kept, default=0):
                self._forgotten_chunks[datasource, interval] = changed
        self._leases = {lease.lease_id: lease for lease in self.leases()}

    def forget_segments(self, segment_ids: Iterable[str]) -> None:
        for segment_id in segment_ids:
            if self._trash.pop(segment_id, None) is not None:
                del self._segments[segment_id]

    def put_tag(self, name: str, revision: int) -> Tag:
        self.head_of(revision)
        self._tags[name] = Tag(name=name, revision=revision, created_at_ms=self._clock.now_ms())
        return self._tags[name]

    def acquire_lease(
        self, kind: LeaseKind, *, holder: str, ttl_ms: int, revision: int | None = None
    ) -> Lease:
        now_ms = self._clock.now_ms()
        lease = Lease(
            lease_id=self._ids.new_id(),
            kind=kind,
            revision=self._at(revision),
            holder=holder,
            acquired_at_ms=now_ms,
            expires_at_ms=now_ms + ttl_ms,
            ttl_ms=ttl_ms,
        )
        self._leases = {live.lease_id: live for live in (*self.leases(), lease)}
        return lease

    # ----------------------------------------------------------------------------------------- reading

    def head(self) -> Head:
        return self.head_of(len(self._all))

    def head_of(self, revision: int) -> Head:
        """Return a retained revision."""
        if revision == 0:
            return self._start
        if revision not in self._retained:
            raise words.no_such_revision(
                revision,
                len(self._all),
                max((one for one in self._retained if one < revision), default=None),
                min((one for one in self._retained if one > revision), default=None),
            )
        return Head(revision=revision, at_ms=self._all[revision - 1].at_ms)

    def _at(self, revision: int | None) -> int:
        return len(self._all) if revision is None else self.head_of(revision).revision

    def commit(self, revision: int) -> Commit:
        return self._all[self.head_of(revision).revision - 1]

    def changes(self, *, after: int) -> tuple[Commit, ...]:
        found = [self.commit(revision) for revision in sorted(self._retained) if revision > after]
        return words.require_whole(found, after, len(self._all))

    def log(self) -> tuple[CommitSummary, ...]:
        return tuple(_summary(self.commit(one)) for one in sorted(self._retained)[:-51:-1])

    def visible(
        self, datasource: str, *, revision: int | None = None, intervals: IntervalSet | None = None
    ) -> tuple[VisibleSegment, ...]:
        at = self._at(revision)
        entries = [
            life.entry
            for life in self._lives
            if life.datasource == datasource and life.is_seen_at(at)
        ]
        return tuple(
            VisibleSegment(segment=self._segments[one.segment_id], entry=one)
            for one in sorted(
                entries, key=lambda one: (one.chunk.start_ms, one.partition_id, one.entry_id)
            )
            if intervals is None or one.visible.intersect(intervals)
        )

    def visible_late(
        self, datasource: str, *, revision: int | None = None
    ) -> tuple[VisibleSegment, ...]:
        found = self.visible(datasource, revision=revision)
        return tuple(one for one in found if one.segment.late is not None)

    def columns(self, datasource: str, *, revision: int | None = None) -> Mapping[str, ColumnType]:
        found = self.visible(datasource, revision=revision)
        return unite_columns(one.segment.columns for one in found)

    def lookups(self, revision: int | None = None) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, Mapping[str, str]] = {}
        for commit in self._all[: self._at(revision)]:
            for change in commit.lookups:
                found.pop(change.name, None)
                if change.mapping is not None:
                    found[change.name] = change.mapping
        return found

    def datasources(self, revision: int | None = None) -> tuple[DatasourceInfo, ...]:
        at = self._at(revision)
        names = sorted({life.datasource for life in self._lives})
        shown = [(name, self.visible(name, revision=revision)) for name in names]
        return tuple(self._describe(name, found, at) for name, found in shown if found)

    def _describe(self, name: str, found: Sequence[VisibleSegment], at: int) -> DatasourceInfo:
        segments = {one.segment.segment_id: one.segment for one in found}.values()
        changed = [
            revision
            for revision in self._retained
            if revision <= at
            and any(change.datasource == name for change in self.commit(revision).changes)
        ]
        shown = [piece for one in found for piece in one.entry.visible]
        return DatasourceInfo(
            name=name,
            segments=len(segments),
            chunks=len({one.entry.chunk for one in found}),
            rows=sum(segment.rows for segment in segments),
            size_bytes=sum(segment.size_bytes for segment in segments),
            interval=Interval(
                min(piece.start_ms for piece in shown), max(piece.end_ms for piece in shown)
            ),
            revision=max(changed, default=at),
        )

    def tags(self) -> tuple[Tag, ...]:
        return tuple(tag for _, tag in sorted(self._tags.items()))

    def leases(self) -> tuple[Lease, ...]:
        live = [one for one in self._leases.values() if one.expires_at_ms > self._clock.now_ms()]
        return tuple(sorted(live, key=lambda one: (one.acquired_at_ms, one.lease_id)))

    def trashed(self) -> tuple[TrashedSegment, ...]:
        return tuple(
            TrashedSegment(segment=self._segments[name], trashed_at_ms=at_ms)
            for name, at_ms in self._trash.items()
        )

    def known_paths(self) -> frozenset[str]:
        return frozenset(segment.path for segment in self._segments.values())

    def table_counts(self) -> dict[str, int]:
        return {
            "commits": len(self._retained),
            "entries": len(self._lives),
            "segments": len(self._segments),
            "schemas": len({_schema(one) for one in self._segments.values()}),
            "chunks": sum(self._last_change(*one) is not None for one in self._intervals()),
            "batches": len(self._batches),
            "leases": len(self._leases),
            "tags": len(self._tags),
        }

    # ------------------------------------------------------------------------- what a publish may read

    def chunks(self, datasource: str, interval: Interval | None = None) -> tuple[Chunk, ...]:
        places = sorted({life.entry.chunk for life in self._live(datasource)})
        return tuple(
            self._chunk(datasource, place)
            for place in places
            if interval is None or place.overlaps(interval)
        )

    def _chunk(self, datasource: str, place: Interval) -> Chunk:
        live = [life.entry for life in self._live(datasource) if life.entry.chunk == place]
        return Chunk(
            interval=place,
            version=max(entry.version for entry in live),
            next_partition_id=max(
                entry.next_partition_id for _, entry in self._ever_in(datasource, place)
            ),
            entries=len(live),
            revision=max(revision for revision, _ in self._ever_in(datasource, place)),
        )

    def _ever_in(self, datasource: str, place: Interval) -> Iterator[tuple[int, Entry]]:
        """Yield what commits have added to an interval and dropped from it since it was last forgotten."""
        since = self._forgotten_chunks.get((datasource, place), 0)
        for commit in self._all[since:]:
            for change in commit.changes:
                if change.datasource == datasource:
                    for entry in (*change.adds, *change.drops):
                        if entry.chunk == place:
                            yield commit.revision, entry

    def _last_change(self, datasource: str, place: Interval) -> int | None:
        return max((revision for revision, _ in self._ever_in(datasource, place)), default=None)

    def _intervals(self) -> set[tuple[str, Interval]]:
        return {
            (change.datasource, entry.chunk)
            for commit in self._all
            for change in commit.changes
            for entry in change.adds
        }

    def _live(self, datasource: str) -> list[Life]:
        return [one for one in self._lives if one.datasource == datasource and one.dropped is None]

    def entries(self, datasource: str, interval: Interval) -> Sequence[Entry]:
        return [entry for entry in self._newest_first(datasource) if entry.chunk.overlaps(interval)]

    def _newest_first(self, datasource: str) -> list[Entry]:
        """Return the live entries in another order than SQL does: no commit depends on it."""
        return [life.entry for life in reversed(self._live(datasource))]

    def entries_of(self, datasource: str, segment_ids: Sequence[str]) -> Sequence[Entry]:
        return [
            entry for entry in self._newest_first(datasource) if entry.segment_id in segment_ids
        ]

    def highest_major_ms(self, datasource: str, interval: Interval) -> int | None:
        majors = [
            entry.version.major_ms
            for name, place in self._intervals()
            if name == datasource and place.overlaps(interval)
            for _, entry in self._ever_in(datasource, place)
        ]
        return max(majors, default=None)

    def dropped_by(self, datasource: str, segment_id: str, after_revision: int) -> int | None:
        lives = self.lives_after(datasource, [segment_id], after_revision, ())
        return max((one.dropped_by for one in lives if one.dropped_by is not None), default=None)

    def lives_after(
        self,
        datasource: str,
        segment_ids: Sequence[str],
        after_revision: int,
        leaving: Sequence[str],
    ) -> Sequence[EntryLife]:
        return [
            EntryLife(
                entry=one.entry, dropped_by=one.dropped, is_moved=self._may_move(one, leaving)
            )
            for one in self._lives
            if one.datasource == datasource
            and one.entry.segment_id in segment_ids
            and not one.is_dropped_by(after_revision)
        ]

    def _may_move(self, life: Life, leaving: Sequence[str]) -> bool:
        if life.dropped is None:
            return False
        if life.dropped not in self._retained:
            return True
        commit = self._all[life.dropped - 1]
        if commit.kind is CommitKind.REVERT:
            return any(
                added.segment_id not in {life.entry.segment_id, *leaving}
                and added.span.overlaps(life.entry.span)
                for change in commit.changes
                if change.datasource == life.datasource
                for added in change.adds
            )
        return commit.kind in (CommitKind.REWRITE, CommitKind.DELETE)

    def covering_after(
        self, datasource: str, interval: Interval, after_revision: int
    ) -> int | None:
        covering = [
            commit.revision
            for commit in self._all[after_revision:]
            for change in commit.changes
            if change.datasource == datasource
            and any(piece.overlaps(interval) for piece in change.covers)
        ]
        return max(covering, default=None)

    def lookup_set_by(self, name: str) -> int | None:
        setting = [
            (commit.revision, change.mapping)
            for commit in self._all
            for change in commit.lookups
            if change.name == name
        ]
        return setting[-1][0] if setting and setting[-1][1] is not None else None

    def locks(self, lock_ids: Sequence[int]) -> Sequence[Lock]:
        return []

    def pending(self, pending_ids: Sequence[str]) -> Sequence[PendingSegment]:
        return []

    def pending_chunks(self, datasource: str, interval: Interval) -> Sequence[PendingChunk]:
        return []


def _is_in(life: Life, datasource: str, interval: Interval) -> bool:
    return life.datasource == datasource and life.entry.chunk == interval


def _schema(segment: Segment) -> tuple[object, ...]:
    return segment.datasource, *((column.name, column.type) for column in segment.columns)


def _summary(commit: Commit) -> CommitSummary:
    return CommitSummary(
        revision=commit.revision,
        kind=commit.kind,
        at_ms=commit.at_ms,
        datasources=tuple(
            DatasourceSummary(
                datasource=change.datasource,
                segments=len(change.segments),
                entries_added=len(change.adds),
                entries_dropped=len(change.drops),
                rows=sum(segment.rows for segment in change.segments),
                size_bytes=sum(segment.size_bytes for segment in change.segments),
                covers=change.covers,
            )
            for change in commit.changes
        ),
        writer=commit.writer,
        batch=commit.batch,
        base_revision=commit.base_revision,
        offsets=commit.offsets,
        after=commit.after,
        lookups=tuple(change.name for change in commit.lookups),
        message=commit.message,
    )
