"""On a real standalone cluster, a master and two workers: executors have our code, both workers work, one may die.

One cluster serves all tests here. Drivers are processes of their own: in this one there may be a local Spark.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac.bootstrap.serving.process import open_process
from carnac.bootstrap.store import open_store
from carnac.bootstrap.tasks import open_tasks
from carnac.config import Settings
from carnac.core.tasks.model import Task, TaskState
from carnac.ports.serving import Role
from tests.support.spark_cluster import SHORT_LIVED, SparkCluster, run_spark_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES, ROWS_PER_FILE, DAYS = 6, 2_000, 3
DRIVER = Path(__file__).with_name("cluster_driver.py")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with run_spark_cluster(workers=2, cores=1, memory="1g") as running:
        yield running


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of three days in six files; `n` counts them."""
    folder = tmp_path_factory.mktemp("source")
    for index in range(FILES):
        with (folder / f"{index}.json").open("w") as file:
            for row in range(ROWS_PER_FILE):
                number = index * ROWS_PER_FILE + row
                line = {
                    "timestamp": f"2024-01-0{1 + number % DAYS}T00:00:00Z",
                    "d": "x",
                    "n": number,
                }
                file.write(json.dumps(line) + "\n")
    return folder


def spark_conf(events: Path) -> dict[str, str]:
    """Return settings for one executor of one core on each worker, and a log of what ran where."""
    events.mkdir()
    return {
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }


def environ(cluster: SparkCluster, events: Path) -> dict[str, str]:
    """Return the environment of a driver."""
    return {
        **os.environ,
        "CARNAC_SPARK_MASTER": cluster.master_url,
        "CARNAC_SPARK_CONF": json.dumps(spark_conf(events)),
    }


def tasks_by_stage(events: Path) -> dict[str, Counter[str]]:
    """Return how many tasks each executor finished, by the description of their job."""
    names: dict[int, str] = {}
    found: dict[str, Counter[str]] = {}
    for path in events.iterdir():
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerJobStart":
                for stage in event["Stage IDs"]:
                    names[stage] = event["Properties"].get("spark.job.description", "")
            elif event["Event"] == "SparkListenerTaskEnd":
                name = names[event["Stage ID"]]
                found.setdefault(name, Counter())[event["Task Info"]["Executor ID"]] += 1
    return found


@pytest.mark.nightly("starts a cluster of Spark")
def test_a_job_runs_on_both_workers_with_the_code_of_the_driver(
    cluster: SparkCluster, source: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path / "store"), str(source)],
        env=environ(cluster, events),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    total = FILES * ROWS_PER_FILE
    assert (report["rows"], report["deleted"]) == (total, 100)
    folders = {folder for folder, _ in report["seen"]}
    assert {
        work_dir
        for work_dir in cluster.work_dirs
        if any(Path(folder).is_relative_to(work_dir) for folder in folders)
    } == set(cluster.work_dirs), "tasks ran below the folders of both workers"
    assert all("carnac.zip" in file for _, file in report["seen"]), "executors import what was sent"
    ran = tasks_by_stage(events)
    assert len(ran["read"]) == 2, ran
    assert sum(ran["read"].values()) >= 2
    with open_store(tmp_path / "store") as store:
        rows = store.sql(
            "SELECT count(*) AS c, sum(n) AS s, count(DISTINCT n) AS u FROM events"
        ).rows()
    assert rows == [{"c": total - 100, "s": sum(range(100, total)), "u": total - 100}]


@pytest.mark.nightly("starts a cluster of Spark")
def test_a_task_through_spark_submit_outlives_a_worker(
    cluster: SparkCluster, source: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    settings = Settings(
        store=str(tmp_path / "store"),
        spark_master=cluster.master_url,
        spark_conf=spark_conf(events),
        task_runner="spark_submit",
        overlord_period_ms=50,
    )
    open_store(create=True, settings=settings).close()
    spec = {
        "dataSource": "events",
        "input": str(source),
        "dimensions": [{"name": "n", "type": "long"}],
    }
    overlord = open_process({Role.OVERLORD}, settings=settings, host="127.0.0.1", port=0)
    killed: list[int] = []
    try:
        overlord.start()
        with open_tasks(settings=settings) as tasks:

            def kill_a_worker(_task: Task) -> None:
                if not killed and any(one.progress for one in tasks.attempts("load")):
                    killed.append(cluster.workers[1].pid)
                    os.killpg(killed[0], signal.SIGKILL)  # and the executors that it has started

            tasks.submit({"type": "index_parallel", "id": "load", "spec": spec})
            done = tasks.wait("load", timeout_ms=200_000, on_look=kill_a_worker)
            log = tasks.log("load") or ""
    finally:
        overlord.close()
    assert done.state is TaskState.SUCCEEDED, (done.error, log)
    assert "task load succeeded" in log
    assert killed
    ran = tasks_by_stage(events)
    executors = set().union(*ran.values())
    assert {"read"} <= set(ran), ran
    assert executors
    assert "driver" not in executors
    with open_store(settings=settings) as store:
        rows = store.sql("SELECT count(*) AS c, sum(n) AS s FROM events").rows()
    total = FILES * ROWS_PER_FILE
    assert rows == [{"c": total, "s": sum(range(total))}]
