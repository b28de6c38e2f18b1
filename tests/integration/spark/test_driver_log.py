"""The log of a Spark driver: gone when its process ends well, there when a failure has named it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.class_archive import CACHES, with_archive

PROGRAM = """
from carnac.errors import Unavailable
from carnac.spark.session import SparkHolder, SparkSettings

holder = SparkHolder(SparkSettings(master="local[1]", config={config!r}))
try:
    holder.session().range(1).count()
    assert holder.log_path.exists()
except Unavailable as error:
    print(error.message)
holder.close()
"""


TOLD_TO_END = """
import os, signal
from carnac.spark.failures import of_spark
from carnac.spark.session import SparkHolder, SparkSettings

holder = SparkHolder(SparkSettings(master="local[1]"))
context = holder.session().sparkContext
os.kill(context._gateway.proc.pid, signal.{signal})
context._gateway.proc.wait(60)
try:
    context.parallelize([1]).count()
except Exception as error:
    print(of_spark(error, holder.keep_log).message)
"""


def run_driver(folder: Path, config: dict[str, str]) -> str:
    """Run a driver whose caches are in the folder; return what it says."""
    return run_program(folder, PROGRAM.format(config=config))


def run_program(folder: Path, program: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(folder), CACHES: str(with_archive(folder))},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return ended.stdout


def logs(folder: Path) -> list[str]:
    left = {path.name for path in folder.iterdir()} - {"carnac"}
    assert left == set(), "nothing stays among temporary files"
    return [str(path) for path in folder.glob("carnac/logs/spark-*.log")]


def test_a_driver_that_ends_well_leaves_no_log(tmp_path: Path) -> None:
    assert run_driver(tmp_path, {}) == ""
    assert logs(tmp_path) == []


def test_a_log_that_a_failure_names_stays(tmp_path: Path) -> None:
    said = run_driver(tmp_path, {"spark.driver.memory": "much"})
    (log,) = logs(tmp_path)
    assert said.strip().endswith(f"its log is {log}")
    assert "much" in Path(log).read_text(encoding="utf-8")


@pytest.mark.parametrize(("signal", "stays"), [("SIGTERM", False), ("SIGKILL", True)])
def test_the_log_of_a_jvm_that_was_told_to_end_goes_with_it(
    signal: str, stays: bool, tmp_path: Path
) -> None:
    said = run_program(tmp_path, TOLD_TO_END.format(signal=signal))
    assert said.startswith("Spark has stopped while the job ran; its log is ")
    assert bool(logs(tmp_path)) is stays
