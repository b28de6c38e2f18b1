"""A JVM that ends by itself, as for want of memory, is replaced by the next statement."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import carnac
from pyspark import SparkContext

with carnac.open("store", create=True, spark_master="local[1]") as store:
    store.append("edits", [{"time": "2024-03-04T09:00:00Z", "page": "Menhir"}])
    for is_waited_for in (True, False):
        print(store.sql("SELECT count(*) AS n FROM edits", engine="spark").rows())
        jvm = SparkContext._gateway.proc
        jvm.kill()
        if is_waited_for:
            jvm.wait()
    print(store.sql("SELECT count(*) AS n FROM edits", engine="spark").rows())
"""


@pytest.mark.spark
@pytest.mark.slow
def test_another_jvm_is_started(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.stdout.splitlines() == ["[{'n': 1}]"] * 3, done.stderr
