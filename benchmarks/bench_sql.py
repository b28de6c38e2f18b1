"""SQL: the cost of a statement over DuckDB, pruning among 10,000 segments, and a cold command.

    python -m benchmarks.bench_sql

Three questions, each a ratio or a time inside one run. How much does the smallest statement cost over DuckDB that is
handed its file? How long does a query plan when its datasource has 10,000 live segments and its interval touches ten?
How long does it take from typing `carnac sql` to the rows? `bench_queries` measures larger statements.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.support.events import DAYS, START_S, make_table
from benchmarks.support.harness import RUNS, seconds, write_results
from carnac.clock import RandomIds, SystemClock
from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.core.segments.segment import ColumnType, Segment
from carnac.core.time.intervals import Interval
from carnac.deep_storage.local import LocalDeepStorage
from carnac.metadata import open_metadata
from carnac.query import QueryEngine
from carnac.rows.segment_writer import SegmentWriter
from carnac.store.querying import RevisionCatalog
from tests.support.clock import SequentialIds
from tests.support.segments import DAY_MS, MemoryCatalog, record_of, write_segment

START_MS = START_S * 1000
LIVE_SEGMENTS = 10_000
WARM_RUNS = 7
TYPES = {
    **{f"d{suffix}": ColumnType.STRING for suffix in ("5", "50", "500", "5k", "50k", "500k")},
    "m_i1": ColumnType.LONG,
    "m_i2": ColumnType.LONG,
    "m_d1": ColumnType.DOUBLE,
    "m_d2": ColumnType.DOUBLE,
}


def fill(storage: LocalDeepStorage, root: Path, rows: int) -> MemoryCatalog:
    """Write one sorted segment for each day and return a catalog of them."""
    table = make_table(rows, file_index=0).sort_by("__time")
    days = pc.divide(
        pc.subtract(table.column("__time").cast(pa.int64()), START_MS * 1000), DAY_MS * 1000
    )
    catalog, ids = MemoryCatalog(), SequentialIds("clicks")
    for day in range(DAYS):
        part = table.filter(pc.equal(days, day))
        identity = ids.new_id()
        path = f"segments/clicks/{identity}.parquet"
        with SegmentWriter(storage.url, path, tuple(TYPES.items()), temp_dir=str(root)) as writer:
            writer.write(part)
            written = writer.finish()
        catalog.add(
            record_of(
                written,
                segment_id=identity,
                datasource="clicks",
                chunk=Interval(START_MS + day * DAY_MS, START_MS + (day + 1) * DAY_MS),
                path=path,
            )
        )
    return catalog


def fixed_overhead(root: Path) -> dict[str, object]:
    """Measure the smallest query on one small file."""
    storage = LocalDeepStorage(root / "small")
    segment = write_segment(storage, [{"__time": i, "a": i} for i in range(100)])
    catalog = MemoryCatalog().add(segment)
    engine = QueryEngine(storage, threads=2)
    plain = duckdb.connect(config={"threads": 2})
    plain.execute("SET TimeZone = 'UTC'; SET parquet_metadata_cache = true")
    query = "SELECT sum(a) FROM {t} WHERE a >= 10"
    file = f"read_parquet('{storage.local_path(segment.path)}')"
    ours = timed(lambda: engine.run_query(query.format(t="events"), catalog))
    theirs = timed(lambda: plain.sql(query.format(t=file)).to_arrow_table())
    return {
        "carnac": ours,
        "duckdb": theirs,
        "overhead_ms": round(ours["median_ms"] - theirs["median_ms"], 2),
        "overhead_best_ms": round(ours["best_ms"] - theirs["best_ms"], 2),
    }


def timed(work: Callable[[], object], runs: int = 51) -> dict[str, float]:
    """Return the median and the best of many runs, and their CPU time, all in milliseconds, after one to warm up."""
    work()
    cpu = time.process_time()
    walls = [seconds(work)[0] for _ in range(runs)]
    cpu = (time.process_time() - cpu) / runs
    return {
        "median_ms": round(statistics.median(walls) * 1000, 2),
        "best_ms": round(min(walls) * 1000, 2),
        "cpu_ms": round(cpu * 1000, 2),
    }


def live_segments(storage: LocalDeepStorage) -> tuple[Segment, list[Segment]]:
    """Write one file; return its record, and as many records of it as there are live segments, one for each hour."""
    ids = SequentialIds("live")
    first = write_segment(
        storage,
        [{"__time": hour, "a": hour, "s": "x"} for hour in range(10)],
        types={"a": ColumnType.LONG, "s": ColumnType.STRING},
    )
    segments = []
    for number in range(LIVE_SEGMENTS):
        start_ms = number * 3_600_000
        segments.append(
            replace(
                first,
                segment_id=ids.new_id(),
                chunk=Interval(start_ms, start_ms + 3_600_000),
                min_time_ms=start_ms,
                max_time_ms=start_ms + 3_599_999,
            )
        )
    return first, segments


def pruning(root: Path) -> dict[str, Any]:
    """Plan and run a query whose interval touches 10 of 10,000 live segments, on both kinds of catalog."""
    storage = LocalDeepStorage(root / "many")
    first, segments = live_segments(storage)
    memory = MemoryCatalog()
    for segment in segments:
        memory.add(segment)
    metadata = open_metadata(
        f"sqlite:///{root / 'metadata.db'}", clock=SystemClock(), ids=RandomIds()
    )
    metadata.publish(
        Publication(
            kind=CommitKind.APPEND,
            changes=(
                Change(datasource="events", adds=tuple(segments), segment_granularity="hour"),
            ),
        )
    )
    stored = RevisionCatalog(metadata, metadata.head().revision)
    engine = QueryEngine(storage, threads=2)
    query = (
        "SELECT count(*) FROM events WHERE __time >= TIMESTAMPTZ '1970-02-01 00:00:00+00'"
        " AND __time < TIMESTAMPTZ '1970-02-01 10:00:00+00'"
    )
    read = engine.run_query(query, stored).segments_read
    if read != 10:
        raise SystemExit(f"the query reads {read} segments, not 10")
    with_memory = timed(lambda: engine.run_query(query, memory), 15)
    with_metadata = timed(lambda: engine.run_query(query, stored), 15)
    paths = [str(storage.local_path(first.path))] * 10
    plain = duckdb.connect(config={"threads": 2})
    plain.execute("SET TimeZone = 'UTC'; SET parquet_metadata_cache = true")
    direct = query.replace("events", f"read_parquet({paths!r})")
    alone = timed(lambda: plain.sql(direct).to_arrow_table(), 15)
    metadata.close()
    return {
        "live_segments": LIVE_SEGMENTS,
        "segments_read": read,
        "query_with_memory_catalog": with_memory,
        "query_with_sqlite_catalog": with_metadata,
        "duckdb_on_the_ten_files": alone,
        "pruning_ms": round(with_metadata["median_ms"] - alone["median_ms"], 2),
        "pruning_best_ms": round(with_metadata["best_ms"] - alone["best_ms"], 2),
    }


def cold(root: Path) -> dict[str, float]:
    """Start `carnac sql` again and again; CPU seconds beside wall seconds, because cores are shared."""
    place = root / "cold"
    carnac = [sys.executable, "-m", "carnac", "--store", str(place)]
    subprocess.run([*carnac, "init"], check=True, stdout=subprocess.DEVNULL)
    command = [*carnac, "sql", "SELECT 1"]

    def once() -> tuple[float, float]:
        started = time.perf_counter()
        cpu = children_cpu()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started, children_cpu() - cpu

    once()
    runs = [once() for _ in range(RUNS)]
    return {
        "wall_s": round(statistics.median(wall for wall, _ in runs), 3),
        "wall_min_s": round(min(wall for wall, _ in runs), 3),
        "cpu_s": round(statistics.median(cpu for _, cpu in runs), 3),
    }


def children_cpu() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure and write `results/sql.json`."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        figures = {
            "fixed_overhead": fixed_overhead(root),
            "pruning": pruning(root),
            "cold_command": cold(root),
        }
    write_results("sql", figures, packages=["duckdb", "pyarrow"])


if __name__ == "__main__":
    main()
