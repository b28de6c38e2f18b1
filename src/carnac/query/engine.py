"""The query engine: SQL over the segment files of one revision, on DuckDB.

What happens to a query: DuckDB's parser makes a tree of it; the gate (`checking`) lets it pass; its tables and the
conditions on them are found (`relations`, `conditions`); of each table the segments that may match are taken
(`core.pruning`) and become a view on their files (`scans`); the tree, its tables replaced by these views, is printed
and run. So the text that runs names nothing but views on segment files.

Behind the gate stands a second wall: DuckDB itself may open files in deep storage's and the cache's folders only, can
load nothing, and its configuration is locked.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from carnac.core.segments.segment import Segment
from carnac.errors import TimedOut, Unavailable
from carnac.ports import (
    Catalog,
    DeepStorage,
    Distribution,
    ExportResult,
    FileSlice,
    LeafAnswer,
    LeafRequest,
    QueryResult,
    RowLimit,
    TimeEdge,
)
from carnac.ports.temporary import own_folder
from carnac.query.cache import FileCache
from carnac.query.distributed.distributing import DEFAULT_LIMIT, Distributor
from carnac.query.distributed.leaves import check_leaf, ids_of, limited
from carnac.query.distributed.merging import renamed, show_answers
from carnac.query.intact import IntactFiles, Interrupted, Located
from carnac.query.limits import heeding_signals, may_grow_bytes, memory_held, stopped_after
from carnac.query.messages import TooLarge, translate
from carnac.query.newest import narrowed
from carnac.query.planning import Plan, Planner, Scan
from carnac.query.results import arrow_table, batches_of, plan_table, read_rows, tidy
from carnac.query.scans import escape_glob, literal, scan_sql
from carnac.query.sketching import names_sketches, register_sketches
from carnac.query.streams.streaming import StreamedQuery

if TYPE_CHECKING:
    import duckdb

DEFAULT_CACHE_BYTES = 10 * 1024**3
DEFAULT_MEMORY_SHARE = 0.8
"""Of the machine, DuckDB's own default."""
_ANY_FILE = "x"


@dataclass(frozen=True, slots=True, eq=False)
class _Query:
    """A query that runs: what DuckDB does for it, and what is done for it before."""

    cursor: duckdb.DuckDBPyConnection
    stop: threading.Event = field(default_factory=threading.Event)

    def interrupt(self) -> None:
        """Stop it, whatever it does now."""
        self.stop.set()
        self.cursor.interrupt()


class DuckDbQueryEngine:
    """Runs SELECT statements (port `QueryEngine`). Safe for threads: each query has a cursor of its own.

    Args:
        storage: Where segment files are.
        cache_folder: Where files of an object store are kept; default: one for each deep storage below the
            user's own cache folder (`XDG_CACHE_HOME`, else `~/.cache`).
        cache_bytes: How much that folder may hold, besides the files of running queries.
        threads: None: one for each core.
        memory_limit_bytes: What DuckDB may use before it spills to disk or gives up; None: 80 % of the machine's. A
            result may take half of it. While queries run the process cannot grow by much more (`limits`).
        timeout_ms: A query that takes longer is stopped; None: no limit.
        verify_reads: Whether this process checks the bytes of each file against its record before it reads it first.
        gather_limit: Of the rows that one distributed statement may bring here from all servers together.
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
        gather_limit: RowLimit = DEFAULT_LIMIT,
    ) -> None:
        self._storage = storage
        self._intact = IntactFiles(threads=threads) if verify_reads else None
        self._cache = FileCache(
            storage, cache_folder or _default_cache_folder(storage.url), cache_bytes, self._intact
        )
        self._spill_folder: Path | None = None
        self._threads = threads
        self._memory_limit_bytes = memory_limit_bytes
        self._timeout_ms = timeout_ms
        self._gather_limit = gather_limit
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._running: set[_Query] = set()
        self._has_sketches = False

    def run_query(
        self, sql: str, catalog: Catalog, *, parameters: Sequence[object] = ()
    ) -> QueryResult:
        """Run one SELECT statement over the revision of `catalog`.

        Raises:
            Invalid: The SQL is not one SELECT statement, does not parse, or names what a query may not reach.
            NotFound: It names a datasource or column that is not in the revision.
            Unavailable: It took too long, needs more memory than there is, or was interrupted.
            Corrupt: A segment file is missing or damaged.
        """
        with self._planned(sql, catalog, parameters) as (query, plan):
            bytes_max = self._memory_bytes // 2
            table = heeding_signals(
                lambda: _run(query.cursor, plan, parameters, bytes_max), query.interrupt
            )
        return QueryResult(
            table=table,
            revision=catalog.revision,
            segments_total=plan.segments_total,
            segments_read=plan.segments_read,
        )

    def export_query(
        self,
        sql: str,
        catalog: Catalog,
        target: BinaryIO,
        *,
        form: str,
        parameters: Sequence[object] = (),
        rows_max: int | None = None,
    ) -> ExportResult:
        """Run one SELECT statement and write its rows to a file as they come.

        Raises:
            OSError: The target does not take them. Else as `run_query`; what was written by then stays in the target.
        """
        from carnac.query.export.writing import export

        with self._planned(sql, catalog, parameters) as (query, plan):
            rows, is_cut = heeding_signals(
                lambda: export(
                    query.cursor, plan, parameters, target, form=form, rows_max=rows_max
                ),
                query.interrupt,
            )
        return ExportResult(
            rows=rows,
            is_cut=is_cut,
            revision=catalog.revision,
            segments_total=plan.segments_total,
            segments_read=plan.segments_read,
        )

    def plan_distributed(
        self, sql: str, catalog: Catalog, *, parameters: Sequence[object] = ()
    ) -> Distribution:
        """Return how a SELECT statement is run over many servers, at the revision of `catalog`.

        Raises:
            Invalid, NotFound: As `run_query`; the statement cannot be run over many servers.
        """
        columns: set[str] = set()
        with self._query(sql, columns) as query:
            distributor = Distributor(query.cursor, catalog, parameters, self._gather_limit)
            return distributor.distribute(sql, columns)

    @contextmanager
    def run_leaf(self, request: LeafRequest) -> Iterator[LeafAnswer]:
        """Run the statement of a request over its slices; its files stay until the block ends.

        Raises:
            Invalid: The statement reaches for something else; it gives more rows than the request's limit.
            Unavailable, Corrupt: As `run_query`.
        """
        with self._query(request.sql, set(request.columns)) as query:
            check_leaf(query.cursor, request)
            scan = Scan(view=request.view, columns=request.columns, slices=request.slices)
            for name, table in request.tables.items():
                query.cursor.register(name, arrow_table(table))
            read = self._narrowed(scan, request.edge, query)
            with self._files([read], query.stop) as paths:
                _show(query.cursor, read, paths)
                rows = query.cursor.sql(request.sql, params=list(request.parameters))
                schema, batches = batches_of(rows)
                with closing(batches):
                    yield LeafAnswer(
                        schema=schema,
                        batches=limited(batches, request.limit),
                        segment_ids=ids_of(request.slices),
                        read_ids=ids_of(read.slices),
                        stop=query.interrupt,
                    )

    def run_final(
        self, distribution: Distribution, answers: Mapping[str, Sequence[object]]
    ) -> QueryResult:
        """Merge what leaves answered.

        Args:
            answers: By the names of the requests, Arrow tables or record batch readers of each leaf, in any order.

        Raises:
            Invalid: They are more than the distribution's limit.
            Unavailable: As `run_query`.
        """
        plan = distribution
        if plan.told:
            table = plan_table([(line,) for line in plan.told])
        else:
            half = self._memory_bytes // 2
            with self._query(plan.final_sql, set()) as query:
                show_answers(query.cursor, plan, answers, bytes_max=half)
                rows = query.cursor.sql(plan.final_sql, params=list(plan.parameters))
                table = renamed(tidy(read_rows(rows, bytes_max=half)), plan.names)
        return QueryResult(
            table=table,
            revision=plan.revision,
            segments_total=plan.segments_total,
            segments_read=len(plan.segment_ids),
        )

    def open_query(
        self,
        sql: str,
        catalog: Catalog,
        *,
        parameters: Sequence[object] = (),
        timeout_ms: int | None = None,
    ) -> StreamedQuery:
        """Plan one SELECT statement, and run it when it is started; its rows are handed over as they come.

        Args:
            timeout_ms: After which it is stopped, from now on until it is closed; None: the engine's own; 0: no limit.

        Raises:
            As `run_query`, also what is returned.
        """
        return StreamedQuery(
            sql, parameters, self._planning(sql, catalog, parameters, timeout_ms), self._shown
        )

    @contextmanager
    def _planned(
        self, sql: str, catalog: Catalog, parameters: Sequence[object]
    ) -> Iterator[tuple[_Query, Plan]]:
        """Give a query whose views are there, and whose files stay until the block ends."""
        with (
            self._planning(sql, catalog, parameters) as (query, plan),
            self._shown(query, plan) as shown,
        ):
            yield query, shown

    @contextmanager
    def _planning(
        self,
        sql: str,
        catalog: Catalog,
        parameters: Sequence[object],
        timeout_ms: int | None = None,
    ) -> Iterator[tuple[_Query, Plan]]:
        """Give a query and its plan, before any file is looked at."""
        columns: set[str] = set()
        with self._query(sql, columns, timeout_ms) as query:
            plan = Planner(query.cursor, catalog, parameters).plan(sql)
            columns.update(name for scan in plan.scans for name in scan.columns)
            yield query, plan

    @contextmanager
    def _shown(self, query: _Query, plan: Plan) -> Iterator[Plan]:
        """Give the plan as it can be run: its views are there, and its files stay until the block ends."""
        scans = [self._narrowed(scan, plan.edge, query) for scan in plan.scans]
        plan = replace(plan, scans=scans)
        with self._files(plan.scans, query.stop) as paths:
            for name, table in plan.tables.items():
                query.cursor.register(name, arrow_table(table))
            for scan in plan.scans:
                _show(query.cursor, scan, paths)
            yield plan

    def _narrowed(self, scan: Scan, edge: TimeEdge | None, query: _Query) -> Scan:
        """Return the scan without the files that hold none of the rows that are wanted (see `newest`)."""
        if edge is None:
            return scan

        def times_of(slices: Sequence[FileSlice]) -> list[int]:
            some = replace(scan, slices=slices)
            order = "DESC" if edge.is_newest else "ASC"
            sql = f"SELECT * FROM ({edge.sql}) ORDER BY 1 {order} LIMIT {edge.rows}"
            with self._files([some], query.stop) as paths:
                _show(query.cursor, some, paths)
                return [time for (time,) in query.cursor.execute(sql).fetchall()]

        return replace(scan, slices=narrowed(edge, scan.slices, times_of))

    def interrupt(self) -> None:
        """Stop the queries that are running; they raise Unavailable."""
        with self._lock:
            for query in self._running:
                query.interrupt()

    def close(self) -> None:
        """Stop what is running and let go of all memory. The next query starts anew."""
        self.interrupt()
        self._forget()

    def _forget(self) -> None:
        """Let the next query start anew; memory goes with the last of the queries that are running."""
        with self._lock:
            connection, self._connection = self._connection, None
            self._has_sketches = False
            spill_folder, self._spill_folder = self._spill_folder, None
        if connection is not None:
            connection.close()
        if spill_folder is not None:
            with suppress(OSError):  # a query that still runs has files there
                spill_folder.rmdir()

    @contextmanager
    def _query(
        self, sql: str, columns: set[str], timeout_ms: int | None = None
    ) -> Iterator[_Query]:
        """Give a query of its own; DuckDB's errors leave as ours.

        Args:
            columns: Names that a user may have meant by one that is unknown; filled while the query is planned.
            timeout_ms: None: the engine's own; 0: no limit.
        """
        import duckdb

        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms or None
        timed_out: threading.Event | None = None
        with self._lock:
            connection = self._connected()
            if not self._has_sketches and names_sketches(sql):
                register_sketches(connection)  # now: the query's transaction would not see it later
                self._has_sketches = True
            query = _Query(connection.cursor())
            self._running.add(query)
        try:
            with (
                memory_held(self, may_grow_bytes(self._memory_bytes)),
                stopped_after(limit_ms, query.interrupt) as timed_out,
            ):
                yield query
        except (duckdb.Error, Interrupted, MemoryError) as error:
            if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                self.close()  # DuckDB refuses everything after such an error
            if timed_out is not None and timed_out.is_set():
                raise TimedOut(
                    f"the query took longer than {limit_ms} ms and was stopped; "
                    "select a shorter time or fewer rows, or raise query_timeout_ms"
                ) from error
            if isinstance(error, Interrupted):
                raise
            told = translate(error, memory_limit=self._memory_limit, columns=columns)
            if isinstance(told, TooLarge):
                self._forget()
            raise told from error
        except RuntimeError as error:
            if "interrupted" in str(error):  # DuckDB's word for Ctrl-C
                raise KeyboardInterrupt from error
            raise
        finally:
            with self._lock:
                self._running.discard(query)
            query.cursor.close()

    def _files(
        self, scans: Sequence[Scan], stop: threading.Event
    ) -> AbstractContextManager[Mapping[str, Path]]:
        local: dict[str, Path] = {}
        remote: list[Segment] = []
        unchecked: list[Located] = []
        for scan in scans:
            for piece in scan.slices:
                segment = piece.segment
                place = self._storage.local_path(segment.path)
                if place is None:
                    remote.append(segment)
                elif segment.segment_id not in local:
                    local[segment.segment_id] = place
                    unchecked.append((segment, place))
        if self._intact is not None:
            self._intact.check(unchecked, stop)
        return self._cache.held(remote, stop) if remote else nullcontext(local)

    @property
    def _memory_bytes(self) -> int:
        if self._memory_limit_bytes is not None:
            return self._memory_limit_bytes
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return int(machine * DEFAULT_MEMORY_SHARE)

    @property
    def _memory_limit(self) -> str:
        if self._memory_limit_bytes is None:
            return "80 % of the machine's memory"
        return f"{self._memory_limit_bytes:,} bytes"

    def _connected(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            import duckdb

            self._spill_folder = _spill_folder()
            self._connection = duckdb.connect(config={"python_enable_replacements": False})
            self._connection.execute(";".join(self._settings()))
        return self._connection

    def _settings(self) -> Iterator[str]:
        example = self._storage.local_path(_ANY_FILE)
        folder = self._cache.folder if example is None else example.parent
        allowed = dict.fromkeys((f"{folder}/", escape_glob(f"{folder}/")))
        yield f"SET GLOBAL allowed_directories = [{', '.join(map(literal, allowed))}]"
        yield f"SET GLOBAL temp_directory = {literal(str(self._spill_folder or ''))}"
        yield "SET GLOBAL TimeZone = 'UTC'"
        yield "SET GLOBAL parquet_metadata_cache = true"
        if self._threads is not None:
            yield f"SET GLOBAL threads = {self._threads}"
        if self._memory_limit_bytes is not None:
            yield f"SET GLOBAL memory_limit = '{self._memory_limit_bytes}B'"
        yield "SET GLOBAL autoinstall_known_extensions = false"
        yield "SET GLOBAL autoload_known_extensions = false"
        yield "SET GLOBAL allow_community_extensions = false"
        yield "SET GLOBAL enable_external_access = false"
        yield "SET GLOBAL lock_configuration = true"


def _spill_folder() -> Path | None:
    """Return a new folder for what does not fit into memory; None: there is no room for one, and nothing is spilt."""
    with suppress(Unavailable, OSError):
        return Path(tempfile.mkdtemp(dir=own_folder("spill")))
    return None


def _default_cache_folder(url: str) -> Path:
    """Return a folder that no other user can write to, and that no other deep storage shares."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "carnac" / "segments" / hashlib.sha256(url.encode()).hexdigest()[:16]


def _show(cursor: duckdb.DuckDBPyConnection, scan: Scan, paths: Mapping[str, Path]) -> None:
    """Let the view of a scan show the rows of its files."""
    select = scan_sql(scan.columns, scan.slices, paths)
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {scan.view} AS {select}")


def _run(
    cursor: duckdb.DuckDBPyConnection,
    plan: Plan,
    parameters: Sequence[object],
    bytes_max: int,
) -> object:
    if plan.is_explain:
        return plan_table(cursor.execute(plan.sql, list(parameters)).fetchall())
    return tidy(read_rows(cursor.sql(plan.sql, params=list(parameters)), bytes_max=bytes_max))
