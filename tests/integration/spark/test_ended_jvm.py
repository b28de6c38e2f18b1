"""A JVM that ended by itself, or that was ended as a statement went on in it, is replaced by the next statement."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
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

STOPPED = """
import threading
from pathlib import Path

from carnac.errors import Cancelled, TimedOut
from carnac.ports.answers import Engine, Statement
from tests.support.merging import fill
from tests.support.served import ServedStore

# takes days, and never looks whether it should end
ALL_WITH_ALL = (
    "SELECT count(*) FROM events a, events b, events c, events d, events e, events f "
    "WHERE a.x + b.x + c.x + d.x + e.x + f.x > 1e9"
)
served = ServedStore(Path("served"), 1)
fill(served.store)
served.assign_all()
queries = served.open_broker().queries


def run(sql, query_id, **options):
    asked = Statement(sql=sql, query_id=query_id, engine=Engine.SPARK, **options)
    return [row for batch in queries.run(asked).batches() for row in batch.to_pylist()]


print(run("SELECT count(*) > 0 AS n FROM events", "first"))
threading.Timer(2, lambda: queries.cancel("gone")).start()
try:
    run(ALL_WITH_ALL, "gone")
except Cancelled:
    print("cancelled")
print(run("SELECT count(*) > 0 AS n FROM events", "second"))
try:
    run(ALL_WITH_ALL, "late", timeout_ms=2_000)
except TimedOut as error:
    print("on Spark" in error.message)
served.close()
"""


def run(program: str, folder: Path) -> list[str]:
    """Return what a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.spark
@pytest.mark.slow
def test_another_jvm_is_started(tmp_path: Path) -> None:
    assert run(PROGRAM, tmp_path) == ["[{'n': 1}]"] * 3


@pytest.mark.spark
@pytest.mark.slow
def test_a_statement_that_is_stopped_keeps_no_core(tmp_path: Path) -> None:
    answer = "[{'n': True}]"
    assert run(STOPPED, tmp_path) == [answer, "cancelled", answer, "True"]
