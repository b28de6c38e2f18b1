"""Segments by datasource and interval, however many there are of each."""

from __future__ import annotations

import numpy as np
import pytest

from carnac.core.balancing.cost.grouping import group_segments, rows_by_key, rows_of_groups


@pytest.mark.parametrize("shape", [(0, 1, 1), (200, 3, 4), (20_000, 2, 500), (20_000, 50, 5_000)])
def test_groups_are_sorted_and_hold_each_segment_once(shape: tuple[int, int, int]) -> None:
    count, datasources, hours = shape
    rng = np.random.default_rng(7)
    datasource = rng.integers(0, datasources, count)
    start_ms = rng.integers(-hours, hours, count) * 3_600_000
    end_ms = start_ms + rng.integers(1, 3, count) * 3_600_000
    segments = list(zip(datasource.tolist(), start_ms.tolist(), end_ms.tolist(), strict=True))
    groups = group_segments(datasource, start_ms, end_ms)
    columns = (groups.datasource, groups.start_ms, groups.end_ms)
    keys = list(zip(*(one.tolist() for one in columns), strict=True))
    assert keys == sorted(set(segments))
    assert [keys[group] for group in groups.of_segment.tolist()] == segments
    rows = rows_of_groups(groups)
    assert rows.rows.tolist() == rows_by_key(groups.of_segment, len(groups)).rows.tolist()
    for group in range(0, len(groups), 97):
        assert rows.of(group).tolist() == np.flatnonzero(groups.of_segment == group).tolist()
