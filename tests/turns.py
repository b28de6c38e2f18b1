"""Tests in several processes that take turns, file by file: a plugin for what `make check` runs.

Under xdist another process hears of all that happens to each test, which took a tenth of the processor time of tests
that are short. Here processes of pytest share a folder: who makes the file that is named as some tests runs those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.scheduling import BALANCING, HOUSE, scope_of

LONGEST = (BALANCING, HOUSE)
"""Tests of several files that share a process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--turns",
        type=Path,
        required=True,
        help="an empty folder that the processes of a run share",
    )


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests whose turn it is; what stops a run is that of pytest."""
    if session.testsfailed or session.config.option.collectonly:
        return None
    items = taken(session.items, session.config.getoption("--turns"))
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


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
