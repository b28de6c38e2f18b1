"""Spark's daemon of Python workers where only Carnac's own tasks run: as `worker_daemon`, but without pandas."""

from __future__ import annotations

from pyspark.daemon import manager

from carnac.spark.without_pandas import keep_pandas_out

keep_pandas_out()

import carnac.jobs.worker_daemon  # noqa: E402, F401 - Arrow's datasets would import it

if __name__ == "__main__":
    manager()
