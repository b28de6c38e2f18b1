"""What `make check` runs in several processes is run once, and the tests of a file in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain, zip_longest
from pathlib import Path

import pytest

from tests.scheduling import scope_of
from tests.turns import taken


def test_each_test_has_one_turn_and_files_are_not_shared(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    items = request.session.items
    turns = (taken(items, tmp_path) for _ in range(3))
    processes = [
        [item.nodeid for item in ran if item is not None]
        for ran in zip(*zip_longest(*turns), strict=True)
    ]
    assert sorted(chain.from_iterable(processes)) == sorted(item.nodeid for item in items)
    scopes = [{scope_of(nodeid) for nodeid in ran} for ran in processes]
    assert sum(map(len, scopes)) == len(set.union(*scopes))


MEETING = """
import os
FIRST = os.getpid()
def test_meets():
    open({pipe!r}, {mode!r}).close()
    if os.getpid() != FIRST: {ending}
def test_a_process_takes_the_next_file_with_the_last_test_of_one(): pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "code", "says"),
    [
        ("pass", 0, ("2 passed", "2 passed")),
        ("assert not 'planted'", 1, ("2 passed", "assert not 'planted'", "1 failed")),
        ("os._exit(7)", 1, ("2 passed", "a process ended with code 7")),
    ],
)
def test_two_processes_run_and_what_becomes_of_the_second_is_told(
    request: pytest.FixtureRequest, tmp_path: Path, ending: str, code: int, says: tuple[str, ...]
) -> None:
    pipe = tmp_path / "each opens an end and waits for the other"
    os.mkfifo(pipe)
    for mode in "rw":
        text = MEETING.format(pipe=str(pipe), mode=mode, ending=ending)
        (tmp_path / f"test_{mode}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.turns", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-q", "--processes=2", "-o", "timeout=60", str(tmp_path)],
        cwd=request.config.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    rest = done.stdout
    for words in says:
        assert words in rest
        rest = rest.split(words, 1)[1]
