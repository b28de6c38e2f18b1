"""An interruption at any moment tells the truth: what is said, and the exit code, agree with the log."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_store
from tests.e2e.cli import append_rows, run_process
from tests.nightly import IS_NIGHTLY

pytestmark = pytest.mark.e2e

RUNS = 60 if IS_NIGHTLY else 10
"""Of each command."""
SOONER, LATER = 0.9, 1.1
"""What the next signal is, so that all of them are around the commit on any machine."""
AFTER = ("published", "done")
SPEC = "dataSource: edits\ntimestampSpec: {column: t}\ndimensions: [page]\n"


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    assert run_process(["init"], cwd=tmp_path).code == 0
    (tmp_path / "rows.jsonl").write_text('{"t": "2024-03-04T09:00:00Z", "page": "Menhir"}\n' * 50)
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "lookup.json").write_text('{"UA": "United"}')
    return tmp_path


def head(cwd: Path) -> int:
    with open_store(cwd / "carnac-store") as store:
        return store.head().revision


def interrupted(args: list[str], cwd: Path, age: float, number: int) -> str:
    """Run a command, send it a signal when it is so many seconds old; return what it turned out to be."""
    before = head(cwd)
    with subprocess.Popen(
        [sys.executable, "-m", "carnac", *args],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(age)
        running.send_signal(number)
        out, err = running.communicate(timeout=120)
    after, code = head(cwd), running.returncode
    story = (args, number, code, out, err, before, after)
    found = re.search(r"revision (\d+) was published before the interruption", err)
    if found is not None:
        assert (code, after, int(found[1])) == (10, before + 1, after), story
        return "published"
    if "nothing was published" in err:
        assert (code, after) == (128 + number, before), story
        return "not published"
    if code == 0:
        assert after == before + 1, story
        return "done"
    assert code in {-number, 128 + number}, story
    assert after == before, story
    assert "published" not in out, story
    return "silent"


COMMANDS = {
    "append": ["append", "edits", "rows.jsonl", "--spec", "spec.yaml"],
    "lookups": ["lookups", "set", "airlines", "lookup.json"],
    "delete": ["delete", "flights", "--interval", "2013-01-01/2013-01-02"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_an_interrupted_command_says_is_what_the_log_says(cwd: Path, name: str) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    args = COMMANDS[name]

    def prepare() -> None:
        if name == "delete":
            rows = ({"__time": "2013-01-01T01:00:00Z", "carrier": "UA", "delay": 1},)
            append_rows(cwd / "carnac-store", rows)

    prepare()
    started = time.monotonic()
    assert run_process(args, cwd=cwd).code == 0
    moment = time.monotonic() - started
    ends: Counter[str] = Counter()
    for _ in range(RUNS):
        prepare()
        age = moment * rng.uniform(0.85, 1.15)
        end = interrupted(args, cwd, age, rng.choice([signal.SIGINT, signal.SIGTERM]))
        moment *= SOONER if end in AFTER else LATER
        ends[end] += 1
    print(dict(ends))
    assert sum(ends[end] for end in AFTER), "some were interrupted after their commit"
    assert ends.total() > sum(ends[end] for end in AFTER), "and some before"
