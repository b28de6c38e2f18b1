"""The public face of a store: the class that `carnac.open` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from carnac.core.arguments import checked
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.redaction import show_url
from carnac.core.showing import Listing, facts_line, facts_table
from carnac.core.time.intervals import as_interval, as_moment
from carnac.errors import CarnacError, Invalid
from carnac.ports.closing import Closing
from carnac.store.leases import LeaseKeeper
from carnac.store.services import StoreServices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from carnac.config import Settings
    from carnac.core.compaction.plan.groups import CompactionGroup
    from carnac.core.log.positions import OffsetRange
    from carnac.core.time.intervals import Interval
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock, DeepStorage, Lease, Published, WriteGuard
    from carnac.ports.places import Allocator
    from carnac.query.engine import QueryEngine
    from carnac.spark.streams import Stream
    from carnac.specs.ingest.spec import IngestSpec
    from carnac.store.compacting.reports import CompactionReport, GroupReport
    from carnac.store.upkeep.maintenance import GcReport
    from carnac.store.upkeep.verifying import Finding, ScrubStatus
    from carnac.store.writing.erasing import ErasureReport
    from carnac.store.writing.outcome import WriteOutcome
    from carnac.store.writing.writer import PlanListener, ProgressListener


@checked
class Store(StoreServices, Closing):
    """An event store. Open it with `carnac.open`; use it in a `with` block or call `close`.

    Reading never starts Spark; `ingest`, `delete(where=…)`, `erase`, `compact` and `read_spark` do, when they first
    need it. Safe to use from many threads; a forked child opens a store of its own.

    Arguments of the same name mean the same everywhere:

    - `at`: None for the newest revision, a number, a time such as `2013-05-01T12:00` or an aware `datetime` (the last
      revision published by then), or the name of a tag. A revision that is not there, or was trimmed, is `NotFound`.
    - `interval`: a `carnac.Interval` or ISO 8601, `start/end` or `start/period`, UTC, end excluded. None: all of time.
    - `guard`: the locks of the task that writes, checked when it publishes. None: no lock is asked for.
    - `batch`: (writer, batch). A second publication under the same pair changes nothing.
    - `message`: for people who read the log. `on_progress`: called from a thread of its own while a job runs.

    Every method may raise `Unavailable` (metadata store, deep storage or Spark does not answer: retry later) and
    `Corrupt`; those that write `ReadOnly`, `DiskFull`, and `Revoked` (locks or lease are lost; nothing was published).
    """

    def __init__(
        self,
        *,
        metadata: MetadataStore,
        deep_storage: DeepStorage,
        pipeline: Callable[[], SparkPipeline],
        engine: Callable[[], QueryEngine],
        clock: Clock,
        settings: Settings,
        holder: str,
        on_close: Callable[[], None] | None = None,
        allocator: Allocator | None = None,
    ) -> None:
        self._on_close = on_close
        self._metadata = metadata
        self._deep_storage = deep_storage
        self._pipeline = pipeline
        self._engine = engine
        self._leases = LeaseKeeper(
            metadata, clock=clock, holder=holder, ttl_ms=settings.lease_ttl_ms
        )
        self._clock = clock
        self._allocator = allocator
        self._streams: list[Stream] = []
        self.settings = settings

    @property
    def deep_storage(self) -> DeepStorage:
        """Where the segment files and the quarantined rows are."""
        return self._deep_storage

    def __repr__(self) -> str:
        return facts_line("Store", {"files": show_url(self._deep_storage.url)})

    def _repr_html_(self) -> str:
        """Return where it is, its newest revision and its datasources as tables, for a notebook."""
        facts = {"files": show_url(self._deep_storage.url)}
        try:
            facts["revision"] = f"{self.head().revision}"
            return facts_table(facts) + Listing(self._metadata.datasources())._repr_html_()
        except (
            CarnacError
        ) as error:  # closed, or its database is away: a notebook shows it none the less
            return facts_table(facts | {"error": error.message})

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied: connections, leases and Spark are of this process."""
        raise Invalid("a store cannot be copied or pickled; open it by its name in the other place")

    def close(self) -> None:
        """Release leases and connections, and stop Spark if this store started it. Idempotent.

        Raises:
            Unavailable: The database does not answer; all the rest is closed, and the leases end by themselves.
        """
        with ExitStack() as steps:  # each is done, also if another one fails
            steps.callback(self._metadata.close)
            if self._on_close is not None:
                steps.callback(self._on_close)
            steps.callback(self._leases.close)
            for stream in self._streams:
                steps.callback(stream.stop)

    # writing

    def ingest(
        self,
        spec: IngestSpec | Mapping[str, object] | str,
        rows: object | None = None,
        *,
        time: str | Mapping[str, object] | None = None,
        message: str = "",
        allow_type_change: bool = False,
        allow_missing: bool = False,
        on_plan: PlanListener | None = None,
        on_progress: ProgressListener | None = None,
        guard: WriteGuard | None = None,
        offsets: OffsetRange | None = None,
    ) -> WriteOutcome:
        """Run a batch ingestion and publish it in one commit.

        Args:
            spec: An `IngestSpec`, a mapping, or JSON or YAML text, Carnac's or Druid's; with `writer` and `batch` it is
                published once. Or the name of a datasource: rows are read as by `append`.
            rows: A Spark, pandas or Polars DataFrame, or an Arrow table; beside a name also paths of files. None: the
                `input` of the spec.
            time: As for `append`; only beside the name of a datasource.
            allow_type_change, allow_missing: As in `tuningConfig`: a column may change its type so that queries break;
                a declared column that no row has is null. Else both are errors.
            on_plan: Called once, with what is about to be done, before any row is written.
            offsets: The part of a source that the rows are. It is published once, and only if it starts from the
                writer's `position`. The position moves even if there are no rows to add; with `maxParseExceptions` in
                the spec also if no row could be read.

        Raises:
            Invalid, NotFound: The spec is wrong or does not fit the data, or an input does not exist.
            AllRejected: No row could be read.
            Conflict: Segments to be replaced were changed meanwhile (retry), or `offsets` start elsewhere than the
                position of their writer. An append without offsets never raises it.
        """
        from carnac.store.writing.loading import plan_ingest

        return self._writer.load(
            replace(plan_ingest(self._metadata, spec, rows, time=time), offsets=offsets),
            message=message,
            allowed=(allow_type_change, allow_missing),
            on_plan=on_plan,
            on_progress=on_progress,
            guard=guard,
        )

    def check_input(self, spec: IngestSpec) -> None:
        """Look for what the input of a spec names: files, and datasources and columns of a statement. Without Spark.

        Raises:
            NotFound, Invalid: Something is not there, or cannot be loaded.
        """
        self._writer.check_input(spec)

    def append(
        self,
        datasource: str,
        rows: object,
        *,
        spec: IngestSpec | Mapping[str, object] | str | None = None,
        time: str | Mapping[str, object] | None = None,
        writer: str | None = None,
        batch: str | None = None,
        message: str = "",
        allow_type_change: bool = False,
        allow_missing: bool = False,
        on_plan: PlanListener | None = None,
        guard: WriteGuard | None = None,
        offsets: OffsetRange | None = None,
    ) -> WriteOutcome:
        """Append up to 1,000,000 rows and 256 MB in one commit, as `ingest` does, but in this process, without Spark.

        Args:
            rows: An Arrow table or batch, a pandas or Polars DataFrame, a list of dicts, or paths of files.
            spec: As for `ingest`, without input; one of native form may leave out the datasource. None: as the
                datasource was loaded before, else as the rows show.
            time: Column of the time, or parts of a `timestampSpec`. None: as loaded before, else as the rows show.
            writer, batch: Both or neither. A second publication under the same pair changes nothing.
            allow_type_change, allow_missing: As for `ingest`.
            on_plan, offsets: As for `ingest`.

        Raises:
            Invalid, AllRejected, NotFound: As `ingest`; there is too much for an append, or it needs Spark.
            Conflict: `offsets` start elsewhere than the position of their writer.
        """
        from carnac.store.writing.loading import plan_append

        how = {"spec": spec, "time": time, "writer": writer, "batch": batch}
        return self._writer.load(
            replace(plan_append(self._metadata, datasource, rows, **how), offsets=offsets),
            message=message,
            allowed=(allow_type_change, allow_missing),
            on_plan=on_plan,
            guard=guard,
            is_here=True,
        )

    def stream(
        self,
        spec: IngestSpec | Mapping[str, object] | str,
        events: DataFrame,
        *,
        writer: str,
        time: str | Mapping[str, object] | None = None,
        trigger: str | None = None,
        message: str = "",
        allow_type_change: bool = False,
        allow_missing: bool = False,
    ) -> Stream:
        """Start a Spark stream into a datasource; it goes on from `position(writer)`, exactly once, without checkpoint.

        Args:
            spec: As for `ingest`, of an append, without `writer` and `batch`; or the name of a datasource.
            events: A streaming DataFrame without state, whose sources have offsets that mean the same everywhere.
            writer: The name of the stream, for good.
            time, allow_type_change, allow_missing: As for `ingest`.
            trigger: A time such as `10 seconds` between batches; `available-now`: the stream reads the rows that are
                there, then ends. None: each batch follows the one before it.

        Raises:
            Invalid: The spec or the stream cannot be used; the message says what to do instead.
        """
        from carnac.store.writing.streaming import BatchPublisher

        allowed: Any = {"allow_type_change": allow_type_change, "allow_missing": allow_missing}
        ingest = partial(self.ingest, time=time, message=message, **allowed)
        found = self._pipeline().start_stream(
            events,
            BatchPublisher(ingest, self._metadata, self._history, writer, spec),
            position=self.position(writer),
            trigger=trigger,
        )
        self._streams = [one for one in self._streams if not one.is_over] + [found]
        return found

    def move_position(self, offsets: OffsetRange, *, message: str = "") -> Published:
        """Move the position of a writer without rows: to read a part of a source again, to leave it out, to forget it.

        Raises:
            Conflict: The range starts elsewhere than the position.
        """
        return self._history.move_position(offsets, message=message)

    def delete(
        self,
        datasource: str,
        *,
        interval: Interval | str | None = None,
        where: str | None = None,
        message: str = "",
        on_progress: ProgressListener | None = None,
        guard: WriteGuard | None = None,
        batch: tuple[str, str] | None = None,
    ) -> WriteOutcome:
        """Delete rows: by interval (metadata only, at once), by SQL predicate (rewrites on Spark), or both.

        Args:
            where: A condition in DuckDB's SQL over the columns and `__time`; where it is null, the row stays.

        Raises:
            Invalid: Neither is given, or they do not fit the datasource; an interval that cuts rolled-up segments must
                be aligned to their query granularity.
            NotFound: There is no such datasource.
            Conflict: A segment that was rewritten was changed meanwhile: retry.
        """
        return self._writer.delete(
            datasource,
            where,
            interval=as_interval(interval),
            message=message,
            on_progress=on_progress,
            guard=guard,
            batch=batch,
        )

    def compact(
        self,
        groups: Sequence[CompactionGroup],
        *,
        guard: WriteGuard | None = None,
        batch: tuple[str, str] | None = None,
        message: str = "",
        on_group: Callable[[GroupReport], None] | None = None,
        on_progress: ProgressListener | None = None,
    ) -> CompactionReport:
        """Rewrite groups of segments to the same rows; each group is proved and committed alone.

        Args:
            batch: Batch of the whole; a group that was published under it before is not done again.
            on_group: Called when a group has ended, from any thread.

        Raises:
            Invalid: Two groups share an id. The error of a single group is in its report.
            Unavailable: As everywhere; groups that were committed stay.
        """
        from carnac.store.compacting.compactor import run_groups

        return run_groups(
            self._compacting,
            groups,
            guard=guard,
            batch=batch,
            message=message,
            on_group=on_group,
            on_progress=on_progress,
        )

    def plan_compaction(
        self,
        datasource: str,
        *,
        interval: Interval | str | None = None,
        segments: Sequence[str] | None = None,
        target: CompactionTarget | None = None,
    ) -> tuple[CompactionGroup, ...]:
        """Return the groups that `compact_interval` would run: one for each time chunk. Reads metadata only.

        Args:
            segments: Ids of visible segments, for a minor compaction of just these; None: all of the chunks.
            target: Form of the new segments; None: rows as they are, in segments of the usual size.

        Raises:
            NotFound: There is no such datasource, or a named segment is not visible.
        """
        from carnac.store.compacting.compactor import plan_interval

        parsed = as_interval(interval)
        return plan_interval(
            self._metadata, datasource, parsed, segments, target or CompactionTarget()
        )

    def compact_interval(
        self,
        datasource: str,
        *,
        interval: Interval | str | None = None,
        segments: Sequence[str] | None = None,
        target: CompactionTarget | None = None,
        on_progress: ProgressListener | None = None,
    ) -> CompactionReport:
        """Compact the time chunks of an interval, or just the segments that are named, whether they need it or not.

        Arguments as for `plan_compaction`. Automatic compaction is the subject of `carnac.open_compaction`.

        Raises:
            NotFound: There is no such datasource, or a named segment is not visible.
            Unavailable: As everywhere; groups that were committed stay.
        """
        groups = self.plan_compaction(
            datasource, interval=interval, segments=segments, target=target
        )
        return self.compact(groups, on_progress=on_progress)

    def revert(self, at: int | str | datetime) -> Published:
        """Undo one commit and keep all later appends; metadata only. The position of its writer stays.

        Raises:
            Invalid: The commit changed no row.
            NotFound: There is no such commit, or what it took out of sight was deleted since.
            Conflict: A later commit stands in the way; it is named.
        """
        return self._history.revert(as_moment(at), self._writer.segment_granularity)

    def set_lookup(
        self, name: str, mapping: Mapping[str, str] | None, *, message: str = ""
    ) -> Published:
        """Set a lookup to a mapping of text to text, or remove it (None); a commit like any other.

        Raises:
            NotFound: The lookup to be removed is not there.
        """
        from carnac.core.log.commits import LookupChange

        change = LookupChange(name=name, mapping=mapping)
        return self._history.set_lookups([change], message=message)

    # maintenance

    def leases(self) -> tuple[Lease, ...]:
        """Return the leases of readers and writers that are alive, in any process."""
        return self._metadata.leases()

    def gc(
        self, *, dry_run: bool = False, is_stopping: Callable[[], bool] | None = None
    ) -> GcReport:
        """Trim history by the retention rules and delete files that nothing names; a dry run says what would go.

        May run beside readers, writers and another of its kind; may be interrupted anywhere.

        Args:
            is_stopping: Asked before each file; None: never. Once it says so, the rest is left to the next time.
        """
        self._leases.release_idle()
        return self._maintenance.collect_garbage(dry_run=dry_run, is_stopping=is_stopping)

    def kill(self, datasource: str, *, interval: Interval | str | None = None) -> GcReport:
        """Delete the files of unused segments for good: those that no retained revision, tag or reader names.

        Unlike `gc` it does not wait for the trash period.
        """
        parsed = as_interval(interval)
        self._leases.release_idle()
        return self._maintenance.kill(datasource, parsed)

    def clean(
        self,
        datasource: str,
        *,
        interval: Interval | str | None = None,
        guard: WriteGuard | None = None,
    ) -> WriteOutcome:
        """Forget which segments the live ones have replaced, as `clean` tasks do: metadata only, no row is rewritten.

        Raises:
            NotFound: There is no such datasource.
        """
        from carnac.store.writing.cleaning import clean

        return clean(
            self._metadata,
            datasource,
            as_interval(interval),
            segment_granularity=self._writer.segment_granularity(datasource),
            guard=guard,
        )

    def erase(
        self,
        datasource: str,
        *,
        where: str,
        message: str = "",
        on_progress: ProgressListener | None = None,
    ) -> ErasureReport:
        """Take rows out of every revision, by a rewrite on Spark, and return the certificate; nothing takes it back.

        All other rows of all revisions stay as they were. Rows that are appended meanwhile are not searched. Writers
        wait at the end while SQLite's file is written anew.

        Args:
            where: As for `delete`, over the columns that the datasource has or had.

        Raises:
            Invalid: It is no such condition.
            NotFound: No retained revision has such a datasource.
            Conflict: Others changed the segments ten times in a row while they were rewritten.
        """
        return self._eraser.erase(datasource, where, message=message, on_progress=on_progress)

    def plan_erasure(self, datasource: str, *, where: str) -> tuple[int, int]:
        """Return how many segments `erase` would read, visible and earlier ones; raises as it does."""
        self._eraser.check(datasource, where)
        return self._eraser.segments(datasource)

    def check(self) -> tuple[str, ...]:
        """Return what in the metadata contradicts itself, a sentence each; nothing if all is well. Opens no file."""
        return self._metadata.check()

    def scrub_status(self) -> ScrubStatus:
        """Return how far an overlord is with reading all segment files, and what it found damaged."""
        from carnac.store.upkeep.verifying import load_scrub_status

        return load_scrub_status(self._metadata)

    def verify(self, *, on_progress: Callable[[int, int], None] | None = None) -> Iterator[Finding]:
        """Yield what is wrong: missing or damaged files, wrong records, orphans. Reads every file that a record names.

        Args:
            on_progress: Called with the files looked at so far, and with how many there are.
        """
        return self._maintenance.verify(on_progress=on_progress)
