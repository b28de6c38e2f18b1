"""Kafka, an overlord and its tasks as real processes that are killed at any moment: each message is there once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from carnac import Store
from carnac.bootstrap.store import open_store
from carnac.bootstrap.tasks import open_supervisors, open_tasks
from carnac.config import Settings
from carnac.core.tasks.model import TaskState
from carnac.errors import NotFound
from carnac.overlord.runners.identity import parse_handle
from carnac.overlord.supervisors.service import SupervisorService
from carnac.ports.tasks import TaskFilter
from tests.support.kafka import TOPIC, Broker, spec_for
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.http]


class Cluster:
    """A store, a broker, and an overlord that can be killed."""

    def __init__(self, folder: Path, steps: ExitStack) -> None:
        self.settings = Settings(
            store=str(folder / "store"), lease_ttl_ms=3_000, overlord_period_ms=100
        )
        self.store: Store = steps.enter_context(open_store(create=True, settings=self.settings))
        self.broker = Broker()
        self.tasks = steps.enter_context(open_tasks(settings=self.settings))
        self.supervisors: SupervisorService = steps.enter_context(open_supervisors(self.settings))
        self.written = 0
        self._folder = folder
        self._overlord: subprocess.Popen[bytes] | None = None
        steps.callback(self.end)

    def start(self) -> None:
        environ = {
            **os.environ,
            "CARNAC_STORE": str(self._folder / "store"),
            "CARNAC_LEASE_TTL_MS": "3000",
            "CARNAC_OVERLORD_PERIOD_MS": "100",
        }
        with (self._folder / "overlord.log").open("ab") as log:
            self._overlord = subprocess.Popen(
                [sys.executable, "-m", "carnac", "overlord", "--port", "0"],
                env=environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_overlord(self) -> None:
        assert self._overlord is not None
        self._overlord.kill()
        self._overlord.wait()

    def kill_tasks(self) -> int:
        """Kill the processes of attempts that run; return how many."""
        killed = 0
        for attempt in self.tasks.live_attempts():
            found = None if attempt.handle is None else parse_handle(attempt.handle)
            if found is not None:
                with suppress(ProcessLookupError):
                    os.killpg(found.pid, signal.SIGKILL)
                    killed += 1
        return killed

    def end(self) -> None:
        self.kill_overlord()
        self.kill_tasks()

    def write(self, count: int) -> None:
        self.broker.write_ids(range(self.written, self.written + count))
        self.written += count

    def ids(self) -> list[int]:
        try:
            return [one["id"] for one in self.store.sql(f"SELECT id FROM {TOPIC}").rows()]
        except NotFound:
            return []

    def wait_for_all(self) -> None:
        until(lambda: len(self.ids()) >= self.written, f"{self.written} rows")
        assert sorted(self.ids()) == list(range(self.written))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as steps:
        made = Cluster(tmp_path, steps)
        made.start()
        yield made


def live(cluster: Cluster) -> int:
    which = TaskFilter(states=(TaskState.RUNNING,), type="index_kafka")
    return len(cluster.tasks.list(which))


def kill_at_random(cluster: Cluster, rng: random.Random, until_s: float) -> int:
    """Write messages and kill, by turns, until then; return how often something was killed."""
    killed = 0
    end = time.monotonic() + until_s
    while time.monotonic() < end:
        cluster.write(rng.randrange(1, 200))
        rest = time.monotonic() + rng.uniform(0.5, 4.0)
        until(lambda rest=rest: time.monotonic() > rest, "time go by")
        if rng.random() < 0.3:
            cluster.kill_overlord()
            if rng.random() < 0.5:
                killed += cluster.kill_tasks()
            cluster.start()
            killed += 1
        else:
            killed += cluster.kill_tasks()
    return killed


def check_kills(cluster: Cluster, *, seed: int, seconds: float) -> None:
    io = {"taskDuration": "PT8S", "taskCount": 2}
    cluster.supervisors.submit_spec(spec_for(cluster.broker.address, io=io))
    cluster.write(100)
    cluster.wait_for_all()
    assert kill_at_random(cluster, random.Random(seed), seconds) > 0
    cluster.wait_for_all()
    assert cluster.store.check() == ()


def test_a_supervisor_has_its_stream_read_suspended_resumed_and_reset(cluster: Cluster) -> None:
    cluster.supervisors.submit_spec(spec_for(cluster.broker.address))
    cluster.write(50)
    cluster.wait_for_all()
    status = until(
        lambda: (
            (found := cluster.supervisors.status(TOPIC)["payload"])["aggregateLag"] == 0 and found
        ),
        "no lag",
    )
    assert (status["state"], status["healthy"], status["partitions"]) == ("RUNNING", True, 4)
    assert sum(status["currentOffsets"].values()) == 50
    cluster.supervisors.suspend(TOPIC)
    until(lambda: live(cluster) == 0, "the task end")
    cluster.write(10)
    assert len(cluster.ids()) == 50
    cluster.supervisors.resume(TOPIC)
    cluster.wait_for_all()
    cluster.supervisors.reset(TOPIC)
    until(lambda: len(cluster.ids()) == 2 * cluster.written, "all rows again")
    cluster.supervisors.terminate(TOPIC)
    until(lambda: live(cluster) == 0, "the task end")
    log = json.dumps([one.message for one in cluster.store.log()])
    assert f"reset of supervisor {TOPIC}" in log


def test_each_message_is_there_once_though_tasks_and_overlords_are_killed(cluster: Cluster) -> None:
    check_kills(cluster, seed=1, seconds=8)


@pytest.mark.nightly("kills processes for some minutes")
@pytest.mark.parametrize("seed", range(2, 5))
def test_each_message_is_there_once_after_many_kills(cluster: Cluster, seed: int) -> None:
    check_kills(cluster, seed=seed, seconds=120)
