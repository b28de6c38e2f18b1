"""What `make check` runs in several processes is run once, and the tests of a file in one process."""

from __future__ import annotations

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
