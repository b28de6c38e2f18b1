"""One run of compaction groups: looked up, watched, published, reported."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence

from carnac.core.compaction.plan.groups import CompactionGroup, GroupKind
from carnac.core.compaction.plan.notes import with_cut, with_filter
from carnac.core.log import laws
from carnac.core.log.commits import Change, CommitKind, Drop, LockHeld, NumbersUnited, Publication
from carnac.core.log.entries import VisibleSegment
from carnac.core.log.late_ledger import carry_over
from carnac.core.segments.schema import find_kept_apart
from carnac.core.time.intervals import Interval, IntervalSet, interval_text
from carnac.core.time.leases import is_over
from carnac.errors import CarnacError, Conflict, Corrupt, DiskFull, Invalid, NotFound, Revoked
from carnac.ports import Lease, RewriteJob, RewriteResult, SegmentInput, WriteGuard
from carnac.store.compacting.reports import GroupOutcome, GroupReport
from carnac.store.compacting.store_view import CompactionStore
from carnac.store.writing.guarding import publishing
from carnac.store.writing.shown import unite

WATCH_PERIOD_MS = 1_000
"""Inputs of running groups are looked up again at most so often."""


class CompactionRun:
    """One run of groups: looks up, watches, publishes, reports. Safe for threads."""

    def __init__(
        self,
        store: CompactionStore,
        *,
        base: int,
        lease: Lease,
        guard: WriteGuard | None,
        batch: tuple[str, str] | None,
        message: str,
        on_group: Callable[[GroupReport], None] | None,
    ) -> None:
        self._store = store
        self._base = base
        self._lease = lease
        self._guard = guard
        self._batch = batch
        self._message = message
        self._on_group = on_group
        self._groups: dict[str, CompactionGroup] = {}
        self._mutex = threading.Lock()
        self._wasted: dict[str, int] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        self._kept_apart: dict[str, frozenset[str]] = {}
        self.reports: dict[str, GroupReport] = {}

    def prepare(self, group: CompactionGroup) -> RewriteJob | None:
        """Look up what the group reads and get its locks; None if it has ended already."""
        self._groups[group.group_id] = group
        revision = self._find_replay(group)
        if revision is not None:
            self._report(group, GroupOutcome.UNCHANGED, revision=revision)
            return None
        try:
            entries = self._store.inputs(group, self._base)
            chunks = self._store.chunks(group, entries)
            if not entries:
                self._report(group, GroupOutcome.UNCHANGED)
                return None
            self._lock(group, entries)
        except Revoked:
            raise
        except CarnacError as error:
            self._fail(group, error)
            return None
        is_whole = group.kind is GroupKind.MAJOR and not self._leaves_out(group, entries)
        return RewriteJob(
            key=group.group_id,
            datasource=group.datasource,
            chunks=chunks,
            inputs=_as_inputs(entries, group.interval),
            target=group.target,
            is_whole=is_whole,
            kept_apart=self._find_kept_apart(group.datasource),
        )

    def _find_kept_apart(self, datasource: str) -> frozenset[str]:
        """Return the columns whose numbers keep their types, at the revision that is read."""
        if datasource not in self._kept_apart:
            schemas = self._store.metadata.schemas(datasource, revision=self._base)
            self._kept_apart[datasource] = find_kept_apart(schemas)
        return self._kept_apart[datasource]

    def find_cancel_reason(self, job: RewriteJob) -> CarnacError | None:
        """Return a conflict if an input of the job is no longer what it reads."""
        group = self._groups[job.key]
        with self._mutex:
            seen_revision, seen_ms = self._seen.get(job.key, (self._base, 0))
            now_ms = self._store.clock.now_ms()
            if not is_over(seen_ms, WATCH_PERIOD_MS, now_ms):
                return None
            self._seen[job.key] = seen_revision, now_ms
        try:
            head = self._store.metadata.head().revision
            if head == seen_revision:
                return None
            inputs = _as_inputs(self._store.inputs(group, head), group.interval)
        except Conflict as error:
            return error
        except CarnacError:
            return None  # the publish will say what is wrong
        self._seen[job.key] = head, now_ms
        shown = {source.segment.segment_id: source.visible for source in inputs}
        for source in job.inputs:
            if shown.get(source.segment.segment_id) != source.visible:
                segment_id = source.segment.segment_id
                return Conflict(
                    f"segment {segment_id} of {group.datasource} was changed while group {group.group_id} rewrote it; "
                    f"the group was cancelled: plan again",
                    datasource=group.datasource,
                    segment_id=segment_id,
                )
        return None

    def note_waste(self, job: RewriteJob, size_bytes: int) -> None:
        """Take note of what a job had written before it was given up."""
        with self._mutex:
            self._wasted[job.key] = size_bytes

    def end(self, job: RewriteJob, end: RewriteResult | CarnacError) -> None:
        """Publish what the job wrote, or take note of why it wrote nothing.

        Raises:
            Revoked: The right to publish is gone.
        """
        group = self._groups[job.key]
        if isinstance(end, CarnacError):
            self._fail(group, end, job, wasted=self._wasted.get(job.key, 0))
            return
        if not laws.conserves(end.proof):
            proof = end.proof
            error = Corrupt(
                f"group {group.group_id} would not keep its rows ({proof.rows_in} in, {proof.rows_out} out, hashes "
                f"{proof.row_hash_in} and {proof.row_hash_out}); it was not published: report this as a bug",
                group_id=group.group_id,
            )
            self._give_up(group, job, end, error)
            return
        try:
            where = IntervalSet((group.interval,))
            with publishing(self._guard, group.datasource, where, is_append=False) as fences:
                publication = self._publication(group, job, end, fences)
                revision = self._store.metadata.publish(publication).revision
        except Revoked as error:
            self._give_up(group, job, end, error)
            raise
        except (Conflict, Invalid, NotFound, Corrupt, DiskFull) as error:
            self._give_up(group, job, end, error)
            return
        self._report(
            group,
            GroupOutcome.COMMITTED,
            job,
            revision=revision,
            segments_out=len(end.segments),
            rows_in=end.proof.rows_in,
            rows_out=sum(segment.rows for segment in end.segments),
            bytes_out=sum(segment.size_bytes for segment in end.segments),
        )

    def _publication(
        self,
        group: CompactionGroup,
        job: RewriteJob,
        result: RewriteResult,
        fences: tuple[LockHeld, ...],
    ) -> Publication:
        where = IntervalSet((group.interval,))
        change = Change(
            datasource=group.datasource,
            adds=carry_over(
                ((source.segment, source.visible) for source in job.inputs),
                with_filter(
                    with_cut(result.segments, group.target),
                    [source.segment for source in job.inputs],
                    group.target.filter,
                ),
                is_lossy=group.target.filter is not None,
            ),
            drops=tuple(
                Drop(segment_id=source.segment.segment_id, expected=source.visible, within=where)
                for source in job.inputs
            ),
            takes_over=group.kind is GroupKind.MAJOR and bool(result.segments),
            segment_granularity=self._store.segment_granularity(group.datasource),
        )
        written = {column.name for one in result.segments for column in one.columns}
        united = NumbersUnited(
            datasource=group.datasource, columns=frozenset(written - job.kept_apart)
        )
        writer, batch = self._batch_of(group)
        return Publication(
            kind=CommitKind.REWRITE,
            changes=(change,),
            requirements=(*fences, united),
            writer=writer,
            batch=batch,
            base_revision=self._base,
            message=self._message or f"{group.kind} compaction of {interval_text(group.interval)}",
            proof=result.proof,
            lease_id=self._lease.lease_id,
        )

    def _batch_of(self, group: CompactionGroup) -> tuple[str | None, str | None]:
        if self._batch is None:
            return None, None
        writer, batch = self._batch
        return writer, f"{batch}:{group.group_id}"

    def _find_replay(self, group: CompactionGroup) -> int | None:
        writer, batch = self._batch_of(group)
        if writer is None or batch is None:
            return None
        return self._store.metadata.find_batch(writer, batch)

    def _lock(self, group: CompactionGroup, entries: Sequence[VisibleSegment]) -> None:
        if self._guard is None:
            return
        ids: dict[Interval, list[int]] = defaultdict(list)
        for item in entries:
            ids[item.entry.chunk].append(item.entry.partition_id)
        changes = group.kind is GroupKind.MAJOR and group.target.segment_granularity is not None
        self._guard.lock_inputs(
            group.datasource,
            IntervalSet((group.interval,)),
            partitions={
                IntervalSet((chunk,)): tuple(sorted(some)) for chunk, some in sorted(ids.items())
            },
            changes_granularity=changes,
        )

    def _leaves_out(self, group: CompactionGroup, entries: Sequence[VisibleSegment]) -> bool:
        if not group.segment_ids:
            return False
        all_ids = self._store.inputs(group._replace(segment_ids=()), self._base)
        return len(all_ids) > len(entries)

    def _give_up(
        self, group: CompactionGroup, job: RewriteJob, end: RewriteResult, error: CarnacError
    ) -> None:
        self._store.remove_files(end.segments)
        self._fail(group, error, job, wasted=sum(segment.size_bytes for segment in end.segments))

    def _fail(
        self,
        group: CompactionGroup,
        error: CarnacError,
        job: RewriteJob | None = None,
        *,
        wasted: int = 0,
    ) -> None:
        is_conflict = isinstance(error, Conflict)
        outcome = GroupOutcome.CONFLICT if is_conflict else GroupOutcome.FAILED
        self._report(group, outcome, job, error=error, bytes_wasted=wasted)

    def _report(
        self,
        group: CompactionGroup,
        outcome: GroupOutcome,
        job: RewriteJob | None = None,
        **figures: object,
    ) -> None:
        report = GroupReport(
            group=group,
            outcome=outcome,
            segments_in=len(job.inputs) if job is not None else 0,
            bytes_in=job.size_bytes if job is not None else 0,
            **figures,  # type: ignore[arg-type]  # fields of the report, named above
        )
        with self._mutex:
            self.reports[group.group_id] = report
        if self._on_group is not None:
            self._on_group(report)


def _as_inputs(entries: Sequence[VisibleSegment], interval: Interval) -> tuple[SegmentInput, ...]:
    """Return the segments with all that their entries show inside of the interval."""
    return tuple(
        SegmentInput(segment=segment, visible=pieces.inside(interval))
        for segment, pieces in unite(entries).values()
    )
