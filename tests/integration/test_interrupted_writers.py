"""An interruption at any moment tells the truth: what is said, and the exit code, agree with the log."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_store
from tests.e2e.cli import append_rows
from tests.forking import FORK
from tests.integration.command_children import run_command
from tests.nightly import IS_NIGHTLY, by_day
from tests.waiting import until

pytestmark = pytest.mark.e2e

LEAST, MOST = (20, 200) if IS_NIGHTLY else (4, 60)
"""Runs of each command: at least so many, and on until some were interrupted before their commit and some after it."""
SOONER, LATER = 0.9, 1.1
"""What the next signal is, so that all of them are around the commit on any machine."""
AFTER = {"published", "done"}
PUBLISHED = re.compile(
    r"(?:revision (\d+) was|(\d+) revisions, (\d+) to (\d+), were) published before the interruption"
)
SPEC = "dataSource: edits\ntimestampSpec: {column: t}\ndimensions: [page]\n"
FLIGHT = {"__time": "2013-01-01T01:00:00Z", "carrier": "UA", "delay": 1}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.sql)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty store that commands find by themselves."""
    found = str(tmp_path / "store")
    if request.param == "postgresql":
        found = request.getfixturevalue("postgresql_server").create_database("interrupted")
    open_store(found, create=True, deep_storage=str(tmp_path / "files")).close()
    monkeypatch.setenv("CARNAC_STORE", found)
    return found


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text('{"t": "2024-03-04T09:00:00Z", "page": "Menhir"}\n' * 50)
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "lookup.json").write_text('{"UA": "United"}')
    return tmp_path


def head(place: str) -> int:
    with open_store(place) as store:
        return store.head().revision


def interrupted(
    args: list[str],
    place: str,
    cwd: Path,
    age: float,
    number: int,
    *,
    after_commit: bool = False,
    commits: int = 1,
) -> str:
    """Run a command, send it a signal when it is so many seconds old; return what it turned out to be.

    Args:
        after_commit: Wait for its first commit before.
        commits: So many it makes, if nobody interrupts it.
    """
    before = head(place)
    running = start(args, cwd)
    if after_commit:
        until(
            lambda: head(place) > before or running.exitcode is not None,
            f"a commit of {args}",
            patience_s=240,
        )
    running.join(age)
    if running.pid is not None and running.exitcode is None:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(running.pid, number)
    running.join(120)
    out, err = ((cwd / name).read_text() for name in ("out", "err"))
    after, code = head(place), running.exitcode
    story = (args, number, code, out, err, before, after)
    found = PUBLISHED.search(err)
    if found is not None:
        first = last = int(found[1] or 0)
        if found[2]:
            first, last = int(found[3]), int(found[4])
            assert int(found[2]) == last - first + 1, story
        assert (code, first, last) == (10, before + 1, after), story
        return "published"
    if "nothing was published" in err:
        assert (code, after) == (128 + number, before), story
        return "not published"
    if code == 0:
        assert after == before + commits, story
        return "done"
    assert code in {-number, 128 + number}, story
    assert after == before, story
    assert "published" not in out, story
    return "silent"


def start(args: list[str], cwd: Path) -> BaseProcess:
    """Start a command whose modules are loaded; it begins now."""
    told, tells = FORK.Pipe(duplex=False)
    running = FORK.Process(target=run_command, args=(tells, args, dict(os.environ), cwd))
    running.start()
    tells.close()
    with told:
        told.recv_bytes()
    return running


COMMANDS = {
    "append": ["append", "edits", "rows.jsonl", "--spec", "spec.yaml"],
    "lookups": ["lookups", "set", "airlines", "lookup.json"],
    "delete": ["delete", "flights", "--interval", "2013-01-01/2013-01-02"],
    "drop": ["drop", "flights", "--yes"],
    "revert": ["revert"],
}
NEEDS_ROWS = {"delete", "drop", "revert"}
"""Commands that have nothing to do in an empty datasource."""


def prepare(name: str, place: str) -> list[str]:
    """Give the command something to do; return it."""
    args = COMMANDS[name]
    if name in NEEDS_ROWS:
        revision = append_rows(place, (FLIGHT,))
        return [*args, str(revision)] if name == "revert" else args
    return args


@pytest.mark.parametrize("name", by_day(COMMANDS, 3))
def test_what_an_interrupted_command_says_is_what_the_log_says(
    place: str, cwd: Path, name: str
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    args = prepare(name, place)
    first = start(args, cwd)
    started = time.monotonic()
    first.join(120)
    moment = time.monotonic() - started
    assert first.exitcode == 0, (cwd / "err").read_text()
    ends: Counter[str] = Counter()
    while ends.total() < LEAST or not AFTER & ends.keys() or ends.keys() <= AFTER:
        assert ends.total() < MOST, f"all were interrupted on one side of their commit: {ends}"
        args = prepare(name, place)
        age = moment * rng.uniform(0.85, 1.15)
        end = interrupted(args, place, cwd, age, rng.choice([signal.SIGINT, signal.SIGTERM]))
        moment *= SOONER if end in AFTER else LATER
        ends[end] += 1
    print(dict(ends))


DAYS, SEGMENTS = 3, 4
"""Time chunks that a compaction folds, each in a commit of its own, and of how many segments."""


@pytest.mark.nightly("appends and folds for each moment of an interruption")
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_an_interrupted_compaction_says_is_what_the_log_says(place: str, cwd: Path) -> None:
    """Twice before, around or after its commits, and twice when the first of them is there."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    ends: Counter[str] = Counter()
    for after_commit in (False, True) * (10 if IS_NIGHTLY else 1):
        datasource = f"flights{ends.total()}"
        sent = [
            {**FLIGHT, "__time": f"2013-01-0{day}T0{hour}:00:00Z"}
            for day in range(1, DAYS + 1)
            for hour in range(SEGMENTS)
        ]
        for row in sent:
            append_rows(place, (row,), datasource=datasource)
        end = interrupted(
            ["compact", datasource],
            place,
            cwd,
            age=rng.uniform(0, 0.5) if after_commit else rng.uniform(1, 10),
            number=rng.choice([signal.SIGINT, signal.SIGTERM]),
            after_commit=after_commit,
            commits=DAYS,
        )
        assert end in AFTER or not after_commit
        ends[end] += 1
        with open_store(place) as store:
            kept = store.sql(f"SELECT __time FROM {datasource}").rows()
        assert len(kept) == len(sent)
    print(dict(ends))
