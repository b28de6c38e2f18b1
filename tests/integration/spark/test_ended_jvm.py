"""A JVM that ended, by itself, while Spark started or as a statement went on, is replaced by the next statement."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import threading
from pathlib import Path

from pyspark import SparkContext

from carnac.ports.answers import ANYBODY
from carnac.errors import Cancelled, TimedOut, Unavailable
from carnac.ports.answers import Engine, Statement
from carnac.spark import session
from tests.support.merging import fill
from tests.support.served import ServedStore

session.CANCELLED_LOOKS = 5  # it computes on until then
# takes days, and never looks whether it should end
ALL_WITH_ALL = (
    "SELECT count(*) FROM events a, events b, events c, events d, events e, events f "
    "WHERE a.x + b.x + c.x + d.x + e.x + f.x > 1e9"
)
served = ServedStore(Path("served"), 1)
fill(served.store)
served.assign_all()
queries = served.open_broker(spark_master="local[1]").queries


def run(sql, query_id, **options):
    asked = Statement(client=ANYBODY, sql=sql, query_id=query_id, engine=Engine.SPARK, **options)
    return [row for batch in queries.run(asked).batches() for row in batch.to_pylist()]


begin = SparkContext._do_init


def die_and_begin(*args):
    SparkContext._do_init = begin
    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()
    begin(*args)


SparkContext._do_init = die_and_begin
try:
    run("SELECT count(*) > 0 AS n FROM events", "dead")
except Unavailable:
    print("dead")
print(run("SELECT count(*) > 0 AS n FROM events", "first"))
analysis = SparkContext._jvm.org.apache.spark.sql.catalyst.analysis
registry = getattr(getattr(analysis, "FunctionRegistry$"), "MODULE$").internal()
name = SparkContext._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
print(registry.functionExists(name("vector_to_array")))
SparkContext._gateway.proc.kill()
print(run("SELECT count(*) > 0 AS n FROM events", "second"))
threading.Timer(2, lambda: queries.cancel("gone")).start()
try:
    run(ALL_WITH_ALL, "gone")
except Cancelled:
    print("cancelled")
print(run("SELECT count(*) > 0 AS n FROM events", "third"))
try:
    run(ALL_WITH_ALL, "late", timeout_ms=2_000)
except TimedOut as error:
    print("on Spark" in error.message)
served.close()
"""


@pytest.mark.nightly("starts Spark for itself, again and again")
@pytest.mark.spark
@pytest.mark.slow
def test_another_jvm_is_started_and_a_statement_that_is_stopped_keeps_no_core(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    answer = "[{'n': True}]"
    assert done.stdout.splitlines() == [
        *("dead", answer, "False", answer, "cancelled", answer, "True")
    ]
