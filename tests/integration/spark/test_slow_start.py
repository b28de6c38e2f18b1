"""What a program is told while Spark starts: one line on standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from carnac.spark.startup import STARTING
from tests.class_archive import CACHES, with_archive

PROGRAM = """
import carnac
from carnac.spark import startup

startup.SLOW_S = 0.0
with carnac.open("store", create=True, spark_master="local[1]") as store:
    store.append("edits", [{"time": "2024-03-04T09:00:00Z", "page": "Menhir"}])
    print(store.read_spark("edits").count())
    print(store.read_spark("edits").count())
"""
"""However fast this machine starts Spark, it is told of: at once."""


@pytest.mark.spark
def test_a_program_is_told_that_spark_starts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, CACHES: str(with_archive(tmp_path / "cache"))},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert done.stdout.split() == ["1", "1"]
    told = [line for line in done.stderr.splitlines() if line.startswith("carnac: ")]
    assert told == [f"carnac: {STARTING}"]
