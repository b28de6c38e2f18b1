"""Appending while compaction runs: four processes append to one day for 30 s, a fifth compacts in a loop.

    python -m benchmarks.bench_append_compact [--seconds 30] [--runs 5] [--only carnac delta-rs pyiceberg] [--add]

Every append is 1,000 rows in one commit. Peers are called as their documentation says: delta-rs `write_deltalake` and
`optimize.compact`, with its default of retries; pyiceberg `append`, and for compaction, which it has none of, the
overwrite of a table by its own rows. Carnac's appenders call `store.append`, which checks, coerces, sorts and writes
rows and publishes them; its compactor is `store.compact` on Spark, in a loop: all segments below a size are folded,
minor compactions both small and large. Its Spark gives way to other processes as that of `carnac compact --auto`
does. All rows are counted at the end. After each round one append is measured alone, on one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.support.harness import RESULTS, RUNS, medians, percentiles_ms, ratio, write_results

SPAWN = multiprocessing.get_context("spawn")  # delta-rs does not survive a fork
PROCESSES = 4
ROWS = 1_000
DAY_MS = 86_400_000
START_MS = 20_000 * DAY_MS
SMALL_ROWS, LARGE_ROWS = 200_000, 2_000_000
"""Segments below the first are folded each time, those below the second when there are `FEW` of them."""
FEW = 8
WORDS = 50
PACKAGES = ("duckdb", "pyarrow", "pyspark", "deltalake", "pyiceberg", "sqlalchemy")
SPEC = {
    "dataSource": "events",
    "timestampSpec": {"column": "__time"},
    "dimensions": [
        "d",
        "e",
        {"name": "m", "type": "long"},
        {"name": "x", "type": "double"},
    ],
    "granularitySpec": {"segmentGranularity": "day"},
}
ALONE = 300
"""Appends of one thread with nothing beside it."""
AIM = {
    "carnac commits / better peer": 8,
    "failed": 0,
    "aborted": 0,
    "lost rows": 0,
    "alone p50_ms": 15,
}


def make_rows(seed: int) -> pa.Table:
    """Return rows of one day, sorted by time."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, DAY_MS, ROWS)) + START_MS
    words = [f"word-{number}" for number in range(WORDS)]
    return pa.table(
        {
            "__time": pa.array(times * 1000).cast(pa.timestamp("us", "UTC")),
            "d": pa.array(rng.integers(0, WORDS, ROWS)).cast(pa.string()),
            "e": pa.array([words[place] for place in rng.integers(0, WORDS, ROWS)]),
            "m": pa.array(rng.integers(0, 1000, ROWS)),
            "x": pa.array(rng.random(ROWS)),
        }
    )


class _Carnac:
    """The store: SQLite and local files."""

    @staticmethod
    def create(folder: Path) -> None:
        import carnac

        carnac.open(folder, create=True).close()

    @staticmethod
    def appender(folder: Path) -> Callable[[pa.Table], None]:
        import carnac
        import carnac.jobs.pipeline  # before the clock starts, as the modules of the others are

        store = carnac.open(folder)

        def append(rows: pa.Table) -> None:
            store.append("events", rows, spec=SPEC)

        return append

    @staticmethod
    def compactor(folder: Path) -> Callable[[], tuple[int, int]]:
        import carnac
        from carnac.config import NICENESS
        from carnac.core.compaction.plan.groups import CompactionGroup, GroupKind
        from carnac.core.time.intervals import Interval
        from carnac.store.compacting.reports import GroupOutcome

        store = carnac.open(folder, spark_niceness=NICENESS)
        numbers = iter(range(10**9))
        chunk = Interval(START_MS, START_MS + DAY_MS)

        def compact() -> tuple[int, int]:
            found = [item.segment for item in store.segments("events")]
            small = [one.segment_id for one in found if one.rows < SMALL_ROWS]
            middle = [one.segment_id for one in found if SMALL_ROWS <= one.rows < LARGE_ROWS]
            groups = [
                CompactionGroup(
                    group_id=f"{next(numbers)}",
                    datasource="events",
                    kind=GroupKind.MINOR,
                    interval=chunk,
                    segment_ids=tuple(chosen),
                )
                for chosen, least in ((small, 2), (middle, FEW))
                if len(chosen) >= least
            ]
            report = store.compact(groups)
            done = report.count(GroupOutcome.COMMITTED)
            return done, len(groups) - done

        return compact

    @staticmethod
    def live(folder: Path) -> tuple[int, int]:
        import carnac

        with carnac.open(folder) as store:
            found = store.segments("events")
        return len(found), sum(item.segment.rows for item in found)


class _Delta:
    """A Delta table in a folder."""

    @staticmethod
    def create(folder: Path) -> None:
        from deltalake import DeltaTable, Schema

        DeltaTable.create(str(folder / "t"), schema=Schema.from_arrow(make_rows(0).schema))

    @staticmethod
    def appender(folder: Path) -> Callable[[pa.Table], None]:
        from deltalake import write_deltalake

        return lambda rows: write_deltalake(str(folder / "t"), rows, mode="append")

    @staticmethod
    def compactor(folder: Path) -> Callable[[], tuple[int, int]]:
        from deltalake import DeltaTable

        def compact() -> tuple[int, int]:
            found = DeltaTable(str(folder / "t")).optimize.compact()
            return int(found["numFilesAdded"] > 0), 0

        return compact

    @staticmethod
    def live(folder: Path) -> tuple[int, int]:
        from deltalake import DeltaTable

        table = DeltaTable(str(folder / "t"))
        return len(table.file_uris()), table.count()


class _Iceberg:
    """An Iceberg table with a SQLite catalog."""

    @staticmethod
    def _catalog(folder: Path) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        return SqlCatalog(
            "c", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=(folder / "w").as_uri()
        )

    @staticmethod
    def create(folder: Path) -> None:
        catalog = _Iceberg._catalog(folder)
        catalog.create_namespace("n")
        catalog.create_table("n.t", schema=make_rows(0).schema)

    @staticmethod
    def appender(folder: Path) -> Callable[[pa.Table], None]:
        catalog = _Iceberg._catalog(folder)
        return lambda rows: catalog.load_table("n.t").append(rows)

    @staticmethod
    def compactor(folder: Path) -> Callable[[], tuple[int, int]]:
        catalog = _Iceberg._catalog(folder)

        def compact() -> tuple[int, int]:
            table = catalog.load_table("n.t")
            table.overwrite(table.scan().to_arrow())
            return 1, 0

        return compact

    @staticmethod
    def live(folder: Path) -> tuple[int, int]:
        scan = _Iceberg._catalog(folder).load_table("n.t").scan()
        tasks = list(scan.plan_files())
        return len(tasks), sum(task.file.record_count for task in tasks)


Place = tuple[str, Path, Barrier, float, Any]
"""Contestant, its folder, what all start at, seconds, and the queue of results."""
CONTESTANTS: Mapping[str, Any] = {"carnac": _Carnac, "delta-rs": _Delta, "pyiceberg": _Iceberg}


def run_appender(number: int, place: Place) -> None:
    """Append until the time is up; report how long each took, and what failed."""
    name, folder, barrier, seconds, results = place
    append = CONTESTANTS[name].appender(folder)
    tables = [make_rows(number * 100 + index) for index in range(20)]
    latencies: list[float] = []
    errors: dict[str, int] = {}
    failed = 0
    barrier.wait()
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        try:
            append(tables[len(latencies) % len(tables)])
        except Exception as error:
            failed += 1
            what = f"{type(error).__name__}: {error}"[:200]
            errors[what] = errors.get(what, 0) + 1
        else:
            latencies.append(time.perf_counter() - start)
    results.put(("append", latencies, failed, errors))


def run_compactor(place: Place) -> None:
    """Compact until the time is up; report how often, what was aborted, and the most live segments seen."""
    name, folder, barrier, seconds, results = place
    contestant = CONTESTANTS[name]
    compact = contestant.compactor(folder)
    if name == "carnac":
        _warm_up(folder, compact)
    done, aborted, most = 0, 0, 0
    errors: dict[str, int] = {}
    barrier.wait()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        try:
            ok, lost = compact()
        except Exception as error:
            aborted += 1
            what = f"{type(error).__name__}: {error}"[:200]
            errors[what] = errors.get(what, 0) + 1
        else:
            done, aborted = done + ok, aborted + lost
        most = max(most, contestant.live(folder)[0])
    results.put(("compact", done, aborted, most, errors))


def _warm_up(folder: Path, compact: Callable[[], object]) -> None:
    """Let Spark start before the clock does; the others have nothing to start."""
    append = _Carnac.appender(folder)
    for seed in range(2):
        append(make_rows(seed))
    compact()


def alone(work: Path) -> Mapping[str, float]:
    """Append on one thread, with no compaction; return the milliseconds that it takes, and of them the processor's."""
    folder = work / "alone"
    shutil.rmtree(folder, ignore_errors=True)
    _Carnac.create(folder)
    append = _Carnac.appender(folder)
    tables = [make_rows(seed) for seed in range(20)]
    walls, processor = [], []
    for index in range(ALONE):
        start, used = time.perf_counter(), time.process_time()
        append(tables[index % len(tables)])
        walls.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    return {
        **{f"alone {key}": value for key, value in percentiles_ms(walls).items()},
        "alone cpu p50_ms": statistics.median(processor) * 1000,
    }


def contest(name: str, seconds: float, work: Path) -> Mapping[str, float]:
    """Run one contestant; return its figures."""
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    CONTESTANTS[name].create(folder)
    barrier, results = SPAWN.Barrier(PROCESSES + 1), SPAWN.Queue()
    place: Place = (name, folder, barrier, seconds, results)
    children = [
        SPAWN.Process(target=run_appender, args=(number, place)) for number in range(PROCESSES)
    ]
    children.append(SPAWN.Process(target=run_compactor, args=(place,)))
    for child in children:
        child.start()
    found = [results.get(timeout=seconds * 4 + 120) for _ in children]
    for child in children:
        child.join()
    appends = [one for one in found if one[0] == "append"]
    [compaction] = [one for one in found if one[0] == "compact"]
    latencies = [latency for one in appends for latency in one[1]]
    live, rows = CONTESTANTS[name].live(folder)
    warm = 2 if name == "carnac" else 0
    by_itself = alone(work) if name == "carnac" else {}
    for one in (*appends, compaction):
        if one[-1]:
            print(name, one[0], one[-1], flush=True)
    return {
        "commits a second": len(latencies) / seconds,
        **percentiles_ms(latencies),
        "failed appends": sum(one[2] for one in appends),
        "compactions": compaction[1],
        "aborted compactions": compaction[2],
        "live segments at most": max(compaction[3], live),
        "live segments at the end": live,
        "lost rows": (len(latencies) + warm) * ROWS - rows,
        **by_itself,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--add", action="store_true", help="add to the rounds that there are")
    parser.add_argument("--dry-run", action="store_true", help="write no result file")
    options = parser.parse_args()
    rounds: dict[str, list[Mapping[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-append-") as work:
        for _ in range(options.runs):
            for name in options.only:
                figures = contest(name, options.seconds, Path(work))
                rounds.setdefault(name, []).append(figures)
                print(name, {key: round(value, 2) for key, value in figures.items()}, flush=True)
    write(options, rounds)


def write(options: argparse.Namespace, rounds: Mapping[str, list[Mapping[str, float]]]) -> None:
    """Write medians, over earlier rounds too if that is asked for."""
    note = f"{PROCESSES} appenders of {ROWS:,} rows and one compactor, {options.seconds:g} s, SQLite and local files"
    path = RESULTS / "append_compact.json"
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    figures: dict[str, Any] = content.get("figures", {}) if content.get("note") == note else {}
    for name, some in rounds.items():
        known = figures.get(name, {}).get("rounds", []) if options.add else []
        whole = [*known, *({key: round(value, 3) for key, value in one.items()} for one in some)]
        figures[name] = {"medians": medians(whole), "runs": len(whole), "rounds": whole}
    rate = {
        name: statistics.median(one["commits a second"] for one in figures[name]["rounds"])
        for name in CONTESTANTS
        if name in figures
    }
    with contextlib.suppress(KeyError):
        figures["carnac commits / better peer"] = ratio(
            rate["carnac"], max(rate["delta-rs"], rate["pyiceberg"])
        )
    figures["aims"] = AIM
    if not options.dry_run:
        write_results("append_compact", figures, packages=PACKAGES, note=note)


if __name__ == "__main__":
    main()
