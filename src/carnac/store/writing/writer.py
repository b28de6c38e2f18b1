"""The writer of a store: ingestion and deletion, from what a person asks for to a publication."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.core.segments.segment import Segment
from carnac.core.time.granularity import Granularity
from carnac.core.time.intervals import EMPTY, Interval, IntervalSet, interval_set, interval_text
from carnac.errors import (
    CarnacError,
    Conflict,
    Corrupt,
    DiskFull,
    Invalid,
    NotFound,
    Revoked,
)
from carnac.ports import (
    ChunkLayout,
    DeepStorage,
    JobProgress,
    JobResult,
    Lease,
    Published,
    SegmentInput,
    SegmentRewrite,
    WriteGuard,
)
from carnac.ports.distributed import LoadAsked
from carnac.ports.places import Allocator
from carnac.ports.storage import require_mounted
from carnac.store.leases import LeaseKeeper
from carnac.store.querying import RevisionCatalog
from carnac.store.writing import declarations, deleting, guarding, ranges
from carnac.store.writing.chunking import layout_of
from carnac.store.writing.noticing import allowed_for, load_met, with_notes
from carnac.store.writing.outcome import WriteOutcome
from carnac.store.writing.shown import drops_of, require_aligned, shown_whole, shown_within

if TYPE_CHECKING:
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.metadata.store import MetadataStore
    from carnac.ports.distributed import SparkLoad
    from carnac.query.engine import QueryEngine
    from carnac.specs.ingest.inputs import QueryInput
    from carnac.specs.ingest.spec import IngestSpec
    from carnac.store.writing.loading import LoadPlan

ProgressListener: TypeAlias = Callable[[JobProgress], None]
PlanListener: TypeAlias = Callable[["LoadPlan"], None]
DELETE_ATTEMPTS_MAX = 10
"""A delete reads and publishes in milliseconds; so many conflicts in a row mean that something else is wrong."""


class Writer:
    """Runs data jobs and publishes what they wrote."""

    def __init__(
        self,
        metadata: MetadataStore,
        deep_storage: DeepStorage,
        pipeline: Callable[[], SparkPipeline],
        leases: LeaseKeeper,
        allocator: Allocator | None = None,
        *,
        engine: Callable[[], QueryEngine],
    ) -> None:
        self._allocator = allocator
        self._engine = engine
        self._metadata = metadata
        self._deep_storage = deep_storage
        self._pipeline = pipeline
        self._leases = leases

    def load(
        self,
        plan: LoadPlan,
        *,
        message: str,
        allowed: tuple[bool, bool],
        on_plan: PlanListener | None,
        on_progress: ProgressListener | None = None,
        guard: WriteGuard | None = None,
        is_here: bool = False,
    ) -> WriteOutcome:
        """Run the spec of a plan and publish its segments in one commit.

        Args:
            allowed: Beside what the spec allows: see `allowed_for`.
            on_plan: Called with the plan before any row is written.
            guard: Locks of the task for which this is done.
            is_here: Whether the load runs in this process, without Spark.

        Raises:
            Conflict: A replacement's inputs were changed meanwhile. The written files are removed.
            Invalid, NotFound, Unavailable: As the pipeline says; nothing was published.
        """
        if on_plan is not None:
            on_plan(plan)
        spec, may = plan.spec, allowed_for(allowed, is_remembered=plan.is_remembered)
        replay = ranges.find_replay(self._metadata, plan)
        if replay is not None:
            return replay
        self._lock_for(spec, spec.intervals, guard)
        with self._leases.writing() as lease, self._reading_for(spec, lease) as base:
            if spec.mode == "replace":
                require_aligned(self._metadata, spec.datasource, spec.intervals, base)
            met = None
            with self._metadata.one_state():
                found = layout_of(self._metadata, spec)
                if is_here:  # it is over soon, so what it meets is read once
                    met = load_met(self._metadata, spec, None)
            rows = self._rows_of(plan, base)
            with ranges.passing_rejected(plan) as passed:
                passed.result = self._run_job(
                    spec, rows, *found, on_progress=on_progress, guard=guard, is_here=is_here
                )
            result = passed.result
            with self._files_until_published(result.segments):
                met = met or load_met(self._metadata, spec, base)
                result = with_notes(spec, result, met, may)
                outcome = self._publish_ingest(
                    plan,
                    result,
                    base=met.base,
                    lease=lease,
                    message=message,
                    guard=guard,
                )
        if outcome.revision is not None and not outcome.is_replay:
            declarations.remember(self._metadata, spec, met.settings)
        return outcome

    def check_input(self, spec: IngestSpec) -> None:
        """Look for what the input of a spec names: files, and datasources and columns of a statement. Without Spark.

        Raises:
            NotFound, Invalid: Something is not there, or cannot be loaded.
        """
        from carnac.rows.read.inputs import resolve_input

        inputs = [spec.input]
        if spec.input.type == "query":
            with self._leases.reading(None) as reading:
                load = self._planned(spec.input, spec, reading.head.revision)
            inputs = [one.input for one in load.externals]
        for one in inputs:
            if one.type == "files":
                resolve_input(one)

    def _rows_of(self, plan: LoadPlan, base: int) -> object | None:
        """Return rows in memory, or what Spark is to run of a statement, which reads the base revision."""
        source = plan.spec.input
        return self._planned(source, plan.spec, base) if source.type == "query" else plan.rows

    def _planned(self, source: QueryInput, spec: IngestSpec, base: int) -> SparkLoad:
        asked = LoadAsked(
            sql=source.query,
            within=source.within,
            needs_time=spec.timestamp.missing_value is None,
            inputs=frozenset(one.input for one in spec.metrics if one.input is not None),
        )
        return self._engine().plan_load(asked, RevisionCatalog(self._metadata, base))

    def _run_job(
        self,
        spec: IngestSpec,
        rows: object | None,
        layout: ChunkLayout,
        newest_ms: int | None,
        *,
        on_progress: ProgressListener | None,
        guard: WriteGuard | None,
        is_here: bool,
    ) -> JobResult:
        """Have the rows written into files."""
        require_mounted(self._deep_storage)
        with guarding.placing(
            guard,
            self._allocator,
            spec,
            lambda where: self._metadata.chunks(spec.datasource, interval=where.span()),
        ) as places:
            pipeline = self._pipeline()
            if is_here:
                return pipeline.run_append(
                    spec, layout, rows=rows, newest_before_ms=newest_ms, places=places
                )
            return pipeline.run_ingest(
                spec,
                layout,
                rows=rows,
                newest_before_ms=newest_ms,
                on_progress=on_progress,
                places=places,
            )

    def _publish_ingest(
        self,
        plan: LoadPlan,
        result: JobResult,
        *,
        base: int,
        lease: Lease,
        message: str,
        guard: WriteGuard | None,
    ) -> WriteOutcome:
        spec = plan.spec
        is_append = spec.mode == "append"
        covers = self._covers(spec, result.segments)
        if spec.replace_scope == "chunks":
            self._lock_for(spec, covers, guard)
        dropped = shown_within(self._metadata, spec.datasource, base, covers) if covers else {}
        named = ranges.named(plan)
        if not result.segments and not dropped and not named:
            return WriteOutcome(revision=None, report=result.report)
        change = Change(
            datasource=spec.datasource,
            adds=result.segments,
            places=result.places,
            drops=drops_of(dropped, covers),
            takes_over=not is_append and bool(result.segments),
            covers=covers,
            segment_granularity=str(spec.granularity.segment_granularity),
        )
        where = interval_set(one.chunk for one in result.segments) if is_append else covers
        with guarding.publishing(
            guard, spec.datasource, where, is_append=is_append
        ) as requirements:
            publication = Publication(
                kind=CommitKind.APPEND if is_append else CommitKind.REPLACE,
                changes=(change,),
                requirements=requirements,
                base_revision=base,
                message=message,
                lease_id=lease.lease_id,
                **named,
            )
            published = self._publish(publication)
        if published.is_replay:
            return WriteOutcome(revision=published.revision, is_replay=True)
        return WriteOutcome(
            revision=published.revision,
            report=result.report,
            segments_added=len(result.segments),
            segments_dropped=len(dropped),
        )

    def delete(
        self,
        datasource: str,
        where: str | None,
        *,
        interval: Interval | None,
        message: str = "",
        on_progress: ProgressListener | None = None,
        guard: WriteGuard | None = None,
        batch: tuple[str, str] | None = None,
    ) -> WriteOutcome:
        """Delete what is visible in an interval (metadata only), the rows of a predicate, or both.

        Args:
            where: SQL; the segments that hold rows for which it is true are rewritten, and no others.
            guard: Locks of the task for which this is done.
            batch: Writer and batch under which it is published, once.

        Raises:
            NotFound: There is no such datasource.
            Invalid: Neither is given; the predicate is not SQL over the datasource's columns, or fails on a value; or
                the interval is not aligned to the query granularity of rolled-up segments that it cuts.
            Corrupt: A segment's file is not what its record says, so nobody knows which of its rows match.
            Conflict: One of the rewritten segments was changed meanwhile. The written files are removed.
        """
        done = None if batch is None else self._metadata.find_batch(*batch)
        if done is not None:
            return WriteOutcome(revision=done, is_replay=True)
        writer, number = batch or (None, None)
        draft = Publication(kind=CommitKind.DELETE, writer=writer, batch=number, message=message)
        if where is not None:
            return self._delete_where(
                draft, datasource, where, interval, guard=guard, on_progress=on_progress
            )
        if interval is None:
            raise Invalid("say what to delete: an interval, a predicate, or both")
        return self._delete_interval(draft, datasource, interval, guard)

    def _delete_interval(
        self, draft: Publication, datasource: str, interval: Interval, guard: WriteGuard | None
    ) -> WriteOutcome:
        covers = IntervalSet((interval,))
        for attempt in range(1, DELETE_ATTEMPTS_MAX + 1):
            self._metadata.require_datasource(datasource)
            self._lock(guard, datasource, covers)
            with self._leases.reading(None) as reading:
                base = reading.head.revision
                require_aligned(self._metadata, datasource, covers, base)
                dropped = shown_within(self._metadata, datasource, base, covers)
            if not dropped:
                return WriteOutcome(revision=None)
            change = Change(
                datasource=datasource,
                drops=drops_of(dropped, covers),
                covers=covers,
                segment_granularity=self.segment_granularity(datasource),
            )
            try:
                with guarding.publishing(guard, datasource, covers, is_append=False) as required:
                    publication = replace(
                        draft,
                        changes=(change,),
                        requirements=required,
                        base_revision=base,
                        message=draft.message or f"delete {interval_text(interval)}",
                    )
                    published = self._metadata.publish(publication)
            except Conflict:
                if attempt == DELETE_ATTEMPTS_MAX:
                    raise
                continue
            return WriteOutcome(
                revision=published.revision,
                is_replay=published.is_replay,
                segments_dropped=0 if published.is_replay else len(dropped),
            )
        raise AssertionError("unreachable")

    def _delete_where(
        self,
        draft: Publication,
        datasource: str,
        predicate: str,
        interval: Interval | None,
        *,
        guard: WriteGuard | None,
        on_progress: ProgressListener | None,
    ) -> WriteOutcome:
        condition = predicate if interval is None else deleting.within(predicate, interval)
        self._metadata.require_datasource(datasource)
        self._lock(guard, datasource, None if interval is None else IntervalSet((interval,)))
        with self._leases.reading(None) as reading, self._leases.writing() as lease:
            base = reading.head.revision
            visible = shown_whole(self._metadata, datasource, base, interval)
            if not visible:
                return WriteOutcome(revision=None, rows_deleted=0)
            rewrites = self._pipeline().run_delete_where(
                datasource,
                [
                    SegmentInput(segment=segment, visible=shown)
                    for segment, shown in visible.values()
                ],
                condition,
                columns=self._metadata.columns(datasource, revision=base),
                on_progress=on_progress,
            )
            if not rewrites:
                return WriteOutcome(revision=None, rows_deleted=0)
            publication = replace(
                draft,
                changes=(
                    deleting.change_of(datasource, rewrites, self.segment_granularity(datasource)),
                ),
                base_revision=base,
                message=draft.message or deleting.describe(predicate, interval),
                proof=deleting.proof_of(rewrites),
                lease_id=lease.lease_id,
            )
            return self.publish_rewrites(publication, rewrites, guard)

    def publish_rewrites(
        self,
        publication: Publication,
        rewrites: Sequence[SegmentRewrite],
        guard: WriteGuard | None,
    ) -> WriteOutcome:
        """Publish what rewrites of one datasource's segments left; removes their files if nothing was published.

        Raises:
            Conflict: One of the segments was changed meanwhile.
        """
        (change,) = publication.changes
        where = deleting.touched(rewrites)
        with (
            self._files_until_published(change.adds),
            guarding.publishing(guard, change.datasource, where, is_append=False) as required,
        ):
            published = self._publish(replace(publication, requirements=required))
        return WriteOutcome(
            revision=published.revision,
            segments_added=len(change.adds),
            segments_dropped=len(rewrites),
            rows_deleted=sum(rewrite.proof.rows_deleted for rewrite in rewrites),
        )

    def segment_granularity(self, datasource: str) -> str:
        """Return the granularity for rows that fall where no chunk is: that of the last ingestion."""
        return self._metadata.settings().get(declarations.granularity_key(datasource), "day")

    def _lock_for(self, spec: IngestSpec, where: IntervalSet, guard: WriteGuard | None) -> None:
        """Get the locks on what a replacement takes the place of, as far as that is known."""
        if spec.mode == "replace" and where:
            self._lock(guard, spec.datasource, where, spec.granularity.segment_granularity)

    def _lock(
        self,
        guard: WriteGuard | None,
        datasource: str,
        where: IntervalSet | None,
        granularity: Granularity | None = None,
    ) -> None:
        if guard is not None:
            found = self._metadata.visible(datasource, intervals=where)
            guarding.lock_inputs(guard, datasource, found, where or EMPTY, granularity=granularity)

    @contextmanager
    def _reading_for(self, spec: IngestSpec, lease: Lease) -> Iterator[int]:
        """Yield the base revision; segments that a job will look up there stay, however long it takes."""
        if spec.mode == "append" and spec.input.type != "query":
            yield lease.revision
            return
        with self._leases.reading(None) as reading:
            yield reading.head.revision

    def _covers(self, spec: IngestSpec, segments: Sequence[Segment]) -> IntervalSet:
        if spec.mode != "replace":
            return EMPTY
        if spec.replace_scope == "intervals":
            return spec.intervals
        return interval_set(segment.chunk for segment in segments)

    @contextmanager
    def _files_until_published(self, segments: Sequence[Segment]) -> Iterator[None]:
        """Remove the segments' files if the block fails in a way that leaves no doubt: nothing was published.

        After any other failure (the database did not answer, the process is stopped) the commit may be there all the
        same: then garbage collection decides.
        """
        try:
            yield
        except (Conflict, Corrupt, DiskFull, Invalid, NotFound, Revoked):
            self._remove_files(segments)
            raise

    def _publish(self, publication: Publication) -> Published:
        published = self._metadata.publish(publication)
        if published.is_replay:
            for change in publication.changes:
                self._remove_files(change.adds)
        return published

    def _remove_files(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            # files that are left are orphans, which garbage collection removes
            with suppress(CarnacError):
                self._deep_storage.delete(segment.path)
