"""Compaction: 1,000 small segments in 30 day chunks to one sorted segment a chunk, against engines that do the same.

    python -m benchmarks.bench_compaction [--part rewrite minor proof memory] [--runs 5] [--work FOLDER] [--add]

All contestants read the same files in one process, in turns. Carnac's time is that of `store.compact_interval`: looking
the groups up, Spark jobs, conservation proofs and thirty commits included. Spark's start is not included, and work on
Spark has run before. All use both cores and write zstd of the same level. DuckDB and Polars write one sorted file a
chunk and nothing else; delta-rs `optimize.compact` does not sort; the plain Spark job is `repartitionByRange` by day,
`sortWithinPartitions`, `partitionBy`.

`--add` adds the rounds to those of earlier calls with the same arguments, so that a long benchmark can be run in parts.
Peers are in the extra `bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import carnac
from benchmarks.support.events import DAYS
from benchmarks.support.harness import (
    RESULTS,
    RUNS,
    medians,
    seconds,
    tree_cpu_seconds,
    write_results,
)
from benchmarks.support.small_segments import (
    DATASOURCE,
    DAY_MS,
    SORT,
    SmallSegments,
    make_delta_table,
    make_small_segments,
)
from carnac.rows.segment_writer import COMPRESSION_LEVEL
from carnac.spark.session import SparkHolder, SparkSettings
from carnac.store.compacting.reports import CompactionReport, GroupOutcome

PACKAGES = ("duckdb", "polars", "pyarrow", "pyspark", "deltalake")
AIMS = {
    "carnac / DuckDB": 1.3,
    "plain Spark / carnac": 4,
    "z_order / carnac": 2,
    "proof overhead": 0.1,
    "proof overhead, deletion": 0.1,
    "major / minor work": 20,
}
WARM_UPS = 2
"""Runs of work on Spark's JVM before it is measured, as a store that compacts all day has a warm JVM."""
PROOF_DAYS = 8
DELETION = ", deletion"


def run_carnac(small: SmallSegments, holder: SparkHolder) -> CompactionReport:
    with carnac.open(small.folder) as store:
        holder.session()
        report = store.compact_interval(DATASOURCE)
    if report.count(GroupOutcome.COMMITTED) != DAYS:
        raise SystemExit(f"not all groups were committed: {report}")
    return report


def run_duckdb(small: SmallSegments, output: Path) -> None:
    import duckdb

    order = ", ".join(SORT)
    with duckdb.connect(config={"threads": 2}) as con:
        for day, files in enumerate(small.days):
            names = [str(path) for path in files]
            con.execute(
                f"COPY (SELECT * FROM read_parquet({names}) ORDER BY {order})"
                f" TO '{output}/{day}.parquet' (FORMAT parquet, COMPRESSION zstd,"
                f" COMPRESSION_LEVEL {COMPRESSION_LEVEL})"
            )


def run_polars(small: SmallSegments, output: Path) -> None:
    import polars as pl

    for day, files in enumerate(small.days):
        rows = pl.read_parquet(files).sort(SORT)
        rows.write_parquet(
            output / f"{day}.parquet", compression="zstd", compression_level=COMPRESSION_LEVEL
        )


def run_plain_spark(small: SmallSegments, output: Path, holder: SparkHolder) -> None:
    from pyspark.sql import functions as fn

    files = [str(path) for day in small.days for path in day]
    rows = holder.session().read.parquet(*files).withColumn("day", fn.to_date("__time"))
    ordered = rows.repartitionByRange(DAYS, "day").sortWithinPartitions("day", *SORT)
    writer = ordered.write.mode("overwrite").option("compression", "zstd")
    writer = writer.option("parquet.compression.codec.zstd.level", str(COMPRESSION_LEVEL))
    writer.partitionBy("day").parquet(str(output / "plain"))


def run_delta(table: Path, *, z_order: bool) -> None:
    from deltalake import DeltaTable, WriterProperties

    opened = DeltaTable(str(table))
    properties = WriterProperties(compression="ZSTD", compression_level=COMPRESSION_LEVEL)
    if z_order:
        opened.optimize.z_order(["__time", "d5k"], writer_properties=properties)
    else:
        opened.optimize.compact(writer_properties=properties)


class Rewrites:
    """All contestants over the same small segments."""

    def __init__(self, small: SmallSegments, work: Path, holder: SparkHolder) -> None:
        self._small, self._work, self._holder = small, work, holder

    def round(self) -> Mapping[str, float]:
        """Run each once, in turns, and return the seconds; results must hold all rows."""
        small, figures = self._small, {}
        small.reset()
        os.sync()  # nobody waits for what another one wrote
        cpu_s = tree_cpu_seconds()
        took, report = seconds(lambda: run_carnac(small, self._holder))
        figures["carnac s"] = took
        figures["carnac CPU s"] = tree_cpu_seconds() - cpu_s
        figures["carnac MB out"] = report.bytes_out / 1e6
        for name, run in self._peers().items():
            output = self._work / "out"
            shutil.rmtree(output, ignore_errors=True)
            output.mkdir()
            os.sync()
            cpu_s = tree_cpu_seconds()
            figures[f"{name} s"], _ = seconds(lambda run=run, output=output: run(output))  # type: ignore[misc]
            figures[f"{name} CPU s"] = tree_cpu_seconds() - cpu_s
            self._check(name, output)
        for unit in ("s", "CPU s"):
            ours = figures[f"carnac {unit}"]
            figures[f"carnac / DuckDB ({unit})"] = ours / figures[f"DuckDB {unit}"]
            figures[f"plain Spark / carnac ({unit})"] = figures[f"plain Spark {unit}"] / ours
            figures[f"z_order / carnac ({unit})"] = figures[f"delta-rs z_order {unit}"] / ours
            figures[f"optimize.compact / carnac ({unit})"] = (
                figures[f"delta-rs compact {unit}"] / ours
            )
            figures[f"Polars / carnac ({unit})"] = figures[f"Polars {unit}"] / ours
        figures["carnac MB in a second"] = small.size_bytes / 1e6 / took
        return figures

    def _peers(self) -> dict[str, Callable[[Path], None]]:
        small = self._small
        pristine = make_delta_table(small, self._work / "delta")
        for kind in ("compact", "z_order"):
            shutil.rmtree(self._work / kind, ignore_errors=True)
            shutil.copytree(pristine, self._work / kind)
        return {
            "DuckDB": lambda output: run_duckdb(small, output),
            "Polars": lambda output: run_polars(small, output),
            "delta-rs compact": lambda _: run_delta(self._work / "compact", z_order=False),
            "delta-rs z_order": lambda _: run_delta(self._work / "z_order", z_order=True),
            "plain Spark": lambda output: run_plain_spark(small, output, self._holder),
        }

    def _check(self, name: str, output: Path) -> None:
        import duckdb

        if name.startswith("delta"):
            return
        with duckdb.connect() as con:
            [(rows,)] = con.sql(f"SELECT count(*) FROM '{output}/**/*.parquet'").fetchall()
        if rows != self._small.rows:
            raise SystemExit(f"{name} wrote {rows} rows of {self._small.rows}")


def minor_round(work: Path, holder: SparkHolder) -> Mapping[str, float]:
    """One large and ten tiny segments in a chunk: fold the tiny ones, or rewrite the chunk."""
    from benchmarks.support.small_segments import day_table, publish, write_one

    rows, tiny = 2_000_000, 2_000
    folder = work / "minor"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    table = day_table(0, rows + 10 * tiny)
    made = [write_one(folder, table.slice(0, rows), 0, "large")]
    made += [
        write_one(folder, table.slice(rows + index * tiny, tiny), 0, f"tiny-{index}")
        for index in range(10)
    ]
    figures: dict[str, float] = {}
    for kind in ("minor", "major"):
        for path in folder.glob("metadata.db*"):
            path.unlink()
        publish(folder, made)
        with carnac.open(folder) as store:
            holder.session()
            names = [one.segment_id for one in made[1:]] if kind == "minor" else None
            took, report = seconds(
                lambda store=store, names=names: store.compact_interval(DATASOURCE, segments=names)  # type: ignore[misc]
            )
        figures[f"{kind} s"] = took
        figures[f"{kind} bytes read and written"] = report.bytes_in + report.bytes_out
        figures[f"{kind} bytes out / in"] = report.bytes_out / report.bytes_in
    figures["major / minor work"] = (
        figures["major bytes read and written"] / figures["minor bytes read and written"]
    )
    figures["major / minor s"] = figures["major s"] / figures["minor s"]
    return figures


def proof_round(small: SmallSegments) -> Mapping[str, float]:
    """CPU seconds of some chunks rewritten in this process, with and without what the proof takes, chunk by chunk.

    Whole files, such of which the first six hours of the day are hidden, rows that are rolled up further, and what a
    deletion leaves.
    """
    from benchmarks.support.rewriting import (
        BY_HOUR,
        Groups,
        compacted,
        delete_from_days,
        first_days,
        rewrite_days,
        rolled_up,
    )

    figures: dict[str, float] = {}
    days = first_days(small, PROOF_DAYS)
    with rolled_up(small, days) as by_minute, compacted(small, days) as large:
        kinds: dict[str, tuple[Groups, Mapping[str, Any]]] = {
            "": (days, {}),
            ", a quarter hidden": (days, {"hidden_ms": DAY_MS // 4}),
            ", rolled up": (by_minute, {"target": BY_HOUR}),
            DELETION: (large, {}),
        }
        for name, (groups, how) in kinds.items():
            work = delete_from_days if name == DELETION else rewrite_days
            work(small, groups[:1], hashes=True, **how)
            took = {True: 0.0, False: 0.0}
            # the first of a pair finds files that are in no cache, so the two take turns at that
            for index, group in enumerate(groups):
                first = index % 2 == 0
                for hashes in (first, not first, not first, first):
                    took[hashes] += work(small, [group], hashes=hashes, **how)
            figures |= {
                f"with proof{name} CPU s": took[True],
                f"without proof{name} CPU s": took[False],
                f"proof overhead{name}": took[True] / took[False] - 1,
            }
    return figures


def memory_round(small: SmallSegments, work: Path) -> Mapping[str, float]:
    """Measure the memory of the processes for a chunk ten times larger than an executor's memory."""
    from benchmarks.support.large_chunk import large_chunk_round

    return large_chunk_round(small, work)


def describe(options: argparse.Namespace) -> str:
    return (
        f"{options.rows:,} rows in {options.segments:,} segments and {DAYS} day chunks, local[2];"
        f" every round runs all contestants in turns"
    )


def add_round(
    options: argparse.Namespace, part: str, one: Mapping[str, float], *, is_first: bool
) -> None:
    """Write the medians of the rounds so far: a run that is stopped keeps its figures."""
    path = RESULTS / "compaction.json"
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    is_same = content.get("note") == describe(options)
    figures: dict[str, Any] = content.get("figures", {}) if is_same else {}
    known = [] if is_first else figures.get(part, {}).get("rounds", [])
    rounds = [*known, {name: round(value, 4) for name, value in one.items()}]
    figures["aims"] = AIMS
    figures[part] = {"medians": medians(rounds), "runs": len(rounds), "rounds": rounds}
    if not options.dry_run:
        write_results("compaction", figures, packages=PACKAGES, note=describe(options))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--segments", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--part", nargs="+", default=["rewrite", "minor", "proof", "memory"])
    parser.add_argument("--work", type=Path, help="folder for all files, kept")
    parser.add_argument("--add", action="store_true", help="add to the rounds that there are")
    parser.add_argument("--dry-run", action="store_true", help="write no result file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-compaction-") as temporary:
        work = (options.work or Path(temporary)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        run_parts(options, work)


def run_parts(options: argparse.Namespace, work: Path) -> None:
    small = make_small_segments(work / "store", rows=options.rows, segments=options.segments)
    config = {"spark.driver.memory": "4g", "spark.local.dir": str(work / "spark")}
    holder = SparkHolder(
        SparkSettings(master="local[2]", config=config, log_path=work / "spark.log")
    )
    rewrites = Rewrites(small, work, holder)
    kinds: dict[str, Callable[[], Mapping[str, float]]] = {
        "rewrite": rewrites.round,
        "minor": lambda: minor_round(work, holder),
        "proof": lambda: proof_round(small),
        "memory": lambda: memory_round(small, work),
    }
    try:
        for part in options.part:
            if part in {"rewrite", "minor"}:
                warm_up(small, holder)
            if part == "rewrite":
                run_plain_spark(small, work / "warm", holder)
            for index in range(options.runs):
                figures = kinds[part]()
                print(part, {name: round(value, 3) for name, value in figures.items()}, flush=True)
                add_round(options, part, figures, is_first=index == 0 and not options.add)
    finally:
        holder.close()


def warm_up(small: SmallSegments, holder: SparkHolder) -> None:
    """Let Spark start, compile what it runs, and its Python workers import what they need."""
    for _ in range(WARM_UPS):
        small.reset()
        run_carnac(small, holder)


__all__ = ["DAY_MS", "main"]

if __name__ == "__main__":
    main()
