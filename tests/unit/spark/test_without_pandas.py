"""Arrow does not import pandas by itself where only Carnac's own code runs, and still finds it where it is asked to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys

import carnac.jobs.own_worker_daemon
import numpy as np
import pyarrow as pa

from carnac.spark.without_pandas import keep_pandas_out

array = pa.array(np.arange(3))
print({"duckdb", "fsspec", "pyspark.worker"} <= sys.modules.keys(), "pandas" in sys.modules)
frame = pa.table({"n": array}).to_pandas()
print("pandas" in sys.modules, list(frame["n"]))
keep_pandas_out()
print(pa.array(frame["n"]).to_pylist())
"""


def test_arrow_imports_pandas_when_it_is_asked_for_a_data_frame() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["True False", "True [0, 1, 2]", "[0, 1, 2]"]
