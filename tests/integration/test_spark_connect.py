"""Spark Connect: a real server, which this machine runs, and clients in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli import Ran
from tests.support.spark_connect import ConnectServer, run_connect_server

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLIENT = Path(__file__).with_name("connect_client.py")
ROWS, DAYS = 3_000, 3
UNAVAILABLE = 4
"""Exit code."""
SPEC = """\
dataSource: edits
timestampSpec: {column: timestamp}
dimensions: [page, {name: n, type: long}]
granularity: {segmentGranularity: day}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ConnectServer]:
    with run_connect_server() as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with input, a spec and an empty store."""
    for file in range(3):
        with (tmp_path / f"{file}.json").open("w") as lines:
            for n in range(file, ROWS, 3):
                time = f"2026-01-0{1 + n % DAYS}T{n % 24:02d}:00:00Z"
                lines.write(json.dumps({"timestamp": time, "page": f"p{n % 7}", "n": n}) + "\n")
    (tmp_path / "spec.yaml").write_text(SPEC)
    return tmp_path


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "carnac", *args, "--store", "store"]


def environ(url: str) -> dict[str, str]:
    return {**os.environ, "CARNAC_SPARK_REMOTE": url}


def run(url: str, place: Path, *args: str) -> Ran:
    done = subprocess.run(
        command(*args),
        cwd=place,
        env=environ(url),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.nightly("starts a server of Spark, and a dozen commands")
def test_commands_run_their_jobs_at_a_server(server: ConnectServer, place: Path) -> None:
    assert run(server.url, place, "init").code == 0
    ingested = run(server.url, place, "ingest", "spec.yaml", "0.json", "1.json", "2.json")
    assert ingested.code == 0, ingested.err
    assert f"{ROWS:,}" in ingested.out
    deleted = run(server.url, place, "delete", "edits", "--where", "page = 'p3'", "--json")
    gone = len([n for n in range(ROWS) if n % 7 == 3])
    assert deleted.json["rows_deleted"] == gone, deleted.err
    found = run(server.url, place, "sql", "SELECT count(*) AS n, sum(n) AS s FROM edits", "--json")
    kept = [n for n in range(ROWS) if n % 7 != 3]
    assert found.json["rows"] == [{"n": len(kept), "s": sum(kept)}]
    assert run(server.url, place, "verify").code == 0
    looked = run(server.url, place, "doctor", "--json").json
    (spark,) = (one for one in looked["checks"] if one["name"] == "spark")
    assert (spark["state"], server.url in spark["detail"]) == ("ok", True)


@pytest.mark.nightly("runs a dozen jobs at the server")
def test_a_program_uses_the_session_that_it_has(server: ConnectServer, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(CLIENT), str(tmp_path / "store"), server.url],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["deleted"] == 42
    assert set(report["groups"]) == {"committed"}
    assert "pagee" in report["wrong"]
    assert "1 row was rejected" in report["bad"]
    expected = {**{f"p{n}": 40 for n in range(4)}, **{f"P{n}": 2 for n in range(4)}}
    assert report["pages"] == expected
    assert report["sql"] == expected
    sums = [2 * sum(n for n in range(100) if n % 5 == page) for page in (1, 2)]
    rows = [{"page": "*ne", "n": sums[0]}, {"page": "tw*", "n": sums[1]}]
    assert report["loaded"] == [170, rows], "a statement reads the datasource and the text"
    assert report["is_theirs"]


@pytest.mark.nightly("waits for a server that is killed while a job runs")
def test_a_server_that_is_killed_ends_the_job_and_publishes_nothing(
    server: ConnectServer, place: Path
) -> None:
    """The last of these tests: the server is gone after it."""
    run(server.url, place, "init")
    with subprocess.Popen(
        command("ingest", "spec.yaml", "0.json", "1.json", "2.json"),
        cwd=place,
        env=environ(server.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        assert job.stderr is not None
        assert any("read: 0/3" in line for line in job.stderr)
        os.killpg(server.process.pid, signal.SIGKILL)
        _, err = job.communicate(timeout=240)
    assert job.returncode == UNAVAILABLE, err
    assert err.splitlines()[-1].startswith("error: Spark has stopped while the job ran")
    assert "Traceback" not in err
    assert "Warning" not in err
    assert run(server.url, place, "datasources", "--json").json == {"datasources": []}
    refused = run(server.url, place, "ingest", "spec.yaml", "0.json")
    assert refused.code == UNAVAILABLE
    assert "does not answer: Connection refused" in refused.err
    assert "Spark Connect" in run(server.url, place, "doctor").out
