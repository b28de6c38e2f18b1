"""Reading a store: rows, datasources, and history. Nothing here changes a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from carnac.core.arguments import checked
from carnac.core.segments.sql_columns import HIDDEN_PREFIX
from carnac.core.showing import Listing
from carnac.core.time.intervals import IntervalSet, as_interval, as_moment
from carnac.errors import Invalid
from carnac.ports import SegmentInput
from carnac.ports.threads import never
from carnac.store.querying import OnSpark, Reads
from carnac.store.results import Result

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from carnac.config import Settings
    from carnac.core.log.commits import Commit, CommitSummary
    from carnac.core.log.entries import Chunk, VisibleSegment
    from carnac.core.log.late_ledger import LateLedger
    from carnac.core.log.positions import SourcePosition
    from carnac.core.time.intervals import Interval
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.metadata.store import MetadataStore
    from carnac.ports import DatasourceInfo, ExportResult, Head, QueryResult, Tag
    from carnac.ports.answers import Receipt
    from carnac.ports.threads import FindStop
    from carnac.query.engine import QueryEngine
    from carnac.store.history import DatasourceDiff, History
    from carnac.store.leases import LeaseKeeper
    from carnac.store.receipts import ReceiptCheck
    from carnac.store.why import WhyReport


@checked
class StoreReading:
    """The half of a `Store` that reads."""

    _metadata: MetadataStore
    _pipeline: Callable[[], SparkPipeline]
    _engine: Callable[[], QueryEngine]
    _leases: LeaseKeeper
    settings: Settings

    @cached_property
    def _history(self) -> History:
        from carnac.store.history import History

        return History(self._metadata)

    def sql(
        self,
        text: str,
        *,
        at: int | str | datetime | None = None,
        parameters: Sequence[object] | Mapping[str, object] = (),
        engine: str | None = None,
    ) -> Result:
        """Run one SELECT statement over one revision. The whole result is in memory: `export` writes larger ones.

        Args:
            engine: `spark`: on Spark, which starts when it is first needed and is kept until the store is closed; the
                answer is the same. `embedded` or None: in this process.
            parameters: A list gives each `?` its value, in order; a mapping gives each `$name` the one of its name.

        Raises:
            Invalid: The statement is wrong, or reaches for something else than the store's data.
            NotFound: A datasource, column or revision does not exist.
            Unavailable: It takes longer than `query_timeout_ms`, or more memory than `query_memory_limit_bytes` (its
                result: than half of that).
        """
        found = self._answered(text, as_moment(at), parameters, engine)

        def receipt(table: pa.Table) -> Receipt:
            from carnac.store.receipts import of_table

            return of_table(
                self._reads, text, revision=found.revision, parameters=parameters, table=table
            )

        return Result(found, receipt)

    def _answered(
        self,
        text: str,
        at: int | str | None,
        parameters: Sequence[object] | Mapping[str, object],
        engine: str | None,
    ) -> QueryResult:
        chosen = self._engine_named(engine)
        return self._reads.run(
            at, lambda catalog: chosen.run_query(text, catalog, parameters=parameters)
        )

    def _engine_named(self, name: str | None) -> QueryEngine | OnSpark:
        """Return what runs statements.

        Raises:
            Invalid: There is nothing of that name.
        """
        if name not in {None, "embedded", "spark"}:
            raise Invalid(f"engine must be embedded or spark, not '{name}'")
        if name != "spark":
            return self._engine()
        return OnSpark(self._engine(), self._pipeline(), self.settings.query_timeout_ms)

    @property
    def _reads(self) -> Reads:
        return Reads(self._engine(), self._metadata, self._leases)

    def receipt(
        self,
        text: str,
        *,
        at: int | str | datetime | None = None,
        parameters: Sequence[object] | Mapping[str, object] = (),
    ) -> Receipt:
        """Run one SELECT statement and return what its answer rests on, in place of its rows.

        Raises:
            Invalid, NotFound: As `sql`.
        """
        from carnac.store.receipts import derive

        return derive(self._reads, text, at=as_moment(at), parameters=parameters)[0]

    def verify_receipt(self, text: str, *, name: str = "the receipt") -> ReceiptCheck:
        """Derive a receipt again from the log, and compare.

        Args:
            text: JSON: a receipt as HTTP gives it or `carnac sql --receipt` writes it, with `statement`, and
                `parameters` if there are any.
            name: Name of the receipt for messages.

        Raises:
            Invalid: The text is no receipt, or its statement is wrong.
            NotFound: The receipt's revision is not kept any more.
        """
        from carnac.store.receipts import load, verify

        return verify(self._reads, load(text, name))

    def why(
        self,
        text: str,
        first: int | str | datetime,
        last: int | str | datetime | None = None,
        *,
        parameters: Sequence[object] | Mapping[str, object] = (),
    ) -> WhyReport:
        """Return which commits changed the answer of a statement between two revisions, and by how much.

        Args:
            text: A statement that gives one row of numbers, or counts and sums by groups.
            first: The earlier revision.
            last: The later one; None: the newest.

        Raises:
            Invalid: The statement or the order of the revisions is wrong; there are too many commits between them.
            NotFound: As `sql`; the commits between the revisions are not kept any more.
        """
        from carnac.store.why import WhyFinder

        finder = WhyFinder(self._reads, text, parameters)
        start = as_moment(first)
        if start is None:
            raise Invalid("say from which revision on: why(text, first)")
        return self._engine().apart(lambda: finder.find(start, as_moment(last)))

    def export(
        self,
        text: str,
        target: object,
        *,
        format: str | None = None,  # noqa: A002 - what everybody calls it
        at: int | str | datetime | None = None,
        parameters: Sequence[object] | Mapping[str, object] = (),
        max_rows: int | None = None,
        overwrite: bool = False,
        engine: str | None = None,
        find_stop: FindStop | None = None,
    ) -> ExportResult:
        """Run one SELECT statement and write its rows to a file, as they come: the result may be larger than memory.

        A file is there when all of it is: it is written beside its place and renamed.

        Args:
            target: A path, or a binary file that is open for writing.
            format: `csv`, `jsonl`, `parquet` or `arrow`. None: by the ending of the path.
            parameters: As for `sql`.
            max_rows: Most rows to write; None: all.
            overwrite: Take the place of a file that is there.
            engine: As for `sql`.
            find_stop: Called about twice a second; an error that it returns stops the statement and is raised.

        Raises:
            Invalid: As `sql`; the file is there already, or its format is not known.
            NotFound: As `sql`; the folder of the file does not exist.
            DiskFull: There is no space for it; nothing is left behind.
        """
        from carnac.store.exporting import export

        return export(
            self._reads,
            self._engine_named(engine),
            text,
            target,
            form=format,
            at=as_moment(at),
            parameters=parameters,
            rows_max=max_rows,
            overwrite=overwrite,
            find_stop=find_stop or never,
        )

    def read_spark(
        self,
        datasource: str,
        *,
        at: int | str | datetime | None = None,
        interval: Interval | str | None = None,
    ) -> DataFrame:
        """Return a `pyspark.sql.DataFrame` over one revision. Its files are kept until the store is closed.

        It has all columns that the datasource has at the revision, whatever the interval.

        Raises:
            NotFound: There is no such revision, or no such datasource at it.
        """
        revision = self._leases.pin(as_moment(at)).head.revision
        where = _as_set(interval)
        inputs = [
            SegmentInput(
                segment=item.segment,
                visible=item.entry.visible
                if where is None
                else item.entry.visible.intersect(where),
            )
            for item in self._visible(datasource, revision, where)
        ]
        columns = self._metadata.columns(datasource, revision=revision)
        return self._pipeline().read_spark(inputs, columns=columns)

    def datasources(self, *, at: int | str | datetime | None = None) -> tuple[DatasourceInfo, ...]:
        """Return the datasources that have rows, by name."""
        return Listing(self._metadata.datasources(self._metadata.resolve(as_moment(at)).revision))

    def columns(
        self, datasource: str, *, at: int | str | datetime | None = None
    ) -> Mapping[str, str]:
        """Return the columns of a datasource by name, with their types as specs call them, besides `__time`.

        Raises:
            NotFound: There is no such revision, or no such datasource at it.
        """
        revision = self._metadata.resolve(as_moment(at)).revision
        found = self._metadata.columns(datasource, revision=revision)
        if not found:
            self._metadata.require_datasource(datasource, revision)
        return {
            name: kind.value for name, kind in found.items() if not name.startswith(HIDDEN_PREFIX)
        }

    def segments(
        self,
        datasource: str,
        *,
        at: int | str | datetime | None = None,
        interval: Interval | str | None = None,
    ) -> Sequence[VisibleSegment]:
        """Return the visible segments with their entries, in order of time chunk and partition id.

        Raises:
            NotFound: There is no such revision, or no such datasource at it.
        """
        where = _as_set(interval)
        revision = self._metadata.resolve(as_moment(at)).revision
        return Listing(self._visible(datasource, revision, where))

    def _visible(
        self, datasource: str, revision: int, where: IntervalSet | None
    ) -> Sequence[VisibleSegment]:
        found = self._metadata.visible(datasource, revision=revision, intervals=where)
        if not found:
            self._metadata.require_datasource(datasource, revision)
        return found

    def chunks(self, datasource: str) -> tuple[Chunk, ...]:
        """Return the live time chunks, in order of time.

        Raises:
            NotFound: There is no such datasource.
        """
        found = self._metadata.chunks(datasource)
        if not found:
            self._metadata.require_datasource(datasource, self._metadata.head().revision)
        return Listing(found)

    def late(
        self,
        datasource: str,
        *,
        at: int | str | datetime | None = None,
        interval: Interval | str | None = None,
    ) -> LateLedger:
        """Return the late ledger: how late rows were when they were appended, and whether they are folded yet.

        It counts input rows that are visible at the revision, without rows that were replaced or deleted.

        Raises:
            NotFound: There is no such revision, or no such datasource at it.
        """
        from carnac.core.log.late_ledger import draw_up_ledger

        head, within = self._metadata.resolve(as_moment(at)), as_interval(interval)
        found = self._metadata.visible_late(
            datasource, revision=head.revision, intervals=_as_set(within)
        )
        if not found:
            self._metadata.require_datasource(datasource, head.revision)
        return draw_up_ledger(
            found, datasource=datasource, revision=head.revision, at_ms=head.at_ms, within=within
        )

    def lookups(self, *, at: int | str | datetime | None = None) -> Mapping[str, Mapping[str, str]]:
        """Return the lookups by name."""
        return self._metadata.lookups(self._metadata.resolve(as_moment(at)).revision)

    # history

    def head(self) -> Head:
        """Return the newest revision."""
        return self._metadata.head()

    def resolve(self, at: int | str | datetime | None = None) -> Head:
        """Return the revision that `at` means, and when it was published."""
        return self._metadata.resolve(as_moment(at))

    def log(
        self, *, datasource: str | None = None, before: int | None = None, limit: int = 50
    ) -> tuple[CommitSummary, ...]:
        """Return the newest retained commits, newest first, `limit` at most; `before` a revision: the next page.

        Raises:
            NotFound: The datasource has neither rows nor commits.
        """
        found = self._metadata.log(datasource=datasource, before=before, limit=limit)
        if datasource is not None and not found:
            is_known = limit == 0 or before is not None
            if not (is_known and self._metadata.log(datasource=datasource, limit=1)):
                self._metadata.require_datasource(datasource)
        return Listing(found)

    def show(self, at: int | str | datetime | None = None) -> Commit:
        """Return one whole commit: the entries that it added and dropped, its offsets, lookups and proof."""
        return self._history.commit(as_moment(at))

    def changes(self, *, after: int, limit: int = 1000) -> tuple[Commit, ...]:
        """Return the commits after a revision, oldest first, `limit` at most, for a reader that follows the store.

        Raises:
            NotFound: One of the commits was trimmed; the reader has to start anew.
        """
        return Listing(self._metadata.changes(after=after, limit=limit))

    def position(self, writer: str) -> Mapping[str, str]:
        """Return the offset that a writer has reached in each of its sources; empty if it has read none.

        The position stays when rows are reverted, deleted or trimmed, so the writer does not read them again.
        """
        found = self._metadata.position(writer).values()
        return {one.source: one.offset for one in found}

    def positions(self) -> Sequence[SourcePosition]:
        """Return the positions of all writers, by writer and source."""
        return Listing(self._metadata.positions())

    def diff(
        self, first: int | str | datetime, second: int | str | datetime | None = None
    ) -> tuple[Head, Head, tuple[DatasourceDiff, ...]]:
        """Compare two revisions; the second is the newest by default. Datasources that are the same are left out."""
        return self._history.diff(as_moment(first), as_moment(second))

    def tag(self, name: str, *, at: int | str | datetime | None = None) -> Tag:
        """Name a revision; it stays readable while the tag is there. A tag that exists is moved.

        Raises:
            Invalid: The name is that of a revision or a time, or no name at all.
        """
        return self._metadata.put_tag(name, self._metadata.resolve(as_moment(at)).revision)

    def untag(self, name: str) -> None:
        """Remove a tag.

        Raises:
            NotFound: There is no such tag.
        """
        self._metadata.remove_tag(name)

    def tags(self) -> tuple[Tag, ...]:
        """Return all tags by name."""
        return Listing(self._metadata.tags())


def _as_set(interval: Interval | str | None) -> IntervalSet | None:
    parsed = as_interval(interval)
    return None if parsed is None else IntervalSet((parsed,))
