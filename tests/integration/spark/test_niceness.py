"""How much the processes of a local Spark give way to others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from carnac.bootstrap.spark import giving_way
from carnac.config import NICENESS, Settings

PROGRAM = """
import os
from carnac.bootstrap.spark import make_spark
from carnac.config import Settings

holder = make_spark(Settings(spark_master="local[1]", spark_niceness={niceness}))
context = holder.session().sparkContext
[worker] = context.parallelize([0], 1).map(lambda _: os.nice(0)).collect()
print(os.nice(0), os.getpriority(os.PRIO_PROCESS, context._gateway.proc.pid), worker)
holder.close()
"""


def test_java_and_python_workers_give_way_and_who_started_them_does_not(tmp_path: Path) -> None:
    settings = giving_way(Settings())
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(niceness=settings.spark_niceness)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    own = os.nice(0)
    less = min(own + NICENESS, 19)
    assert [int(word) for word in ended.stdout.split()] == [own, less, less]


@pytest.mark.parametrize(("said", "found"), [(None, NICENESS), (0, 0), (19, 19)])
def test_what_the_settings_say_holds_also_where_nobody_waits(said: int | None, found: int) -> None:
    assert giving_way(Settings(spark_niceness=said)).spark_niceness == found
