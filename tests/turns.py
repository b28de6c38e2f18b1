"""Tests in several processes that take turns, file by file: a plugin for the tests of `make check`.

Under xdist another process hears of all that happens to each test, which took a tenth of the processor time of tests
that are short, and each process reads all of them, which took as much again. Here a process of pytest reads them and
forks. The processes share a folder: the process that makes the file that is named as some tests runs those. The output
of the first process is printed at once, that of others at the end.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from tests.scheduling import BALANCING, HOUSE, scope_of

LONGEST = (BALANCING, HOUSE)
"""Tests of several files that share a process."""
OTHERS = pytest.StashKey[dict[int, IO[str]]]()
"""Processes that were forked, and what they say."""
ENDS_WITH = pytest.StashKey[int]()
"""The exit status of a process that was forked."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processes", type=int, required=True, help="how many processes run the tests"
    )


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in several processes; pytest (with `-x`) stops one process and no other."""
    config = session.config
    if session.testsfailed or config.option.collectonly:
        return None
    turns = Path(tempfile.mkdtemp(prefix="carnac turns "))
    others = config.stash[OTHERS] = {}
    for _ in range(config.getoption("--processes") - 1):
        said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - read at the end
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if not process:
            speak_into(said, config)
            close(others, said)
            config.stash[ENDS_WITH] = int(pytest.ExitCode.INTERNAL_ERROR)
            run_turns(session, turns)
            return True
        others[process] = said
    try:
        run_turns(session, turns)
    finally:
        for process, said in others.items():
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            session.testsfailed += code != 0
            said.seek(0, os.SEEK_END)
            said.write(f"\na process ended with code {code}" if code else "")
        shutil.rmtree(turns, ignore_errors=True)
    return True


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Note how a process that was forked ends."""
    if ENDS_WITH in session.config.stash:
        session.config.stash[ENDS_WITH] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the output of other processes; a forked process ends here.

    It ends at once, since the objects that it inherited are for the first process to take down, and libraries complain
    of leftovers at a normal end.
    """
    if ENDS_WITH in config.stash:
        config.get_terminal_writer().flush()
        sys.stdout.flush()
        os._exit(config.stash[ENDS_WITH])
    others = config.stash.get(OTHERS, {})
    for said in others.values():
        said.seek(0)
        print(f"\n{said.read().rstrip()}", flush=True)
    close(others)


def close(others: dict[int, IO[str]], *more: IO[str]) -> None:
    """Close the files of what processes say, and forget the processes."""
    for said in (*others.values(), *more):
        said.close()
    others.clear()


def speak_into(file: IO[str], config: pytest.Config) -> None:
    """Have a process that was just forked write into a file what it says."""
    capturing = config.pluginmanager.getplugin("capturemanager")
    capturing.stop_global_capturing()  # it would give back what the first process writes to
    os.dup2(file.fileno(), sys.stdout.fileno())
    os.dup2(file.fileno(), sys.stderr.fileno())
    capturing.start_global_capturing()
    capturing.suspend_global_capture()


def run_turns(session: pytest.Session, folder: Path) -> None:
    """Run the tests whose turn it is."""
    items = taken(session.items, folder)
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following


def taken(items: Sequence[pytest.Item], folder: Path) -> Iterator[pytest.Item]:
    """Yield the tests that no other process has taken."""
    for scope, tests in in_order(items):
        try:
            (folder / scope.replace("/", " ")).touch(exist_ok=False)
        except FileExistsError:
            continue
        yield from tests


def in_order(items: Sequence[pytest.Item]) -> list[tuple[str, list[pytest.Item]]]:
    """Return the tests that go together; first what takes long, last small files: all processes end together."""
    scopes: dict[str, list[pytest.Item]] = {}
    for item in items:
        scopes.setdefault(scope_of(item.nodeid), []).append(item)

    def weight(scope: str) -> tuple[bool, bool, int]:
        path = scopes[scope][0].path
        is_law = scope.startswith(("tests/stateful/", "tests/property/"))
        return scope in LONGEST, is_law, path.stat().st_size

    return [(scope, scopes[scope]) for scope in sorted(scopes, key=weight, reverse=True)]
