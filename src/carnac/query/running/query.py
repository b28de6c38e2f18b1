"""A running query: how DuckDB is set for it, the files of its scans, and how it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from carnac.core.quoting import escape_glob, quote_text
from carnac.ports.memo import Memo
from carnac.ports.queries import SLICE_BYTES
from carnac.ports.threads import GRACE_MS, INTERRUPT_S
from carnac.query.cache import FileCache
from carnac.query.distributed.leaves import register_remote
from carnac.query.hot import HotSegments
from carnac.query.intact import IntactFiles, Interrupted, Located
from carnac.query.newest import TimeEdge, narrowed
from carnac.query.planning import Scan
from carnac.query.scans import scan_sql, with_views
from carnac.query.syntax import parsed

if TYPE_CHECKING:
    import duckdb

    from carnac.core.answers.receipts import SliceKey
    from carnac.core.segments.segment import Segment
    from carnac.ports import DeepStorage
    from carnac.ports.queries import LeafFiles, LeafSlice


Select = Callable[["Sequence[LeafSlice]", bool], str]
"""Gives the SELECT of the visible rows of slices, with their hours or not."""


NARROWED_MAX = 500
"""Statements whose newest (or oldest) files are known."""
NARROWED_BYTES = 20 << 20
"""Maximum memory of these together."""

_Edge: TypeAlias = tuple[TimeEdge, tuple[tuple[str, str], ...], tuple["SliceKey", ...]]
"""The rows that a statement needs, the types of columns that it names, and the slices that it reads."""


def _narrowings() -> Memo[_Edge, Sequence[LeafSlice]]:
    return Memo(
        values_max=NARROWED_MAX,
        weight_max=NARROWED_BYTES,
        weigh=lambda key, kept: SLICE_BYTES * (len(key[2]) + len(kept)) + len(key[0].sql),
    )


@dataclass(frozen=True, slots=True)
class ScanFiles:
    """Finds the files of scans.

    Attributes:
        storage: Where segment files are.
        cache: Keeps those of an object store.
        intact: Checks them before they are read first; None: they are believed.
        hot: Segments that are read in memory instead.
    """

    storage: DeepStorage
    cache: FileCache
    intact: IntactFiles | None
    hot: HotSegments
    _narrowed: Memo[_Edge, Sequence[LeafSlice]] = field(default_factory=_narrowings)

    def held(
        self, scans: Sequence[Scan], stop: threading.Event
    ) -> AbstractContextManager[Mapping[str, Path]]:
        """Give the files of all segments, by their ids, and keep them until the block ends."""
        local: dict[str, Path] = {}
        remote: list[Segment] = []
        unchecked: list[Located] = []
        for scan in scans:
            for piece in scan.slices:
                segment = piece.segment
                place = self.storage.local_path(segment.path)
                if place is None:
                    remote.append(segment)
                elif segment.segment_id not in local:
                    local[segment.segment_id] = place
                    unchecked.append((segment, place))
        if self.intact is not None:
            self.intact.check(unchecked, stop)
        return self.cache.held(remote, stop) if remote else nullcontext(local)

    @contextmanager
    def finding(self, scan: Scan, query: RunningQuery, files: LeafFiles | None) -> Iterator[Select]:
        """Give what selects the rows of some of a scan's slices until the block ends.

        Args:
            files: Where they are; None: in deep storage.
        """
        if files is not None:
            names = register_remote(query.cursor, scan.slices, files.remote)
            places = files.places
            with self.hot.held(scan.slices, places) as hot:
                yield lambda slices, with_hours: scan_sql(
                    scan.used, slices, places, names, hot, with_hours=with_hours
                )
            return
        with self.held([scan], query.stop) as paths, self.hot.held(scan.slices, paths) as hot:
            yield lambda slices, with_hours: scan_sql(
                scan.used, slices, paths, None, hot, with_hours=with_hours
            )

    def narrowed(
        self, scan: Scan, edge: TimeEdge | None, query: RunningQuery, files: LeafFiles | None
    ) -> Scan:
        """Return the scan without the files that hold none of the rows that are wanted (see `newest`).

        The narrowed slices are kept: neither segments nor conditions change, and the search costs as much as the
        statement.
        """
        if edge is None:
            return scan
        slices = tuple((one.segment.segment_id, one.clip) for one in scan.slices)
        key = (edge, tuple(scan.used.items()), slices)
        kept = self._narrowed.get(key, lambda: self._find_narrowed(scan, edge, query, files))
        return replace(scan, slices=kept)

    def forget(self) -> None:
        """Let go of what was found out about statements."""
        self._narrowed.clear()

    def _find_narrowed(
        self, scan: Scan, edge: TimeEdge, query: RunningQuery, files: LeafFiles | None
    ) -> Sequence[LeafSlice]:

        def times_of(slices: Sequence[LeafSlice]) -> list[int]:
            sql = f"{edge.sql} LIMIT {edge.rows}"
            with self.finding(replace(scan, slices=slices), query, files) as select:
                shown = with_views(sql, {scan.view: select(slices, False)})
                return [
                    time for (time,) in query.cursor.execute(parsed(query.cursor, shown)).fetchall()
                ]

        is_together = self.hot.has_all(scan.slices)
        return narrowed(edge, scan.slices, times_of, is_together=is_together)


def settings_of(
    folders: Sequence[Path],
    spill_folder: Path | None,
    *,
    threads: int | None,
    memory_limit_bytes: int | None,
) -> str:
    """Return the statements that set a new connection.

    Args:
        folders: Folders that it may read.
        spill_folder: None: nothing is spilt.
        threads, memory_limit_bytes: None: as DuckDB has them.
    """
    ways = [f"{one}/" for one in folders]
    allowed = dict.fromkeys([*ways, *map(escape_glob, ways)])
    told = [
        f"SET GLOBAL allowed_directories = [{', '.join(map(quote_text, allowed))}]",
        f"SET GLOBAL temp_directory = {quote_text(str(spill_folder or ''))}",
        "SET GLOBAL TimeZone = 'UTC'",
        "SET GLOBAL parquet_metadata_cache = true",
        # of hot segments: it saves a sixth of random doubles, and doubles the time to read them
        "SET GLOBAL disabled_compression_methods = 'alprd'",
    ]
    if threads is not None:
        told.append(f"SET GLOBAL threads = {threads}")
    if memory_limit_bytes is not None:
        told.append(f"SET GLOBAL memory_limit = '{memory_limit_bytes}B'")
    extensions = ("autoinstall_known", "autoload_known", "allow_community")
    told += [f"SET GLOBAL {which}_extensions = false" for which in extensions]
    told += ["SET GLOBAL enable_external_access = false", "SET GLOBAL lock_configuration = true"]
    return "; ".join(told)


_TOLD_MAX = int(GRACE_MS / 1000 / INTERRUPT_S)


@dataclass(slots=True, eq=False)
class RunningQuery:
    """A query that runs, from its preparation to the end of DuckDB's work for it.

    Attributes:
        connection: Connection that its cursor belongs to.
        limit_ms: After which it is stopped; None: never.
        query_id: Of the statement that it answers, or a part of it; None: it cannot be cancelled by one.
        thread: The thread that has begun it.
        told: How often it was interrupted, `INTERRUPT_S` apart.
        is_cancelled: Nobody waits for its answer.
        release: Ends the limit of memory that holds for it.
    """

    cursor: duckdb.DuckDBPyConnection
    connection: duckdb.DuckDBPyConnection
    limit_ms: int | None
    query_id: str | None = None
    thread: int = field(default_factory=threading.get_ident)
    told: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    is_cancelled: threading.Event = field(default_factory=threading.Event)
    release: Callable[[], None] = field(default=lambda: None)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _is_over: threading.Event = field(default_factory=threading.Event)

    def interrupt(self) -> None:
        """Stop it, whatever it does now."""
        self.stop.set()
        self.told += 1
        import duckdb

        with suppress(duckdb.ConnectionException):  # it has just ended
            self.cursor.interrupt()
        if self.is_stuck:
            self.release()

    @property
    def is_stuck(self) -> bool:
        """Whether it does not heed that it is stopped: one function computes over one huge value."""
        return self.told > _TOLD_MAX

    def insist(self) -> None:
        """Stop it, again and again until it is over: DuckDB forgets an interrupt between two statements.

        Returns at once. A query that is over is left alone.
        """
        if self._interrupt_unless_over():
            threading.Thread(target=self._go_on, name="carnac-query-cancel", daemon=True).start()

    def _go_on(self) -> None:
        while not self._is_over.wait(INTERRUPT_S):
            self._interrupt_unless_over()

    def _interrupt_unless_over(self) -> bool:
        with self._turn:
            if self._is_over.is_set():
                return False
            self.interrupt()
            return True

    def end(self) -> None:
        """Note that it is over: it may be closed when this returns. Idempotent."""
        with self._turn:
            self._is_over.set()

    def require_wanted(self) -> None:
        """Raise Interrupted once it is to stop, or is over."""
        if self.stop.is_set() or self._is_over.is_set():
            raise Interrupted("the query was interrupted")
