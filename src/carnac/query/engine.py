"""The query engine: SQL over the segment files of one revision, on DuckDB.

DuckDB's parser makes a tree of a query, and the gate (`checking`) lets it pass. Its tables and the conditions on them
are found (`relations`, `conditions`). The segments of each table that may match (`core.pruning`) become a view on their
files (`scans`). The tree, its tables replaced by these views, is printed and run. So the text that runs names nothing
but views on segment files.

Behind the gate stands a second wall, the limits of DuckDB itself (`running.query`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from carnac.errors import Cancelled, TimedOut, TooLarge, Unavailable
from carnac.ports import Catalog, DeepStorage, ExportResult, QueryResult
from carnac.ports.distributed import Distribution, GatherLimit, LoadAsked, SparkAsked
from carnac.ports.queries import KEEP, READ_ALL, Keeping, LeafFiles, LeafReport, LeafRequest
from carnac.ports.threads import FindStop, never, stopped_after
from carnac.query.cache import FileCache, default_cache_folder, spill_folder
from carnac.query.distributed.distributing import Asked, Distributor
from carnac.query.distributed.leaves import checked_leaf, reported, without_missing
from carnac.query.distributed.merging import merged_table, result_of, show_answers, whole_table
from carnac.query.hot import HotSegments
from carnac.query.intact import IntactFiles, Interrupted
from carnac.query.keeping.embedded import Embedded
from carnac.query.keeping.rows import LeafRunner
from carnac.query.keeping.store import KeptResults, WholeAnswer
from carnac.query.keeping.whole import distributed_answer
from carnac.query.messages import translate
from carnac.query.parameters import Parameters
from carnac.query.planning import Plan, scan_of
from carnac.query.plans import KnownPlans
from carnac.query.results import gives_of, no_rows, silence_copies, whole_rows
from carnac.query.running.limits import apart, default_memory_bytes, may_grow_bytes, memory_held
from carnac.query.running.own_functions import OwnFunctions
from carnac.query.running.query import RunningQuery, ScanFiles, settings_of
from carnac.query.streams.streaming import StreamedQuery

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.ports.distributed import SparkLoad, SparkPlan

DEFAULT_CACHE_BYTES = 10 * 1024**3
T = TypeVar("T")

STUCK_MAX = 4
"""Number of stopped queries that still compute one function over one value, from which no other query starts."""
DEFAULT_HOT_PART = 8
"""Divisor: this part of the memory limit is for hot segments."""


class QueryEngine:
    """Runs SELECT statements over segments, and can reach nothing else. Safe for threads: each has a cursor of its own.

    Args:
        storage: Where segment files are.
        cache_folder: Where files of an object store are kept; default: one for each deep storage below the
            user's own cache folder (`XDG_CACHE_HOME`, else `~/.cache`).
        cache_bytes: How much that folder may hold, besides the files of running queries.
        threads: None: one for each core.
        memory_limit_bytes: Memory that DuckDB may use before it spills to disk or fails; None: 80 % of the machine's. A
            result may take half of it. While queries run the process cannot grow by much more (`limits`).
        timeout_ms: A query that takes longer is stopped; None: no limit.
        verify_reads: Whether this process checks the bytes of each file against its record before it reads it first.
        folders: Others with files that leaf requests come with (`LeafFiles.places`).
        hot_bytes: Memory for segments that are read often (`hot`), within the limit; None: an eighth of it; 0: none.
        gather_limit: Of the rows that one distributed statement may bring here from all servers together.

    Attributes:
        kept: Partial results of statements that were run; None among the arguments: within the usual limits.
    """

    def __init__(
        self,
        storage: DeepStorage,
        *,
        cache_folder: Path | None = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        threads: int | None = None,
        memory_limit_bytes: int | None = None,
        timeout_ms: int | None = None,
        verify_reads: bool = True,
        folders: Sequence[Path] = (),
        gather_limit: GatherLimit | None = None,
        hot_bytes: int | None = None,
        kept: KeptResults | None = None,
    ) -> None:
        intact = IntactFiles(threads=threads) if verify_reads else None
        folder = cache_folder or default_cache_folder(storage.url)
        self.kept = KeptResults() if kept is None else kept
        self._spill_folder: Path | None = None
        self._threads = threads
        self._memory_limit_bytes = memory_limit_bytes
        self._timeout_ms = timeout_ms
        self._folders = folders
        self._gather_limit = gather_limit or GatherLimit()
        self.hot = HotSegments(
            self._memory_bytes // DEFAULT_HOT_PART if hot_bytes is None else hot_bytes,
            self._cursor,
            lambda: memory_held(self, may_grow_bytes(self._memory_bytes)),
        )
        cache = FileCache(storage, folder, cache_bytes, intact)
        self._files = ScanFiles(storage, cache, intact, self.hot)
        self._leaves = LeafRunner(self._files, self.kept)
        self._embedded = Embedded(self._leaves)
        self._plans = KnownPlans()
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._running: set[RunningQuery] = set()
        self._functions = OwnFunctions()

    def run_query(
        self,
        sql: str,
        catalog: Catalog,
        *,
        parameters: Parameters = (),
        keeping: Keeping = KEEP,
    ) -> QueryResult:
        """Run one SELECT statement over the revision of `catalog`.

        Raises:
            Invalid: The SQL is not one SELECT statement, does not parse, or names what a query may not reach.
            NotFound: It names a datasource or column that is not in the revision.
            Unavailable: It took too long, needs more memory than there is, or was interrupted.
            Corrupt: A segment file is missing or damaged.
        """

        def run() -> QueryResult:
            with self._planned(sql, catalog, parameters, keeping) as (query, plan):
                table = whole_rows(query.cursor, plan, bytes_max=self._memory_bytes // 2)
            return QueryResult(
                table=table,
                revision=catalog.revision,
                segments_total=plan.segments_total,
                segments_read=plan.segments_read,
            )

        return self.apart(run)

    def export_query(
        self,
        sql: str,
        catalog: Catalog,
        target: BinaryIO,
        *,
        form: str,
        parameters: Parameters = (),
        rows_max: int | None = None,
        find_stop: FindStop = never,
    ) -> ExportResult:
        """Run one SELECT statement and write its rows to a file as they come, `rows_max` at most.

        Args:
            form: `csv`, `jsonl`, `parquet` or `arrow`.
            find_stop: Asked twice a second.

        Raises:
            OSError: The target does not take them. Else as `run_query`; rows written by then stay in the target.
        """
        from carnac.query.export.writing import export

        def run() -> ExportResult:
            with self._planned(sql, catalog, parameters, READ_ALL) as (query, plan):
                at = catalog.revision
                return export(query.cursor, plan, at, target, form=form, rows_max=rows_max)

        return self.apart(run, find_stop)

    def export_final(
        self,
        plan: Distribution,
        answers: Mapping[str, Sequence[object]],
        target: BinaryIO,
        *,
        form: str,
        rows_max: int | None = None,
    ) -> ExportResult:
        """Write what is made of answers, as they come; see `export_query` and `run_final`."""
        from carnac.query.export.writing import export_merged

        bytes_max = self._memory_bytes // 2

        def run() -> ExportResult:
            with self._query(plan.final_sql, set(), 0, is_split=True) as query:
                shown = show_answers(query.cursor, plan, answers, bytes_max=bytes_max)
                return export_merged(
                    query.cursor, plan, shown, target, form=form, rows_max=rows_max
                )

        return self.apart(run)

    def apart(self, work: Callable[[], T], find_stop: FindStop = never) -> T:
        """Do something that runs queries, and wait no longer than for their time limits (`limits.apart`)."""
        return apart(
            work, lambda thread: [one for one in self._now() if one.thread == thread], find_stop
        )

    def _now(self) -> list[RunningQuery]:
        """Return the queries that run."""
        with self._lock:
            return list(self._running)

    def plan_distributed(
        self,
        sql: str,
        catalog: Catalog,
        *,
        parameters: Parameters = (),
        query_id: str = "",
        timeout_ms: int | None = None,
    ) -> Distribution:
        """Return how a statement is run over the revision of `catalog`.

        Args:
            query_id: Of the leaf requests.
            timeout_ms: Of planning, and of each leaf request; None: the engine's own; 0: no limit.

        Raises:
            Invalid: As `QueryEngine.run_query`; it cannot be run over many servers.
            NotFound: As `QueryEngine.run_query`.
        """
        with self._query(sql, columns := set[str](), timeout_ms, is_split=True) as query:
            asked = Asked(query_id, timeout_ms)
            distributor = Distributor(query.cursor, catalog, parameters, asked, self._gather_limit)
            return distributor.distribute(sql, columns)

    def plan_spark(self, sql: str, catalog: Catalog, asked: SparkAsked) -> SparkPlan:
        """Return how a statement is run on Spark over the revision of `catalog`; see `SparkPlanner.plan`."""
        from carnac.query.spark_sql.planning import SparkPlanner

        with self._query(sql, columns := set[str](), asked.timeout_ms) as query:
            return SparkPlanner(query.cursor, catalog, asked).plan(sql, columns)

    def plan_load(self, asked: LoadAsked, catalog: Catalog) -> SparkLoad:
        """Return how Spark makes the rows of a statement that are to be loaded; see `LoadPlanner.plan`."""
        from carnac.query.spark_sql.loading import LoadPlanner

        with self._query(asked.sql, columns := set[str](), None) as query:
            return LoadPlanner(query.cursor, catalog, asked).plan(columns)

    def run_leaf(
        self, request: LeafRequest, files: LeafFiles | None = None
    ) -> tuple[Iterator[pa.RecordBatch], LeafReport]:
        """Run a leaf's part of a statement, as `SegmentServer.run`; `files` None: they are found in deep storage."""
        report = LeafReport()
        return self._leaf(request, files, report), report

    def _leaf(
        self, request: LeafRequest, files: LeafFiles | None, report: LeafReport
    ) -> Iterator[pa.RecordBatch]:
        columns = set(request.columns)
        with self._query(request.sql, columns, request.timeout_ms, is_split=True) as query:
            query.query_id = request.query_id
            leaf = checked_leaf(query.cursor, request)
            for name, table in request.tables.items():
                query.cursor.register(name, table)
            scan = scan_of(request)
            if files is None and request.skips_missing and not request.is_explained:
                scan = without_missing(
                    scan, report, lambda one: self._files.held([one], query.stop)
                )
            task = self._leaves.task(query, request, leaf, scan)
            if request.is_explained:
                report.kept, report.is_whole = self._leaves.count_kept(task), True
                yield no_rows()
                return
            with self._leaves.rows(query, task, files) as rows:
                report.kept = rows.hits
                yield from reported(rows.schema, rows.batches, report, query.require_wanted)
        report.slices = [(piece.segment.segment_id, piece.clip) for piece in scan.slices]
        report.cold = len(files.remote) if files is not None else 0
        report.is_whole = True

    def cancel(self, query_id: str) -> None:
        """Stop what runs for a query, its leaf statements or their merging; it raises Cancelled. Idempotent."""
        for query in self._now():
            if query.query_id == query_id:
                query.is_cancelled.set()
                query.insist()

    def describe(self, distribution: Distribution) -> pa.Schema:
        """Return the schema of the rows of a statement, and run nothing."""
        return gives_of(distribution.gives, distribution.basis.columns)

    def run_final(
        self,
        distribution: Distribution,
        answers: Mapping[str, Sequence[object]],
        *,
        timeout_ms: int | None = None,
        is_whole: bool = False,
    ) -> QueryResult:
        """Merge what the leaves answered; `cancel` stops it by the id that its leaf requests have.

        Args:
            answers: By the views of the requests, `pyarrow.Table`s or `pyarrow.RecordBatchReader`s, one for each server
                that was asked, in any order.
            is_whole: They are one server's tables, in order, by `whole_sql`.

        Raises:
            Invalid: They are more than the distribution's limit.
            Unavailable: It took too long, needs more memory than there is, or was interrupted.
        """
        plan, bytes_max = distribution, self._memory_bytes // 2
        if is_whole:
            return result_of(plan, whole_table(plan, answers, bytes_max))
        with self._query(plan.final_sql, set(), timeout_ms, is_split=True) as query:
            query.query_id = plan.query_id
            return result_of(plan, merged_table(query.cursor, plan, answers, bytes_max))

    def kept_answer(self, distribution: Distribution, keeping: Keeping) -> WholeAnswer | None:
        """Return a distribution's answer as it is kept or may be; None: it is not worth it, or differs each time."""
        return distributed_answer(self.kept, distribution, keeping)

    def open_query(
        self,
        sql: str,
        catalog: Catalog,
        *,
        parameters: Parameters = (),
        timeout_ms: int | None = None,
        keeping: Keeping = KEEP,
    ) -> StreamedQuery:
        """Plan one SELECT statement, and run it when it is started; memory does not grow with its rows.

        Args:
            timeout_ms: After which it is stopped, from now on until it is closed; None: the engine's own; 0: no limit.
            keeping: Whether kept partial results are used, and new ones kept.

        Raises:
            TimedOut: It took longer. Else as `run_query`; the statement that is returned raises the same.
        """
        return StreamedQuery(
            sql,
            self._planning(sql, catalog, parameters, timeout_ms),
            partial(self._embedded.shown, keeping=keeping),
        )

    @contextmanager
    def _planned(
        self, sql: str, catalog: Catalog, parameters: Parameters, keeping: Keeping
    ) -> Iterator[tuple[RunningQuery, Plan]]:
        """Give a query whose views are there, and whose files stay until the block ends."""
        with (
            self._planning(sql, catalog, parameters) as (query, plan),
            self._embedded.shown(query, plan, keeping) as shown,
        ):
            yield query, shown

    @contextmanager
    def _planning(
        self, sql: str, catalog: Catalog, parameters: Parameters, timeout_ms: int | None = None
    ) -> Iterator[tuple[RunningQuery, Plan]]:
        """Give a query and its plan, before any file is looked at."""
        with self._query(sql, columns := set[str](), timeout_ms) as query:
            plan = self._plans.plan(query.cursor, catalog, sql, parameters)
            columns.update(name for scan in plan.scans for name in scan.columns)
            yield query, plan

    def interrupt(self) -> None:
        """Stop the queries that are running; they raise Unavailable."""
        for query in self._now():
            query.interrupt()

    def forget_files(self, segment_ids: Iterable[str]) -> None:
        """Remove what was fetched of segments, but for what a query reads."""
        self._files.cache.forget(segment_ids)

    def close(self) -> None:
        """Stop what is running and let go of all memory. The next query starts anew."""
        self.interrupt()
        self.kept.clear()
        self._plans = KnownPlans()
        self._files.forget()
        self._forget()

    def _forget(self) -> None:
        """Let the next query start anew; memory goes with the last of the queries that are running."""
        with self._lock:
            connection, self._connection = self._connection, None
            self._functions = OwnFunctions()
            spill_folder, self._spill_folder = self._spill_folder, None
        self.hot.forget()
        self._let_go(connection)
        if spill_folder is not None:
            with suppress(OSError):  # a query that still runs has files there
                spill_folder.rmdir()

    @contextmanager
    def _query(
        self, sql: str, columns: set[str], timeout_ms: int | None = None, *, is_split: bool = False
    ) -> Iterator[RunningQuery]:
        """Give a query of its own; DuckDB's errors leave as ours.

        Args:
            columns: Names that a user may have meant by one that is unknown; filled while the query is planned.
            timeout_ms: None: the engine's own; 0: no limit.
        """
        import duckdb

        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms or None
        timed_out: threading.Event | None = None
        self._leave_stuck()
        with self._lock:
            connection = self._connected()
            self._functions.provide(connection, sql, is_split=is_split)
            query = RunningQuery(connection.cursor(), connection, limit_ms)
            self._running.add(query)
        try:
            with (
                memory_held(connection, may_grow_bytes(self._memory_bytes)) as query.release,
                stopped_after(limit_ms, query.interrupt) as timed_out,
            ):
                yield query
        except (duckdb.Error, Interrupted, MemoryError, RecursionError) as error:
            if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                self.close()  # DuckDB refuses everything after such an error
            if timed_out is not None and timed_out.is_set():
                raise TimedOut(
                    f"the query took longer than {limit_ms} ms and was stopped; "
                    "select a shorter time or fewer rows, or raise query_timeout_ms"
                ) from error
            if query.is_cancelled.is_set():
                raise Cancelled("the query was cancelled") from error
            if isinstance(error, Interrupted):
                raise
            told = translate(error, memory_limit_bytes=self._memory_limit_bytes, columns=columns)
            if isinstance(told, TooLarge):
                self._forget()
            raise told from error
        except RuntimeError as error:
            if "interrupted" in str(error):  # DuckDB's word for Ctrl-C
                raise KeyboardInterrupt from error
            raise
        finally:
            query.end()
            with self._lock:
                self._running.discard(query)
            with suppress(duckdb.Error):  # interrupted, it may go on: it ends with its cursor
                query.cursor.close()
            self._let_go(connection)

    def _let_go(self, connection: duckdb.DuckDBPyConnection | None) -> None:
        """Close what is not the engine's any more and no query runs on: their cursors would be closed with it."""
        users = [self._connection, *(one.connection for one in self._now())]
        if connection is not None and connection not in users:
            connection.close()

    def _leave_stuck(self) -> None:
        """Let what does not end have its connection for itself: its threads are taken.

        Raises:
            Unavailable: Too much does not end.
        """
        stuck = [one for one in self._now() if one.is_stuck]
        if len(stuck) >= STUCK_MAX:
            raise Unavailable(
                f"{len(stuck)} queries that were stopped go on in this process, each in a function over one huge "
                "value; wait until one has ended, or start the process anew"
            )
        if any(one.connection is self._connection for one in stuck):
            self._forget()

    @property
    def _memory_bytes(self) -> int:
        return self._memory_limit_bytes or default_memory_bytes()

    def _connected(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            import duckdb

            self._spill_folder = spill_folder()
            silence_copies()
            self._connection = duckdb.connect(config={"python_enable_replacements": False})
            example = self._files.storage.local_path("x")  # any file
            folder = self._files.cache.folder if example is None else example.parent
            self._connection.execute(
                settings_of(
                    [folder, *self._folders],
                    self._spill_folder,
                    threads=self._threads,
                    memory_limit_bytes=self._memory_limit_bytes,
                )
            )
        return self._connection

    def _cursor(self) -> duckdb.DuckDBPyConnection | None:
        """Return a cursor of the connection that there is."""
        with self._lock:
            return None if self._connection is None else self._connection.cursor()
