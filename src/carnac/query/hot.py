"""Hot segments: those that are read again and again, kept in memory in DuckDB's own format.

A scan of a Parquet file opens, decompresses and decodes it each time. DuckDB's own tables, compressed in memory too,
are read in a fraction of that time, most of all where a statement reads little of a file. So the segments that a third
statement reads are loaded in the background, all of one query into one table of a database of its own. The other
segments are read from files. Hot rows are never wrong, because segments are immutable and each statement applies their
clips. They are read only once the files were found to be there and intact.

Segments that were used longest ago go first, but not while they are still used. Segments that do not fit then stay in
files, so statements over more segments than there is room for do not load in circles.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from carnac.core.quoting import quote, quote_path
from carnac.core.segments.segment import Segment
from carnac.ports.queries import LeafSlice
from carnac.ports.threads import INTERRUPT_S
from carnac.query.scans import (
    HOUR_COLUMN,
    HOUR_SQL,
    NUMBER_COLUMN,
    KeptRows,
    signature_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

READS = 3
"""A segment is loaded when so many statements have read it."""
ROWS_MIN = 10_000
"""Smaller segments stay in files: there is little to save."""
SLICES_MAX = 4_096
"""Statements over more segments neither count as reads nor use what is kept: planning would cost more than is saved."""
BATCHES_MAX = 8
"""Tables at most; the smallest is loaded anew together with what comes beyond them."""
STILL_USED = 64
"""A segment used by one of the last so many statements is not evicted for others."""
GROWTH = 2
"""A segment takes at most so many times its file in memory, it is believed before it is loaded."""
COUNTED_MAX = 1 << 16
"""Segments whose reads are counted; beyond, counting starts anew."""


@dataclass(slots=True, eq=False)
class _Batch:
    """Segments of one schema in one table.

    Attributes:
        kept: Where the rows of each segment are, by segment id.
        size_bytes: In memory.
        used: Number of the last statement that used it.
    """

    name: str
    files: Mapping[str, tuple[Segment, Path]]
    kept: Mapping[str, KeptRows]
    size_bytes: int = 0
    used: int = 0
    holders: int = 0
    is_over: bool = False


@dataclass(slots=True)
class _State:
    """The state of one connection; a new one is empty."""

    batches: list[_Batch] = field(default_factory=list)
    reads: Counter[str] = field(default_factory=Counter)
    statements: int = 0
    loader: threading.Thread | None = None
    loading: duckdb.DuckDBPyConnection | None = None
    is_over: bool = False


class HotSegments:
    """Keeps hot segments of one engine. Safe for threads.

    Args:
        bytes_max: Of memory, for all that is kept; 0: nothing is.
        connect: Gives a cursor of the connection that statements run on; None: there is none now.
        limited: Entered while segments are loaded, as it is for statements.
    """

    def __init__(
        self,
        bytes_max: int,
        connect: Callable[[], duckdb.DuckDBPyConnection | None],
        limited: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._bytes_max = bytes_max
        self._connect = connect
        self._limited = limited
        self._lock = threading.Lock()
        self._states = [_State()]
        self._made = 0
        weakref.finalize(self, _end_all, self._states)  # a thread in DuckDB must not outlive Python

    @property
    def _state(self) -> _State:
        return self._states[0]

    @contextmanager
    def held(
        self, slices: Sequence[LeafSlice], paths: Mapping[str, Path]
    ) -> Iterator[Mapping[str, KeptRows]]:
        """Give what is kept of the segments, by id, which stays until the block ends; count that they are read.

        Args:
            paths: Of the files that may be loaded: checked, and immutable.
        """
        if not self._bytes_max or not slices or len(slices) > SLICES_MAX:
            yield {}
            return
        state = self._state
        with self._lock:
            used, kept = self._use(state, slices)
            self._count(state, slices, kept, paths)
        try:
            yield kept
        finally:
            with self._lock:
                for batch in used:
                    batch.holders -= 1
                    self._detach_if_over(batch)

    def has_all(self, slices: Sequence[LeafSlice]) -> bool:
        """Whether one table has all of them."""
        with self._lock:
            return any(
                all(piece.segment.segment_id in batch.kept for piece in slices)
                for batch in self._state.batches
            )

    def wait(self) -> None:
        """Wait until the batch that is being loaded is there."""
        loader = self._state.loader
        if loader is not None:
            loader.join()

    def forget(self) -> None:
        """Let go of everything; the connection goes with it."""
        with self._lock:
            state, self._states[0] = self._state, _State()
            state.is_over = True
        _end_all([state])

    def _use(
        self, state: _State, slices: Sequence[LeafSlice]
    ) -> tuple[list[_Batch], dict[str, KeptRows]]:
        state.statements += 1
        used: list[_Batch] = []
        kept: dict[str, KeptRows] = {}
        for batch in state.batches:
            before = len(kept)
            for piece in slices:
                rows = batch.kept.get(piece.segment.segment_id)
                if rows is not None:
                    kept[piece.segment.segment_id] = rows
            if len(kept) > before:
                used.append(batch)
                batch.used = state.statements
                batch.holders += 1
        return used, kept

    def _count(
        self,
        state: _State,
        slices: Sequence[LeafSlice],
        kept: Mapping[str, KeptRows],
        paths: Mapping[str, Path],
    ) -> None:
        """Count the reads of what is not kept, and have loaded what was read often enough."""
        cold = [
            piece.segment
            for piece in slices
            if piece.segment.segment_id not in kept
            and piece.segment.segment_id in paths
            and piece.segment.rows >= ROWS_MIN
        ]
        if not cold:
            return
        if len(state.reads) > COUNTED_MAX:
            state.reads.clear()
        state.reads.update({one.segment_id: 1 for one in cold})
        wanted = [one for one in cold if state.reads[one.segment_id] >= READS]
        if not wanted or state.loader is not None or state.is_over:
            return
        first = signature_of(wanted[0])
        files = {
            one.segment_id: (one, paths[one.segment_id])
            for one in wanted
            if signature_of(one) == first
        }
        state.loader = threading.Thread(
            target=self._load, args=(state, files), name="carnac-hot", daemon=True
        )
        state.loader.start()

    def _load(self, state: _State, files: dict[str, tuple[Segment, Path]]) -> None:
        import duckdb

        try:
            cursor = self._connect()
            with self._lock:
                batch, merged = self._planned(state, files)
                state.loading = cursor
            if cursor is not None and batch is not None:
                with closing(cursor), self._limited():
                    self._fill(cursor, batch, state)
                self._take(state, batch, merged)
        except (duckdb.Error, MemoryError, OSError):
            pass  # they stay in files; the statements that read them say what is wrong with them
        finally:
            with self._lock:
                for segment_id in files:
                    del state.reads[segment_id]
                state.loader = state.loading = None

    def _take(self, state: _State, batch: _Batch, merged: Sequence[_Batch]) -> None:
        with self._lock:
            state.batches.append(batch)
            batch.used = state.statements
            gone = state.batches if state.is_over else [*merged, *self._over(state)]
            for one in list(gone):
                if one in state.batches:
                    state.batches.remove(one)
                    one.is_over = True
                    self._detach_if_over(one)

    def _planned(
        self, state: _State, files: dict[str, tuple[Segment, Path]]
    ) -> tuple[_Batch | None, list[_Batch]]:
        """Return the batch to load, and the batches that it replaces; None: there is no room."""
        free = self._bytes_max - sum(
            one.size_bytes for one in state.batches if state.statements - one.used < STILL_USED
        )
        chosen: dict[str, tuple[Segment, Path]] = {}
        newest = sorted(files.values(), key=lambda one: one[0].max_time_ms, reverse=True)
        for segment, path in newest:
            free -= GROWTH * segment.size_bytes
            if free < 0:
                break
            chosen[segment.segment_id] = (segment, path)
        if not chosen:
            return None, []
        merged: list[_Batch] = []
        if len(state.batches) >= BATCHES_MAX:
            like = signature_of(next(iter(chosen.values()))[0])
            smallest = min(state.batches, key=lambda one: one.size_bytes)
            merged = [smallest]
            chosen |= {
                segment_id: (segment, path)
                for segment_id, (segment, path) in smallest.files.items()
                if signature_of(segment) == like and path.exists()
            }
        self._made += 1
        ordered = sorted(chosen.values(), key=lambda one: one[0].min_time_ms)
        name, of = f"__carnac_hot_{self._made}", len(ordered)
        kept = {
            segment.segment_id: KeptRows(table=f"{quote(name)}.rows", number=number, of=of)
            for number, (segment, _) in enumerate(ordered)
        }
        by_id = {segment.segment_id: (segment, path) for segment, path in ordered}
        return _Batch(name, by_id, kept), merged

    def _fill(self, cursor: duckdb.DuckDBPyConnection, batch: _Batch, state: _State) -> None:
        import duckdb

        cursor.execute(f"ATTACH ':memory:' AS {quote(batch.name)} (COMPRESS)")
        before = _memory_bytes(cursor)
        try:
            sources = [
                f"SELECT *, {rows.number}::USMALLINT AS {quote(NUMBER_COLUMN)}, "
                f"{HOUR_SQL} AS {quote(HOUR_COLUMN)} FROM read_parquet("
                f"{quote_path(batch.files[segment_id][1])}, hive_partitioning = false)"
                for segment_id, rows in batch.kept.items()
            ]
            table = f"{quote(batch.name)}.rows"
            cursor.execute(f"CREATE TABLE {table} AS {sources[0]}")
            for source in sources[1:]:
                if state.is_over:
                    raise duckdb.InterruptException("the engine was closed")
                cursor.execute(f"INSERT INTO {table} {source}")
            cursor.execute(f"CHECKPOINT {quote(batch.name)}")
            batch.size_bytes = max(0, _memory_bytes(cursor) - before)
        except BaseException:
            cursor.execute(f"DETACH {quote(batch.name)}")
            raise

    def _over(self, state: _State) -> list[_Batch]:
        """Return the batches that must go so that the others fit: those that were used longest ago."""
        excess = sum(one.size_bytes for one in state.batches) - self._bytes_max
        gone = []
        for batch in sorted(state.batches, key=lambda one: one.used):
            if excess <= 0:
                break
            gone.append(batch)
            excess -= batch.size_bytes
        return gone

    def _detach_if_over(self, batch: _Batch) -> None:
        import duckdb

        if batch.is_over and not batch.holders:
            cursor = self._connect()
            if cursor is not None:
                with suppress(duckdb.Error), closing(cursor):
                    cursor.execute(f"DETACH {quote(batch.name)}")


def _end_all(states: Sequence[_State]) -> None:
    """End the loading of segments, and wait for it."""
    for state in states:
        state.is_over = True
        loader = state.loader
        while loader is not None and loader is not threading.current_thread() and loader.is_alive():
            loading = state.loading
            if loading is not None:
                import duckdb  # not where nothing was loaded: there may be no memory for it at the end

                with suppress(duckdb.Error):
                    loading.interrupt()
            loader.join(INTERRUPT_S)


def _memory_bytes(cursor: duckdb.DuckDBPyConnection) -> int:
    found = cursor.execute(
        "SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'IN_MEMORY_TABLE'"
    ).fetchall()
    return int(found[0][0]) if found else 0
