"""A small leaf engine over DuckDB, requests, and historicals over segment files of Python rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from carnac.clock import RandomIds, SystemClock
from carnac.core.quoting import quote, quote_text
from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import IntervalSet
from carnac.errors import Cancelled
from carnac.historical import Historical
from carnac.ports import DeepStorage
from carnac.ports.queries import LeafFiles, LeafReport, LeafRequest, LeafSlice
from carnac.ports.serving import Inventory, SegmentServer
from carnac.query.intact import IntactFiles
from tests.support.memory_storage import MemoryDeepStorage
from tests.support.segments import write_segment
from tests.waiting import until

STORE_ID = "store1"
_QUERIES = count(1)


def hour_rows(hour: int, rows: int = 10) -> list[dict[str, object]]:
    """Return rows of one hour: `n` counts up over hours, `word` is one of three."""
    start_ms = 1_388_534_400_000 + hour * 3_600_000
    return [
        {"__time": start_ms + i * 1000, "n": hour * rows + i, "word": f"w{i % 3}"}
        for i in range(rows)
    ]


def write_hours(storage: DeepStorage, hours: int, rows: int = 10) -> list[Segment]:
    """Write a segment for each hour."""
    return [write_segment(storage, hour_rows(hour, rows)) for hour in range(hours)]


def request_of(
    segments: Sequence[Segment],
    sql: str = "SELECT count(*) AS rows, sum(n)::BIGINT AS total FROM v",
    *,
    clip: IntervalSet | None = None,
    **more: Any,
) -> LeafRequest:
    """Return a request over whole segments, or over a clip of each."""
    columns = unite_columns(one.columns for one in segments)
    given: dict[str, Any] = {
        "query_id": f"q{next(_QUERIES)}",
        "revision": 1,
        "sql": sql,
        "view": "v",
        "columns": columns,
        "slices": [LeafSlice(segment=one, clip=clip) for one in segments],
        **more,
    }
    return LeafRequest(**given)


def rows_of(server: SegmentServer, request: LeafRequest) -> tuple[list[dict[str, Any]], LeafReport]:
    """Run a request to its end; return its rows and its report."""
    batches, report = server.run(request)
    rows = [row for batch in batches for row in batch.to_pylist()]  # type: ignore[attr-defined]
    return rows, report


def settled(server: SegmentServer) -> Inventory:
    """Return what a server holds once it loads nothing any more."""
    found: Inventory = until(
        lambda: next(
            (
                one
                for one in [server.inventory()]
                if all(holding.state != "loading" for holding in one.holdings)
            ),
            None,
        ),
        "a server that has loaded what it can",
        period_s=0.005,
    )
    return found


def states(inventory: Inventory) -> dict[str, str]:
    """Return how each segment is held."""
    return {one.segment_id: one.state.value for one in inventory.holdings}


def open_historical(folder: Path, storage: DeepStorage, **more: Any) -> Historical:
    """Return a historical that retries at once."""
    given: dict[str, Any] = {
        "engine": PlainEngine(),
        "clock": SystemClock(),
        "ids": RandomIds(),
        "store_id": STORE_ID,
        "capacity_bytes": 1 << 30,
        "checks": IntactFiles(),
        "back_off_ms": 1,
        **more,
    }
    return Historical(folder, storage, given.pop("engine"), **given)


@cache
def _database() -> Any:
    """The database of all plain engines: to make one costs more than most of their statements."""
    import duckdb

    return duckdb.connect(config={"python_enable_replacements": False, "threads": 1})


@dataclass(eq=False)
class PlainEngine:
    """Runs leaf statements as they are, on a connection of its own for each (a `QueryEngine` for tests).

    Attributes:
        gate: A statement waits before each batch until it is set.
        running: Statements that have begun and not ended.
        batches: Number of batches that were given, over all statements.
    """

    gate: threading.Event = field(default_factory=threading.Event)
    running: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    batches: int = 0

    def __post_init__(self) -> None:
        self.gate.set()

    def run_leaf(
        self, request: LeafRequest, files: LeafFiles | None = None
    ) -> tuple[Iterator[object], LeafReport]:
        """Run the statement; return its batches."""
        assert files is not None
        report = LeafReport()
        return self._run(request, files, report), report

    def cancel(self, query_id: str) -> None:
        """Stop the statements of a query before their next batch."""
        self.cancelled.add(query_id)

    def _run(self, request: LeafRequest, files: LeafFiles, report: LeafReport) -> Iterator[object]:
        import pyarrow as pa

        self.running.add(request.query_id)
        connection = _database().cursor()
        try:
            connection.execute("SET TimeZone = 'UTC'")
            for name, table in request.tables.items():
                connection.register(name, table)
            parts = [self._part(connection, one, files) for one in request.slices]
            select = " UNION ALL BY NAME ".join(parts) or "SELECT 1 AS n WHERE false"
            connection.execute(f"CREATE TEMP VIEW {quote(request.view)} AS {select}")
            reader = connection.sql(request.sql).to_arrow_reader(1000)
            for batch in reader:
                while not self.gate.wait(0.01):
                    self._refuse_if_cancelled(request)
                self._refuse_if_cancelled(request)
                report.rows += batch.num_rows
                self.batches += 1
                yield batch
            if not report.rows:
                yield pa.RecordBatch.from_pylist([], reader.schema)
            report.slices = [(one.segment.segment_id, one.clip) for one in request.slices]
            report.is_whole = True
        finally:
            self.running.discard(request.query_id)
            connection.close()

    def _refuse_if_cancelled(self, request: LeafRequest) -> None:
        if request.query_id in self.cancelled:
            raise Cancelled("the query was cancelled")

    @staticmethod
    def _part(connection: Any, piece: LeafSlice, files: LeafFiles) -> str:
        segment_id = piece.segment.segment_id
        if segment_id in files.places:
            source = f"read_parquet({quote_text(str(files.places[segment_id]))})"
        else:
            source = quote(f"cold_{segment_id}")
            connection.register(f"cold_{segment_id}", files.remote[segment_id])
        where = ""
        if piece.clip is not None:
            where = " WHERE " + (
                " OR ".join(
                    f"epoch_ms(__time) >= {one.start_ms} AND epoch_ms(__time) < {one.end_ms}"
                    for one in piece.clip
                )
                or "false"
            )
        return f"SELECT * FROM {source}{where}"


class RangedStorage(MemoryDeepStorage):
    """Deep storage that remembers which ranges were read."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[str, int, int]] = []

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes `[start, end)` of a file."""
        self.ranges.append((path, start, end))
        return super().read_range(path, start, end)
