"""Of a test with many cases `make check` runs a few, the first and the last among them, and `make test` all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

CASES_MAX = 3
"""Of each test. Seven thousand cases of a few milliseconds each are minutes; most of them take the same way."""


def left_out(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the cases that `make check` does not run."""
    tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        if (gaps := len(cases) - 1) < CASES_MAX:
            continue
        chosen = {gaps * number // (CASES_MAX - 1) for number in range(CASES_MAX)}
        yield from (case for number, case in enumerate(cases) if number not in chosen)
