"""A driver program for tests on a cluster: `python cluster_driver.py STORE INPUT`. Prints one JSON document."""

from __future__ import annotations

import json
import os
import sys

import carnac
from carnac.bootstrap.store import open_store
from carnac.clock import SystemClock
from carnac.spark.progress import Phase
from carnac.spark.session import SparkHolder, SparkSettings
from carnac.spark.tasks import Attempt, run_tasks


def where_am_i(task: int, attempt: Attempt) -> tuple[str, str]:
    """Return the working folder of the executor, and the file that carnac was imported from there."""
    return os.getcwd(), str(carnac.__file__)  # noqa: PTH109 - runs on a worker


def main(place: str, source: str) -> None:
    with open_store(place, create=True) as store:
        spec = {
            "dataSource": "events",
            "input": source,
            "dimensions": ["d", {"name": "n", "type": "long"}],
            "granularity": {"segmentGranularity": "day"},
        }
        ingested = store.ingest(spec)
        deleted = store.delete("events", where="n < 100")
        holder = SparkHolder(SparkSettings(master=store.settings.spark_master))
        seen = run_tasks(
            holder,
            where_am_i,
            list(range(8)),
            phase=Phase(name="look", total=8),
            clock=SystemClock(),
        )
    report = {
        "rows": ingested.report.rows_written,
        "deleted": deleted.rows_deleted,
        "seen": sorted(set(seen)),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
