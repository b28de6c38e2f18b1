"""Export: 2.6 million rows of a store to files, against DuckDB's own COPY of the same segment files.

    python -m benchmarks.bench_export [--rows 2600000]

Ratios inside one run: the two write in turn, and medians are compared. DuckDB writes what it likes best; Carnac writes
times as ISO 8601 with a zone, beside the file's place, synced, then renamed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.bench_sql import fill
from benchmarks.support.harness import RUNS, ratio, seconds, write_results
from carnac.deep_storage.local import LocalDeepStorage
from carnac.query import QueryEngine

OPTIONS = {
    "csv": "FORMAT csv",
    "jsonl": "FORMAT json",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}


def compare(root: Path, rows: int) -> dict[str, Any]:
    """Write all rows in each form, by both, in turn."""
    storage = LocalDeepStorage(root)
    catalog = fill(storage, root, rows)
    files = [str(storage.local_path(item.segment.path)) for item in catalog.visible("clicks", None)]
    engine = QueryEngine(storage, threads=2)
    plain = duckdb.connect(config={"threads": 2})
    plain.execute("SET TimeZone = 'UTC'; SET parquet_metadata_cache = true")
    figures: dict[str, Any] = {}
    for form, options in OPTIONS.items():
        target = root / f"rows.{form}"

        def ours(form: str = form, target: Path = target) -> None:
            with target.open("wb") as file:
                engine.export_query("SELECT * FROM clicks", catalog, file, form=form)

        def theirs(options: str = options, target: Path = target) -> None:
            plain.execute(f"COPY (SELECT * FROM read_parquet({files!r})) TO '{target}' ({options})")

        mine, duckdbs = [], []
        for run in range(RUNS + 1):
            their_s, _ = seconds(theirs)
            our_s, _ = seconds(ours)
            if run:
                duckdbs.append(their_s)
                mine.append(our_s)
        figures[form] = {
            "carnac_s": round(statistics.median(mine), 2),
            "duckdb_s": round(statistics.median(duckdbs), 2),
            "ratio": ratio(statistics.median(mine), statistics.median(duckdbs)),
            "ratio_of_best_runs": ratio(min(mine), min(duckdbs)),
        }
    return figures


def main() -> None:
    """Measure and write `results/export.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_600_000, help="events, over 30 days")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = {"rows": arguments.rows, "forms": compare(Path(folder), arguments.rows)}
    write_results("export", figures, packages=["duckdb", "pyarrow"])


if __name__ == "__main__":
    main()
