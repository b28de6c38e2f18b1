"""The format `carnac` of Spark beside `store.ingest`, `store.read_spark` and Spark's own Parquet.

    python -m benchmarks.bench_format [--rows 500000] [--runs 5]

All run in one process on one Spark session, in turns, so that their ratios hold on a noisy machine. The first run of
each is not counted: it compares files with their checksums, and starts Python workers. Spark's own files are written
as its tasks have the rows, neither sorted nor by day. Each run reads or writes all rows, and written rows are counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import carnac
from benchmarks.support.events import write_files
from benchmarks.support.harness import RUNS, medians, ratio, seconds, write_results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 4
NUMBERS = {"m_i1": "long", "m_i2": "long", "m_d1": "double", "m_d2": "double"}
SPEC: dict[str, Any] = {
    "timestampSpec": {"column": "__time"},
    "dimensionsSpec": [
        *("d5", "d50", "d500", "d5k", "d50k", "d500k"),
        *({"name": name, "type": kind} for name, kind in NUMBERS.items()),
    ],
    "granularitySpec": {"segmentGranularity": "day"},
}
SEED = [{"time": "2020-01-01", "d5": "x"}]
"""A row of a datasource of its own, through which Spark is reached."""
READS = {"all columns": None, "two columns": ("d5", "m_i1")}


def in_turns(works: Mapping[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """Return the median seconds of each, after a round that is not counted."""
    rounds = [{name: seconds(work)[0] for name, work in works.items()} for _ in range(runs + 1)]
    return medians(rounds[1:])


def consume(frame: DataFrame) -> None:
    """Have all rows computed, and kept nowhere."""
    frame.write.format("noop").mode("overwrite").save()


class Contest:
    """All ways over one input."""

    def __init__(self, store: carnac.Store, place: Path, work: Path, files: list[Path]) -> None:
        self._store, self._place, self._work = store, place, work
        self._names = 0
        self._session: SparkSession = store.read_spark("seed").sparkSession
        self._rows = self._session.read.parquet(*map(str, files))

    def _new_datasource(self) -> str:
        self._names += 1
        return f"events{self._names}"

    def _ingest(self) -> str:
        name = self._new_datasource()
        self._store.ingest({**SPEC, "dataSource": name}, self._rows)
        return name

    def _format(self, rows: DataFrame) -> str:
        name = self._new_datasource()
        options = {"store": str(self._place), "spec": json.dumps({**SPEC, "dataSource": name})}
        rows.write.format("carnac").options(**options).mode("append").save(name)
        return name

    def _parquet(self) -> None:
        target = self._work / "plain"
        shutil.rmtree(target, ignore_errors=True)
        self._rows.write.option("compression", "zstd").parquet(str(target))

    def writes(self, runs: int) -> dict[str, Any]:
        """Write all rows."""
        found = in_turns(
            {
                "parquet_s": self._parquet,
                "ingest_s": self._ingest,
                "format_s": lambda: self._format(self._rows),
                "format_by_day_s": lambda: self._format(self._by_day()),
            },
            runs,
        )
        segments = {
            "ingest": len(self._store.segments(self._ingest())),
            "format": len(self._store.segments(self._format(self._rows))),
            "format_by_day": len(self._store.segments(self._format(self._by_day()))),
        }
        return {
            **found,
            "segments": segments,
            "format_to_ingest": ratio(found["format_s"], found["ingest_s"]),
            "format_by_day_to_ingest": ratio(found["format_by_day_s"], found["ingest_s"]),
            "format_to_parquet": ratio(found["format_s"], found["parquet_s"]),
        }

    def _by_day(self) -> DataFrame:
        from pyspark.sql import functions as fn

        return self._rows.repartitionByRange(FILES, fn.to_date("__time"))

    def reads(self, runs: int) -> dict[str, Any]:
        """Read all rows of what `ingest` has written, and of Spark's own files."""
        name = self._ingest()
        carnacs = self._store.read_spark(name)
        plain = self._session.read.parquet(str(self._work / "plain"))
        if carnacs.count() != plain.count():
            raise SystemExit("the two hold different rows")
        return {case: self._read(name, columns, runs) for case, columns in READS.items()}

    def _read(self, name: str, columns: tuple[str, ...] | None, runs: int) -> dict[str, float]:
        def chosen(frame: DataFrame) -> DataFrame:
            return frame if columns is None else frame.select(*columns)

        def by_format(**options: str) -> DataFrame:
            reader = self._session.read.format("carnac").option("store", str(self._place))
            return reader.options(**options).load(name)

        works: dict[str, Callable[[], object]] = {
            "parquet_s": lambda: consume(
                chosen(self._session.read.parquet(str(self._work / "plain")))
            ),
            "read_spark_s": lambda: consume(chosen(self._store.read_spark(name))),
            "format_s": lambda: consume(chosen(by_format())),
        }
        if columns is not None:
            works["format_columns_s"] = lambda: consume(by_format(columns=",".join(columns)))
        found = in_turns(works, runs)
        found["format_to_read_spark"] = ratio(found["format_s"], found["read_spark_s"])
        if columns is not None:
            found["format_columns_to_read_spark"] = ratio(
                found["format_columns_s"], found["read_spark_s"]
            )
        return found


def main() -> None:
    """Measure and write `results/format.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=500_000, help="events, over 30 days")
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        files = write_files(work / "input", rows=arguments.rows, files=FILES)
        place = work / "store"
        with carnac.open(place, create=True, spark_master="local[2]", is_for_users=True) as store:
            store.append("seed", SEED)
            contest = Contest(store, place, work, files)
            figures = {
                "rows": arguments.rows,
                "runs": arguments.runs,
                "writes": contest.writes(arguments.runs),
                "reads": contest.reads(arguments.runs),
            }
    write_results(
        "format",
        figures,
        packages=["duckdb", "pyarrow", "pyspark"],
        note="Other work ran on the machine at the same time: ratios say more than seconds.",
    )


if __name__ == "__main__":
    main()
