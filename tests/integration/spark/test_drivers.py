"""A Spark driver of a program: told of when it starts, less urgent than others, its log there if a failure names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from carnac.bootstrap.spark import giving_way
from carnac.config import NICENESS, Settings
from carnac.spark.startup import STARTING
from tests.class_archive import CACHES, with_archive

REFUSED = """
from carnac.errors import Unavailable
from carnac.spark.session import SparkHolder, SparkSettings

try:
    SparkHolder(SparkSettings(config={"spark.driver.memory": "much"})).session()
except Unavailable as error:
    print(error.message)
"""


WELL = """
import os
from pathlib import Path

import carnac
from carnac.spark import startup

startup.SLOW_S = 0.0
with carnac.open("store", create=True, spark_master="local[1]", spark_niceness=NICENESS) as store:
    store.append("edits", [{"time": "2024-03-04T09:00:00Z", "page": "Menhir"}])
    context = store.read_spark("edits").sparkSession.sparkContext
    [worker] = context.parallelize([0], 1).map(lambda _: os.nice(0)).collect()
    java = os.getpriority(os.PRIO_PROCESS, context._gateway.proc.pid)
    analysis = context._jvm.org.apache.spark.sql.catalyst.analysis
    registry = getattr(getattr(analysis, "FunctionRegistry$"), "MODULE$").internal()
    name = context._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier("vector_to_array")
    assert registry.functionExists(name), "a program may go on with Spark's machine learning"
    logs = [*Path(os.environ["XDG_CACHE_HOME"]).glob("carnac/logs/spark-*.log")]
    print(store.read_spark("edits").count(), len(logs), os.nice(0), java, worker)
"""
"""However fast this machine starts Spark, it is told of: at once."""


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


def run_program(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a driver whose caches and temporary files are in the folder."""
    folder.mkdir()
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder.parent,
        env={**os.environ, "TMPDIR": str(folder), CACHES: str(with_archive(folder))},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def logs(folder: Path) -> list[str]:
    left = {path.name for path in folder.iterdir()} - {"carnac"}
    assert left == set(), "nothing stays among temporary files"
    return [str(path) for path in folder.glob("carnac/logs/spark-*.log")]


@pytest.mark.nightly("starts Spark once more")
def test_a_driver_is_told_of_gives_way_and_leaves_no_log_when_it_ends_well(tmp_path: Path) -> None:
    niceness = giving_way(Settings()).spark_niceness
    done = run_program(tmp_path / "files", WELL.replace("NICENESS", str(niceness)))
    own = os.nice(0)
    less = min(own + NICENESS, 19)
    assert [int(word) for word in done.stdout.split()] == [1, 1, own, less, less]
    told = [line for line in done.stderr.splitlines() if line.startswith("carnac: ")]
    assert told == [f"carnac: {STARTING}"], "once, though it is asked twice"
    assert logs(tmp_path / "files") == []


@pytest.mark.parametrize(("said", "found"), [(None, NICENESS), (0, 0), (19, 19)])
def test_what_the_settings_say_holds_also_where_nobody_waits(said: int | None, found: int) -> None:
    assert giving_way(Settings(spark_niceness=said)).spark_niceness == found


def test_a_log_that_a_failure_names_stays(tmp_path: Path) -> None:
    said = run_program(tmp_path / "files", REFUSED).stdout
    (log,) = logs(tmp_path / "files")
    assert said.strip().endswith(f"its log is {log}")
    assert "much" in Path(log).read_text(encoding="utf-8")


@pytest.mark.nightly("starts Spark once more for each signal")
@pytest.mark.parametrize(("signal", "stays"), [("SIGTERM", False), ("SIGKILL", True)])
def test_the_log_of_a_jvm_that_was_told_to_end_goes_with_it(
    signal: str, stays: bool, tmp_path: Path
) -> None:
    said = run_program(tmp_path / "files", TOLD_TO_END.format(signal=signal)).stdout
    assert said.startswith("Spark has stopped while the job ran; its log is ")
    assert bool(logs(tmp_path / "files")) is stays
