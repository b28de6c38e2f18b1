"""Spark's daemon of Python workers, with what tasks need imported before workers are forked from it.

Spark ends workers that were idle for a minute, and imports take a worker longer than many a task. Used where all tasks
run on this machine (`spark.python.daemon.module`): elsewhere our package reaches executors later than their daemon
starts.
"""

from __future__ import annotations

import duckdb  # noqa: F401
import fsspec  # noqa: F401
import pyarrow.dataset
import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import carnac.jobs.compact.job
import carnac.jobs.delete.delete
import carnac.jobs.delete.job
import carnac.jobs.ingest.read_pass
import carnac.jobs.ingest.write_pass  # noqa: F401

if __name__ == "__main__":
    manager()
