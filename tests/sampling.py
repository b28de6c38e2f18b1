"""Which cases `make check` leaves out of tests with many: `sampled(each)` has it run one of so many, and all by day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest


def left_out(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the cases that `make check` does not run: of each test it runs the first and then one of so many."""
    seen: Counter[str] = Counter()
    for item in items:
        if (sampled := item.get_closest_marker("sampled")) is None:
            continue
        (each,) = sampled.args
        test, _, _ = item.nodeid.partition("[")
        if seen[test] % each:
            yield item
        seen[test] += 1
