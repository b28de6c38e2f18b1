"""The view of a query: one revision, read from the metadata store as far as it is needed; and running it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast
from weakref import WeakKeyDictionary

from carnac.core.access import ALL_DATASOURCES, DatasourcePatterns
from carnac.errors import CarnacError, Corrupt, NotFound
from carnac.ports.distributed import SparkAsked, late_on_spark
from carnac.ports.memo import Memo
from carnac.ports.threads import FindStop, never, stopped_after

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.core.log.entries import VisibleSegment
    from carnac.core.segments.segment import ColumnType
    from carnac.core.time.intervals import IntervalSet
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.metadata.store import MetadataStore
    from carnac.ports import ExportResult, QueryResult
    from carnac.ports.distributed import SparkPlan
    from carnac.ports.serving import Held
    from carnac.query.engine import QueryEngine
    from carnac.query.parameters import Parameters
    from carnac.store.leases import LeaseKeeper

T = TypeVar("T")

READ_ATTEMPTS_MAX = 3
"""How often a query is run when its lease runs out meanwhile, as it does when the machine sleeps."""


class RevisionCatalog:
    """The `Catalog` port over a metadata store, at one revision.

    Values that were read of a revision are kept with the metadata store. They change with its edition alone, and the
    next query uses them.

    Args:
        datasources: Those that exist for the query.
        held: Function that returns the segments that historicals have loaded; None: historicals are not asked.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        revision: int,
        datasources: DatasourcePatterns = ALL_DATASOURCES,
        *,
        held: Callable[[], Mapping[str, Held]] | None = None,
    ) -> None:
        self.revision = revision
        self.edition = metadata.edition
        self.datasources = datasources
        self._held = held
        self._metadata = metadata
        if metadata not in _KEPT:
            _KEPT[metadata] = Memo(values_max=KEPT_MAX, weight_max=KEPT_PARTS, weigh=_weigh)
        self._memo = _KEPT[metadata]

    @property
    def store_id(self) -> str:
        """The id of the store."""
        return self._metadata.store_id

    def datasource_names(self) -> Sequence[str]:
        """Return the datasources of the revision, by name."""
        names = self._kept(
            ("names",), lambda: [info.name for info in self._metadata.datasources(self.revision)]
        )
        return self.datasources.matching(names)

    def visible(self, datasource: str, intervals: IntervalSet | None) -> Sequence[VisibleSegment]:
        """Return the entries whose visible instants overlap `intervals` (None: all)."""
        if not self.datasources.matches(datasource):
            return ()
        return self._kept(
            ("visible", datasource, intervals),
            lambda: self._metadata.visible(datasource, revision=self.revision, intervals=intervals),
        )

    def columns(self, datasource: str) -> Mapping[str, ColumnType]:
        """Return the united schema at the revision, without `__time`."""
        if not self.datasources.matches(datasource):
            return {}
        return self._kept(
            ("columns", datasource),
            lambda: self._metadata.columns(datasource, revision=self.revision),
        )

    def count_segments(self, datasource: str) -> int:
        """Return the number of visible entries."""
        if not self.datasources.matches(datasource):
            return 0
        return self._kept(
            ("count", datasource),
            lambda: self._metadata.count_visible(datasource, revision=self.revision),
        )

    def lookups(self) -> Mapping[str, Mapping[str, str]]:
        """Return the lookups of the revision."""
        return self._kept(("lookups",), lambda: self._metadata.lookups(self.revision))

    def system(self, table: str) -> Iterator[Sequence[object]]:
        """Yield the rows of a table of `sys`."""
        from carnac.store.system_rows import SystemRows

        held = None if self._held is None else self._held()
        return SystemRows(self, self._metadata, held).of(table)

    def _kept(self, what: Hashable, read: Callable[[], T]) -> T:
        return cast("T", self._memo.get((self.edition, self.revision, what), read))


KEPT_MAX = 1_000
"""Answers about revisions."""
KEPT_PARTS = 20_000
"""Maximum number of kept parts: segments, columns, pairs of lookups; about 3 KB each at most."""
_KEPT: WeakKeyDictionary[MetadataStore, Memo[Hashable, object]] = WeakKeyDictionary()


def _weigh(_: Hashable, answer: object) -> int:
    if isinstance(answer, Mapping):
        return sum(len(one) if isinstance(one, Mapping) else 1 for one in answer.values())
    return len(answer) if isinstance(answer, Sequence) else 1


@dataclass(frozen=True, slots=True)
class Reads:
    """Reads of a store: each of one revision, under a reader's lease."""

    engine: QueryEngine
    metadata: MetadataStore
    leases: LeaseKeeper

    def run(
        self,
        at: int | str | None,
        work: Callable[[RevisionCatalog], T],
        *,
        attempts_max: int = READ_ATTEMPTS_MAX,
    ) -> T:
        """Do something over one revision, again if its lease ran out meanwhile."""
        for attempt in range(1, attempts_max + 1):
            with self.leases.reading(at) as reading:
                try:
                    return work(RevisionCatalog(self.metadata, reading.head.revision))
                except (Corrupt, NotFound):
                    # Without a gap in the lease this is what it says; with one, gc may have been faster.
                    if reading.is_held() or attempt == attempts_max:
                        raise
        raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Runs statements on Spark, as `QueryEngine` runs them here.

    Attributes:
        timeout_ms: After which a statement is stopped; 0: no limit.
    """

    engine: QueryEngine
    runner: SparkPipeline
    timeout_ms: int

    def run_query(
        self, sql: str, catalog: RevisionCatalog, *, parameters: Parameters = ()
    ) -> QueryResult:
        """Run a statement; see `QueryEngine.run_query`."""
        import pyarrow as pa

        with self._pieces(sql, catalog, parameters) as (plan, pieces):
            tables = [pa.Table.from_batches([one]) for one in pieces]
        return self.engine.run_final(plan.merge, {plan.rows: tables} if tables else {})

    def export_query(
        self,
        sql: str,
        catalog: RevisionCatalog,
        target: BinaryIO,
        *,
        form: str,
        parameters: Parameters = (),
        rows_max: int | None = None,
        find_stop: FindStop = never,
    ) -> ExportResult:
        """Run a statement and write its rows as they come; see `QueryEngine.export_query`."""
        with self._pieces(sql, catalog, parameters, find_stop) as (plan, pieces):
            readers = _as_readers(pieces)
            answers = {plan.rows: readers} if readers else {}
            return self.engine.export_final(
                plan.merge, answers, target, form=form, rows_max=rows_max
            )

    @contextmanager
    def _pieces(
        self,
        sql: str,
        catalog: RevisionCatalog,
        parameters: Parameters,
        find_stop: FindStop = never,
    ) -> Iterator[tuple[SparkPlan, Iterator[pa.RecordBatch]]]:
        """Yield a plan and the rows that Spark makes of it; none for EXPLAIN.

        An error that the rows raise leaves the block, even if their consumer raises another one.
        """
        asked = SparkAsked(reason="Spark was asked for", parameters=parameters)
        plan = self.engine.plan_spark(sql, catalog, asked)
        failures: list[CarnacError] = []
        with stopped_after(self.timeout_ms or None, lambda: None) as is_late:

            def stop() -> CarnacError | None:
                return late_on_spark(self.timeout_ms) if is_late.is_set() else find_stop()

            def rows() -> Generator[pa.RecordBatch, None, None]:
                try:
                    if not plan.merge.told:
                        found = self.runner.run_statement(plan, stop=stop)
                        yield from cast("Iterator[pa.RecordBatch]", found)
                except CarnacError as error:
                    failures.append(error)
                    raise

            with closing(rows()) as pieces:
                try:
                    yield plan, pieces
                except CarnacError:
                    if failures:
                        raise failures[0] from None
                    raise


def _as_readers(pieces: Iterator[pa.RecordBatch]) -> list[pa.RecordBatchReader]:
    """Return what reads the pieces; nothing if there are none."""
    import pyarrow as pa

    first = next(pieces, None)
    if first is None:
        return []
    return [pa.RecordBatchReader.from_batches(first.schema, chain([first], pieces))]
