"""The log of a Spark driver: gone when its process ends well, there when a failure has named it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
from carnac.errors import Unavailable
from carnac.pipeline.session import SparkHolder, SparkSettings

holder = SparkHolder(SparkSettings(master="local[1]", config={config!r}))
try:
    holder.session().range(1).count()
    assert holder.log_path.exists()
except Unavailable as error:
    print(error.message)
holder.close()
"""


def run_driver(folder: Path, config: dict[str, str]) -> str:
    """Run a driver whose temporary directory is the folder; return what it says."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(config=config)],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return ended.stdout


def logs(folder: Path) -> list[str]:
    return [str(path) for path in folder.glob("carnac-spark-*.log")]


def test_a_driver_that_ends_well_leaves_no_log(tmp_path: Path) -> None:
    assert run_driver(tmp_path, {}) == ""
    assert logs(tmp_path) == []


def test_a_log_that_a_failure_names_stays(tmp_path: Path) -> None:
    said = run_driver(tmp_path, {"spark.driver.memory": "much"})
    (log,) = logs(tmp_path)
    assert said.strip().endswith(f"its log is {log}")
    assert "much" in Path(log).read_text(encoding="utf-8")
