"""A batch ingestion, from input to segment files that are not yet published.

    plan     find the input, share it out among tasks                                    (driver)
    read     pass 1: parse, coerce, roll up what pays, cut into time chunks    (Spark, one task per split)
    write    pass 2: merge the parts of a chunk, roll up, sort, write segments  (Spark, largest chunk first)

Nothing is shuffled through the JVM. Pass 1 leaves files for pass 2 in the staging folder, which is removed at the end,
also on failure. Files of attempts that lost or died are removed too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from carnac.core.log.commits import Place
from carnac.core.log.late_ledger import with_late
from carnac.core.segments.evolution import find_empty_columns
from carnac.core.segments.segment import Segment, safe_name
from carnac.core.time.intervals import IntervalSet
from carnac.errors import CarnacError
from carnac.jobs.context import JobContext
from carnac.jobs.ingest.places import plan_places
from carnac.jobs.ingest.read_pass import (
    PassOne,
    SplitResult,
    united_late,
    united_shape,
)
from carnac.jobs.ingest.verdict import judge, too_many
from carnac.jobs.ingest.write_pass import (
    merge_all,
    pack,
    plan_merges,
    remove_others,
    remove_segments,
)
from carnac.ports import ChunkLayout, Clock, IdSource, JobReport, JobResult, RejectedRows
from carnac.ports.jobs import APPEND_ROWS_MAX
from carnac.ports.places import PlacePlan
from carnac.rows.merge_task import MergeTask
from carnac.rows.normalise import changes
from carnac.rows.normalise.shape import row_shape
from carnac.rows.parts import ChunkPartitioner, remove_staged
from carnac.rows.read.discover import (
    SeenFields,
    discovered_columns,
    needs_discovery,
    reserved_fields,
)
from carnac.rows.read.inputs import ResolvedInput
from carnac.rows.read.rejections import gather
from carnac.spark.failures import of_task
from carnac.spark.progress import OnProgress, Phase, Tally
from carnac.spark.tasks import R, T, Work

if TYPE_CHECKING:
    from carnac.specs.ingest.spec import IngestSpec


@dataclass(frozen=True, slots=True)
class MissingFields:
    """Fields that are declared and that no row has, and those that the rows have."""

    missing: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


def find_missing(
    spec: IngestSpec, segments: Sequence[Segment], look: Callable[[], SeenFields] | None
) -> MissingFields:
    """Return the fields that the spec declares and no row has; without a row nothing is missing.

    Args:
        look: Finds the fields of the input; None: nobody can.
    """
    declared = spec.declared_fields
    empty = find_empty_columns(declared, segments)
    if not empty or look is None:
        return MissingFields()
    kinds = look().kinds
    wanted = dict.fromkeys(field for column in empty for field in declared[column])
    return MissingFields(
        missing=tuple(field for field in wanted if not kinds.get(field)),
        fields=tuple(field for field, found in kinds.items() if found),
    )


SEGMENTS_FOLDER = "segments"
QUARANTINE_FOLDER = "quarantine"


@dataclass(slots=True)
class Timer:
    """Wall seconds by phase, in order."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)
    _since_ms: int | None = None

    def lap(self, phase: str) -> None:
        """End a phase that began at the lap before, or when the timer was made."""
        now_ms = self.clock.now_ms()
        since_ms = now_ms if self._since_ms is None else self._since_ms
        elapsed = max(now_ms - since_ms, 0) / 1000
        self.seconds[phase] = self.seconds.get(phase, 0.0) + elapsed
        self._since_ms = now_ms

    def start(self) -> None:
        """Begin the first phase now."""
        self._since_ms = self.clock.now_ms()


class IngestJob:
    """One run of one spec.

    Attributes:
        shape: Shape of its rows; the reader replaces it where the shape depends on the data.
        reserved: Fields that are left out, since the store has columns of these names.
        look: Finds the fields that the input has; set by the reader.
        messages: Parts of a stream, in place of the input that the spec names; set by the reader.
    """

    def __init__(
        self,
        context: JobContext,
        spec: IngestSpec,
        layout: ChunkLayout,
        *,
        newest_before_ms: int | None,
        on_progress: OnProgress | None,
        places: PlacePlan | None = None,
    ) -> None:
        self.context = context
        self.spec = spec
        self.layout = layout
        self.on_progress = on_progress
        self.places = places
        self.job_id = context.ids.new_id()
        self.staging_url = context.staging_url(self.job_id)
        folder = context.folder_of(self.job_id)
        self.folder = f"{SEGMENTS_FOLDER}/{safe_name(spec.datasource)}/{folder}"
        self.quarantine_folder = f"{QUARANTINE_FOLDER}/{safe_name(spec.datasource)}/{self.job_id}"
        self.timer = Timer(context.clock)
        self.shape = row_shape(spec)
        self.reserved: tuple[str, ...] = ()
        self.is_for_append = False
        self.look: Callable[[], SeenFields] | None = None
        self.messages: ResolvedInput | None = None
        self.cut = ChunkPartitioner(
            layout=replace(layout, columns={}),
            newest_before_ms=newest_before_ms,
            staging_url=self.staging_url,
        )

    def settle(self, seen: SeenFields) -> None:
        """Take the shape of the rows from what was seen of the input."""
        self.shape = row_shape(self.spec, discovered_columns(seen, self.spec, self.layout.columns))
        self.reserved = reserved_fields(seen, self.spec)

    def look_if_needed(self) -> None:
        """Look at the input, and settle the shape, if that depends on the data."""
        if self.look is not None and needs_discovery(self.spec):
            self.settle(self.look())

    @property
    def within(self) -> IntervalSet | None:
        """The instants whose rows are taken; None: all."""
        spec, layout = self.spec.intervals or None, self.layout.within
        if spec is None or layout is None:
            return spec if layout is None else layout
        return spec.intersect(layout)

    def run(self, read: Callable[[IngestJob], Sequence[SplitResult]]) -> JobResult:
        """Run both passes; `read` runs the first.

        Raises:
            CarnacError: Nothing is left behind but rejected rows.
        """
        self.timer.start()
        written: tuple[Segment, ...] = ()
        segments: tuple[Segment, ...] = ()
        try:
            results = read(self)
            rejected = self._rejected(results)
            self.timer.lap("read")
            written, places = self._write(results)
            absent = find_missing(self.spec, written, self.look)
            segments = written
            self.timer.lap("write")
        except OSError as error:
            # of this process, such as a full disk while rows are handed to tasks
            raise of_task(error) from error
        finally:
            remove_staged(self.staging_url)
            self._remove_all_but(segments, written)
        self.timer.lap("clean up")
        late = united_late(results)
        return JobResult(
            segments=with_late(segments, late, self.cut.newest_before_ms),
            report=self._report(
                results, segments, rejected, rows_late=sum(map(sum, late.values()))
            ),
            places=places,
            missing=absent.missing,
            fields=absent.fields,
        )

    def _remove_all_but(self, kept: Sequence[Segment], written: Sequence[Segment]) -> None:
        """Remove the files that this job has written and not kept, those of attempts that died among them."""
        url = self.context.output_url
        if not self.context.is_here:
            remove_others(url, self.folder, [segment.path for segment in kept])
        elif not kept:  # a task of this process has removed files that it does not return
            remove_segments(written, url)

    def common(self, *, tasks: int) -> PassOne:
        """Return what all tasks of pass 1 have in common, if there are so many."""
        return PassOne(
            job_id=self.job_id,
            shape=self.shape,
            cut=replace(self.cut, keeps_few=self.context.is_here and tasks == 1),
            output_url=self.context.output_url,
            quarantine_folder=self.quarantine_folder,
            examples=self.spec.tuning.max_saved_parse_exceptions,
            is_logged=self.spec.tuning.log_parse_exceptions,
            memory_bytes=self.context.task_memory_bytes,
            threads=max(1, self.context.cores() // max(1, tasks)),
        )

    def phase(self, name: str, total: int | None) -> Phase:
        """Return a phase that stops when too many rows are rejected."""
        return Phase(name=name, total=total, stop_when=self._too_many)

    def run_tasks(self, name: str, work: Work[T, R], tasks: Sequence[T]) -> list[R]:
        """Run tasks of one phase, and tell of their progress."""
        return self.context.run(
            work, tasks, phase=self.phase(name, len(tasks)), on_progress=self.on_progress
        )

    def _too_many(self, tally: Tally) -> CarnacError | None:
        limit = self.spec.tuning.max_parse_exceptions
        if limit is None or tally.rejected <= limit:
            return None
        return too_many(self.spec, tally.rejected, "so far", self.quarantine_folder)

    def _rejected(self, results: Sequence[SplitResult]) -> RejectedRows:
        """Return the rejected rows of all tasks.

        Raises:
            Invalid: More rows are rejected than the spec allows.
        """
        found = [result.rejections for result in results]
        kept = [path for one in found for path in one.paths]
        remove_others(self.context.output_url, self.quarantine_folder, kept)
        tuning = self.spec.tuning
        rejected = gather(
            found, folder=self.quarantine_folder, examples=tuning.max_saved_parse_exceptions
        )
        self._judge(rejected, sum(result.counts.rows_read for result in results))
        return rejected

    def _judge(self, rejected: RejectedRows, read: int) -> None:
        is_stream = self.messages is not None
        judge(self.spec, rejected, read, self.quarantine_folder, is_stream=is_stream)

    def _write(
        self, results: Sequence[SplitResult]
    ) -> tuple[tuple[Segment, ...], tuple[Place, ...]]:
        shape = united_shape(self.shape, (result.shape for result in results))
        spec, cores = self.spec, self.context.cores()
        parts = [part for result in results for part in result.parts]
        may_divide = spec.rollup != "perfect" and spec.partitions.type == "dynamic"
        template = MergeTask(
            datasource=spec.datasource,
            parts=(),
            shape=shape,
            chunk=parts[0].chunk if parts else None,  # type: ignore[arg-type]  # set for each merge
            partitions=spec.partitions,
            output_url=self.context.output_url,
            path_prefix=self.folder,
            id_prefix="",
            created_at_ms=self.context.clock.now_ms(),
            temp_dir=self.context.scratch(self.job_id) + "-merge",
            target_bytes=spec.tuning.target_segment_size_bytes,
            memory_bytes=self.context.task_memory_bytes,
        )
        merges = plan_merges(
            parts,
            template,
            max_rows=spec.partitions.rows_per_segment if may_divide else None,
            new_id=_new_ids(self.context.ids),
        )
        merges = plan_places(
            merges, self.places, job_id=self.job_id, is_perfect=spec.rollup == "perfect"
        )
        tasks = pack(merges, cores=cores)
        written = self.run_tasks("write segments", merge_all, tasks)
        found = (segment for one in written for segment in one.segments)
        places = tuple(place for one in written for place in one.places)
        return tuple(sorted(found, key=lambda segment: (segment.chunk, segment.segment_id))), places

    def _report(
        self,
        results: Sequence[SplitResult],
        segments: Sequence[Segment],
        rejected: RejectedRows,
        *,
        rows_late: int,
    ) -> JobReport:
        rows_read = sum(result.counts.rows_read for result in results)
        changed: Counter[str] = Counter()
        for result in results:
            changed.update(result.counts.changed)
        return JobReport(
            rows_read=rows_read,
            rows_filtered=sum(
                result.counts.rows_thrown_away + result.filtered for result in results
            ),
            rows_written=sum(segment.rows for segment in segments),
            rows_late=rows_late,
            rejected=rejected,
            segments=len(segments),
            size_bytes=sum(segment.size_bytes for segment in segments),
            seconds_by_phase=dict(self.timer.seconds),
            is_for_append=self.is_for_append and rows_read <= APPEND_ROWS_MAX,
            notes=(*changes.sentences(changed), *self._reserved_notes()),
        )

    def _reserved_notes(self) -> tuple[str, ...]:
        if not self.reserved:
            return ()
        names = ", ".join(self.reserved)
        return (
            f"left out, since the name is reserved for the store: {names}; rename it to keep it",
        )


def _new_ids(ids: IdSource) -> Iterator[str]:
    while True:
        yield ids.new_id()
