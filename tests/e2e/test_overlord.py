"""`carnac overlord` as a process: tasks over HTTP, attempts that outlive it, a clean end, and a takeover."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from carnac.api.client import OverlordClient
from carnac.bootstrap.store import open_store
from carnac.clock import SystemClock
from carnac.core.tasks.model import TaskState
from carnac.overlord.runners.identity import Presence, parse_handle, presence_of
from tests.e2e.cli import DAYS, ROWS, run_process
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.http]

LEASE_MS = 4_000
DELETE = {"type": "delete", "dataSource": "flights", "interval": "2013-01-02/P1D"}


class RunningOverlord:
    """A process, and what it logs."""

    def __init__(self, store: Path, *args: str, **environ: str) -> None:
        self.lines: list[str] = []
        self._is_told = threading.Event()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "carnac",
                "overlord",
                "--store",
                str(store),
                "--port",
                "0",
                *args,
            ],
            env={
                **os.environ,
                "CARNAC_LEASE_TTL_MS": str(LEASE_MS),
                "CARNAC_OVERLORD_PERIOD_MS": "50",
                **environ,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append(line)
            if "listening at" in line:
                self._is_told.set()
        self._is_told.set()

    @property
    def url(self) -> str:
        """Where it listens; waits until it does."""
        assert self._is_told.wait(120), "it does not start"
        found = re.search(r"listening at (http://[\d.:]+)", "".join(self.lines))
        assert found is not None, self.lines
        return found[1]

    def client(self) -> OverlordClient:
        """A client of it."""
        return OverlordClient(self.url, SystemClock())

    def end(self, number: signal.Signals) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self._reader.join(60)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


Start = Callable[..., RunningOverlord]


@pytest.fixture
def start(store: Path) -> Iterator[Start]:
    """Start overlords of one store; all are ended at the end."""
    started: list[RunningOverlord] = []

    def begin(*args: str, **environ: str) -> RunningOverlord:
        started.append(RunningOverlord(store, *args, **environ))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


def rows_in(store: Path) -> int:
    with open_store(store) as opened:
        return int(opened.sql("SELECT count(*) AS n FROM flights").rows()[0]["n"])


def test_a_task_over_http_from_end_to_end(start: Start, store: Path, tmp_path: Path) -> None:
    overlord = start("--json")
    with overlord.client() as client:
        task = client.submit({**DELETE, "id": "d"})
        assert task.task_id == "d"
        done = client.wait("d", timeout_ms=120_000)
        assert (done.state, done.error) == (TaskState.SUCCEEDED, None)
        assert rows_in(store) == ROWS - len(DAYS[1])
        attempt = client.attempts("d")[0]
        handle = parse_handle(attempt.handle or "")
        assert handle is not None
        assert handle.pid != overlord.process.pid, "it was a process of its own"
        assert "task d succeeded" in (client.log("d") or "")
        until(lambda: presence_of(handle) is Presence.GONE, "its process gone, not as a zombie")
        assert client.report("d") is not None
    elsewhere = ["task", "show", "d", "--json", "--overlord", overlord.url]
    shown = run_process(elsewhere, cwd=tmp_path).json
    assert (shown["state"], shown["payload"]["interval"]) == ("succeeded", "2013-01-02/P1D")
    other = run_process(
        ["overlord", "--store", str(store), "--port", overlord.url.rpartition(":")[2]], cwd=tmp_path
    )
    assert (other.code, "choose another --port" in other.err) == (4, True)
    assert overlord.end(signal.SIGTERM) == 0
    logged = [json.loads(line) for line in overlord.lines]
    assert logged[-1]["message"] == "stopped"
    assert {"time", "level", "logger", "message"} == set(logged[0])


@pytest.mark.slow
def test_another_overlord_takes_over_within_a_lease_and_the_work_goes_on(
    start: Start, store: Path
) -> None:
    first = start()
    assert first.url
    second = start()
    with second.client() as client:
        assert httpx.get(f"{second.url}/druid/indexer/v1/isLeader").status_code == 404
        assert httpx.get(f"{second.url}/druid/indexer/v1/leader").text == first.url
        client.submit({**DELETE, "id": "a"})
        assert client.wait("a", timeout_ms=120_000).state is TaskState.SUCCEEDED
        first.end(signal.SIGKILL)
        client.submit({**DELETE, "id": "b", "interval": "2013-01-01/P1D"})
        assert client.wait("b", timeout_ms=120_000).state is TaskState.SUCCEEDED
        assert rows_in(store) == len(DAYS[2])
    assert httpx.get(f"{second.url}/druid/indexer/v1/isLeader").json() == {"leader": True}
    assert second.end(signal.SIGINT) == 0


def test_mistakes_are_one_sentence(store: Path, tmp_path: Path) -> None:
    for args, code, words in (
        (["--runner", "magic"], 2, "there is no runner 'magic'"),
        (["--host", "no.such.host.invalid"], 4, "cannot listen at no.such.host.invalid"),
    ):
        done = run_process(["overlord", "--store", str(store), *args], cwd=tmp_path)
        assert (done.code, done.err.count("\n")) == (code, 1), done.err
        assert words in done.err
    done = run_process(["overlord", "--port", "0"], cwd=tmp_path)
    assert done.code == 5
    assert "there is no store" in done.err
