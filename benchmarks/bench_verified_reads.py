"""The cost of checking a file before it is read, for a warm query and for the first one.

    python -m benchmarks.bench_verified_reads [--rows 3000000]

Two engines over the same files, one that checks and one that does not, take turns; ratios are of medians in one run.
A warm query only asks whether a file is still the one that was checked. The first query of a process reads all bytes of
each file that it touches. The benchmark reports that rate, and the ratio for the first query of a new engine, with the
files in the system's cache.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench_sql import fill
from benchmarks.support.dashboard import STATEMENTS, over
from benchmarks.support.harness import ratio, seconds, write_results
from carnac.deep_storage.local import LocalDeepStorage
from carnac.query import QueryEngine
from carnac.query.intact import IntactFiles, Located
from tests.support.segments import MemoryCatalog, write_segment

SMALL_FILES = 1_000
NEVER = threading.Event()
WARM_RUNS = 25
FIRST_RUNS = 5


def compare(storage: LocalDeepStorage, catalog: MemoryCatalog, query: str, runs: int) -> Any:
    """Run a query warm on both engines, in turn; the first engine changes each time."""
    engines = [QueryEngine(storage, threads=2, verify_reads=on) for on in (True, False)]
    times: tuple[list[float], list[float]] = ([], [])
    for run in range(runs + 2):
        for which in (0, 1) if run % 2 else (1, 0):
            took, _ = seconds(partial(engines[which].run_query, query, catalog))
            if run >= 2:
                times[which].append(took)
    for engine in engines:
        engine.close()
    checked, unchecked = map(statistics.median, times)
    return {
        "checked_ms": round(checked * 1000, 2),
        "unchecked_ms": round(unchecked * 1000, 2),
        "ratio": ratio(checked, unchecked),
        "ratio_of_best_runs": ratio(min(times[0]), min(times[1])),
    }


def first_query(storage: LocalDeepStorage, catalog: MemoryCatalog, query: str) -> Any:
    """Run a query on new engines, in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for run in range(FIRST_RUNS):
        for which in (0, 1) if run % 2 else (1, 0):
            engine = QueryEngine(storage, threads=2, verify_reads=which == 0)
            times[which].append(seconds(partial(engine.run_query, query, catalog))[0])
            engine.close()
    checked, unchecked = map(statistics.median, times)
    return {"checked_ms": round(checked * 1000, 1), "unchecked_ms": round(unchecked * 1000, 1)}


def rate(storage: LocalDeepStorage, catalog: MemoryCatalog) -> Any:
    """Check all files from nothing."""
    files = []
    for item in catalog.visible("clicks", None):
        place = storage.local_path(item.segment.path)
        if place is not None:
            files.append((item.segment, place))
    size_bytes = sum(segment.size_bytes for segment, _ in files)
    found = {}
    for threads in (1, 2):
        took = [seconds(partial(check_all, files, threads))[0] for _ in range(FIRST_RUNS)]
        found[f"gigabytes_per_s_{threads}_threads"] = round(
            size_bytes / statistics.median(took) / 1e9, 2
        )
    return {"files": len(files), "bytes": size_bytes, **found}


def check_all(files: Sequence[Located], threads: int) -> None:
    """Check files of which nothing is known yet."""
    IntactFiles(threads=threads).check(files, NEVER)


def small_files(storage: LocalDeepStorage) -> MemoryCatalog:
    """Write many small segments, and return a catalog of them."""
    catalog = MemoryCatalog()
    for number in range(SMALL_FILES):
        catalog.add(write_segment(storage, [{"__time": number, "a": number}]))
    return catalog


def main() -> None:
    """Measure and write `results/verified_reads.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000, help="events, over 30 days")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalDeepStorage(Path(folder) / "days")
        catalog = fill(storage, Path(folder), arguments.rows)
        small = LocalDeepStorage(Path(folder) / "small")
        many = small_files(small)
        warm = {
            name: compare(storage, catalog, over(one.text, "clicks", is_rollup=False), WARM_RUNS)
            for name, one in STATEMENTS.items()
        }
        warm[f"{SMALL_FILES} files of one row"] = compare(
            small, many, "SELECT sum(a) FROM events", WARM_RUNS
        )
        figures = {
            "rows": arguments.rows,
            "warm": warm,
            "warm_median_ratio": round(statistics.median(one["ratio"] for one in warm.values()), 3),
            "reading": rate(storage, catalog),
            "first": {
                name: first_query(
                    storage, catalog, over(STATEMENTS[name].text, "clicks", is_rollup=False)
                )
                for name in ("top 10 with a filter", "last hour")
            },
        }
    write_results("verified_reads", figures, packages=["duckdb", "pyarrow"])


if __name__ == "__main__":
    main()
