"""A mark for tests with many cases: with `sampled(each)` `make check` runs one case of so many, `make test` all."""

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
