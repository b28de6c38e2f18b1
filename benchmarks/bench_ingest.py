"""Ingestion against the plain Spark job that reads the same files and writes the same layout.

    python -m benchmarks.bench_ingest [--rows 5000000] [--runs 5] [--case "parquet, raw"] [--work FOLDER]

Both run in one process on one Spark session, in turns, so that their ratio holds on a noisy machine. The plain job is
what a careful person writes: `repartitionByRange` by day, `sortWithinPartitions`, `write.partitionBy`, zstd. After
every run both results are counted and summed, and must agree.

The first run of either is not counted. Spark's start is not either: both need it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.support.events import DAYS, write_files
from benchmarks.support.harness import RESULTS, RUNS, medians, seconds, write_results
from carnac.clock import RandomIds, SystemClock
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import ChunkLayout
from carnac.spark.session import SparkHolder, SparkSettings
from carnac.specs.ingest.spec import IngestSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORDS = ("d5", "d50", "d500", "d5k", "d50k", "d500k")
SORT = ("__time", "d5", "d50", "d500", "d5k")
GROUP = ("d5", "d50", "d500", "d5k")
MAX_RATIO = 0.7
"""The most that we accept; the aim is 0.45."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The source of the rows, and whether they are rolled up to hours and four dimensions."""

    source: str
    is_rollup: bool

    @property
    def name(self) -> str:
        """Name in the results."""
        return f"{self.source}, {'rolled up' if self.is_rollup else 'raw'}"


CASES = {
    case.name: case
    for case in (
        Case(source=source, is_rollup=is_rollup)
        for source in ("parquet", "json")
        for is_rollup in (False, True)
    )
}


def make_spec(case: Case, files: list[Path]) -> IngestSpec:
    kinds = {"m_i1": "long", "m_i2": "long", "m_d1": "double", "m_d2": "double"}
    spec: dict[str, Any] = {
        "dataSource": "events",
        "input": {"type": "files", "paths": [str(path) for path in files]},
        "timestampSpec": {"column": "__time", "format": "auto"},
        "granularitySpec": {"segmentGranularity": "day"},
        "tuningConfig": {"sortBy": list(SORT)},
    }
    if not case.is_rollup:
        numbers = [{"name": name, "type": kind} for name, kind in kinds.items()]
        return IngestSpec.model_validate(spec | {"dimensionsSpec": [*WORDS, *numbers]})
    metrics: list[dict[str, str]] = [{"type": "count", "name": "rows"}]
    metrics += [
        {"type": f"{kind}Sum", "name": name, "fieldName": name} for name, kind in kinds.items()
    ]
    spec["granularitySpec"] |= {"queryGranularity": "hour", "rollup": True}
    return IngestSpec.model_validate(spec | {"dimensionsSpec": list(GROUP), "metricsSpec": metrics})


def read_plain(session: SparkSession, case: Case, files: list[Path]) -> DataFrame:
    from pyspark.sql import functions as fn

    paths = [str(path) for path in files]
    if case.source == "parquet":
        return session.read.parquet(*paths)
    words = ", ".join(f"{name} string" for name in WORDS)
    schema = f"__time string, {words}, m_i1 long, m_i2 long, m_d1 double, m_d2 double"
    rows = session.read.schema(schema).json(paths)
    return rows.withColumn("__time", fn.to_timestamp("__time"))


def run_plain(session: SparkSession, case: Case, files: list[Path], output: Path) -> None:
    from pyspark.sql import functions as fn

    rows = read_plain(session, case, files)
    if case.is_rollup:
        rows = rows.withColumn("__time", fn.date_trunc("hour", "__time"))
    rows = rows.withColumn("day", fn.to_date("__time"))
    if case.is_rollup:
        sums = [fn.sum(name).alias(name) for name in ("m_i1", "m_i2", "m_d1", "m_d2")]
        rows = rows.groupBy("day", "__time", *GROUP).agg(fn.count("*").alias("rows"), *sums)
    ordered = rows.repartitionByRange(DAYS, "day").sortWithinPartitions("day", *SORT)
    ordered.write.mode("overwrite").option("compression", "zstd").partitionBy("day").parquet(
        str(output)
    )


def totals(pattern: str, case: Case) -> tuple[int, int, int, int]:
    """Return segment rows, input rows and two sums, to compare both results by."""
    count = "sum(rows)" if case.is_rollup else "count(*)"
    with duckdb.connect() as con:
        row = con.sql(
            f"SELECT count(*), {count}, sum(m_i1), sum(m_i2) FROM read_parquet('{pattern}')"
        ).fetchall()[0]
    return int(row[0]), int(row[1]), int(row[2]), int(row[3])


class Contest:
    """Both jobs over one input, in turns."""

    def __init__(self, session: SparkSession, pipeline: SparkPipeline, work: Path) -> None:
        self._session, self._pipeline, self._work = session, pipeline, work

    def run(self, case: Case, files: list[Path], runs: int) -> Mapping[str, float]:
        """Return the medians of `runs` rounds, after one that is not counted."""
        spec = make_spec(case, files)
        layout = ChunkLayout(segment_granularity="DAY")
        rounds: list[Mapping[str, float]] = []
        for index in range(runs + 1):
            shutil.rmtree(self._work / "plain", ignore_errors=True)
            shutil.rmtree(self._work / "store", ignore_errors=True)
            plain_s, _ = seconds(self._plain(case, files))
            ours_s, result = seconds(lambda: self._pipeline.run_ingest(spec, layout))
            self._compare(case)
            phases = {
                f"ours {name} s": took for name, took in result.report.seconds_by_phase.items()
            }
            sizes = {
                "ours MB": _megabytes(self._work / "store"),
                "plain MB": _megabytes(self._work / "plain"),
            }
            print(
                f"{case.name} run {index}: plain {plain_s:.2f} s, ours {ours_s:.2f} s {phases}",
                flush=True,
            )
            if index:
                rounds.append(
                    {
                        "plain s": plain_s,
                        "ours s": ours_s,
                        "ratio": ours_s / plain_s,
                        **phases,
                        **sizes,
                    }
                )
        return medians(rounds)

    def _plain(self, case: Case, files: list[Path]) -> Callable[[], None]:
        return lambda: run_plain(self._session, case, files, self._work / "plain")

    def _compare(self, case: Case) -> None:
        ours = totals(f"{self._work}/store/segments/**/*.parquet", case)
        plain = totals(f"{self._work}/plain/**/*.parquet", case)
        if ours != plain:
            raise SystemExit(
                f"{case.name}: ours has (rows, input rows, sums) {ours}, the plain job {plain}"
            )


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument(
        "--case",
        nargs="+",
        choices=list(CASES),
        default=list(CASES),
        help="the figures of the others stay as they are",
    )
    parser.add_argument(
        "--work", type=Path, help="folder for inputs and outputs, kept (default: a temporary one)"
    )
    parser.add_argument("--dry-run", action="store_true", help="write no result file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-ingest-") as temporary:
        work: Path = options.work or Path(temporary)
        contest_all(options, work.absolute())


def write_figures(options: argparse.Namespace, figures: Mapping[str, object]) -> None:
    """Write what there is so far: a case takes minutes, and a run that is stopped keeps its figures."""
    if options.dry_run:
        return
    write_results(
        "ingest", figures, packages=("pyspark", "duckdb", "pyarrow"), note=describe(options)
    )


def describe(options: argparse.Namespace) -> str:
    """Say what was measured."""
    return (
        f"{options.rows:,} events in 8 files, into {DAYS} days, local[2], medians of {options.runs};"
        f" ratio: ours / plain in one round, at most {MAX_RATIO}"
    )


def known_figures(options: argparse.Namespace) -> dict[str, object]:
    """Return the figures of the cases that are not measured now, if they were measured in the same way."""
    path = RESULTS / "ingest.json"
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("note") != describe(options):
        return {}
    return {name: known for name, known in content["figures"].items() if name not in options.case}


def contest_all(options: argparse.Namespace, work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    config = {"spark.driver.memory": "4g", "spark.local.dir": str(work / "spark")}
    settings = SparkSettings(master="local[2]", config=config, log_path=work / "spark.log")
    holder = SparkHolder(settings)
    pipeline = SparkPipeline(
        output_url=(work / "store").as_uri(), clock=SystemClock(), ids=RandomIds(), spark=settings
    )
    contest = Contest(holder.session(), pipeline, work)
    figures = known_figures(options)
    try:
        for name in options.case:
            case = CASES[name]
            is_json = case.source == "json"
            files = write_files(work / case.source, rows=options.rows, files=8, as_json=is_json)
            figures[name] = contest.run(case, files, options.runs)
            write_figures(options, figures)
    finally:
        holder.close()


if __name__ == "__main__":
    main()
