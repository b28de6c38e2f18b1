"""How the trees look from inside: how few rows answer, and where leaves are cut."""

from __future__ import annotations

import numpy as np
import pytest

from carnac.core.balancing.columns import Floats, segment_columns
from carnac.core.balancing.compiled import compiled
from carnac.core.balancing.cost import DAY_MS, HOUR_MS
from carnac.core.balancing.index import CostIndex
from carnac.core.balancing.tree import AMONG, CHILDREN, COUNT, HI, LO, OUTER, UNKNOWN, Trees
from carnac.core.balancing.tree_changes import part_length
from carnac.core.balancing.tree_queries import BY_COVERS, BY_SUMS, note_costs
from tests.pairs import hours

FIRST_MS = hours(0).start_ms


@compiled
def noted(trees: Trees, lo: int, hi: int, out: Floats) -> None:
    note_costs(trees, 0, lo, hi, 1.0, 0, len(out), out)


def index_of_hours(days: int, count: int) -> CostIndex:
    rng = np.random.default_rng(5)
    starts = FIRST_MS + rng.integers(0, 24 * days, count) * HOUR_MS
    index = CostIndex(8, slab_size=80)
    index.load_many(
        rng.integers(0, 8, count),
        segment_columns(np.zeros(count, np.int64), starts, starts + HOUR_MS),
    )
    return index


def test_two_rows_a_level_and_a_last_one_answer_for_a_segment_like_those_held() -> None:
    index = index_of_hours(days=100, count=40_000)
    trees, most = index._trees, 0
    for hour in range(0, 2_400, 7):
        at = FIRST_MS + hour * HOUR_MS
        noted(trees, at, at + HOUR_MS, np.zeros(8))
        assert trees.noted[BY_COVERS] == 0
        most = max(most, int(trees.noted[BY_SUMS]))
        trees.noted[:] = 0
    assert most == 5  # days, half days, hours


def test_children_follow_each_other_and_fill_their_parent() -> None:
    trees = index_of_hours(days=100, count=40_000)._trees
    inner = [node for node in range(trees.used[0]) if trees.nodes[node, CHILDREN] >= 0]
    assert len(inner) > 10
    for node in inner:
        first, count = trees.nodes[node, CHILDREN], trees.nodes[node, COUNT]
        ends = trees.nodes[first : first + count, HI]
        starts = trees.nodes[first : first + count, LO]
        assert starts[0] == trees.nodes[node, LO]
        assert ends[-1] == trees.nodes[node, HI]
        assert (starts[1:] == ends[:-1]).all()
        assert (starts < ends).all()


def test_leaves_are_cut_where_the_segments_end() -> None:
    trees = index_of_hours(days=100, count=40_000)._trees
    leaves = trees.nodes[: trees.used[0]]
    leaves = leaves[(leaves[:, CHILDREN] < 0) & (leaves[:, LO] >= FIRST_MS)]
    leaves = leaves[leaves[:, HI] <= FIRST_MS + 100 * DAY_MS]
    assert (leaves[:, HI] - leaves[:, LO] == HOUR_MS).mean() > 0.98  # the others hold nothing


def test_rows_among_children_are_for_leaves_and_rows_from_outside_for_others() -> None:
    trees = index_of_hours(days=100, count=40_000)._trees
    seen = set()
    for node in range(trees.used[0]):
        children = trees.nodes[node, CHILDREN]
        if children < 0:
            continue
        below = trees.nodes[children : children + trees.nodes[node, COUNT], CHILDREN]
        are_leaves = bool((below < 0).all())
        assert (trees.nodes[node, AMONG] >= 0) == are_leaves
        assert (trees.nodes[node, OUTER] == UNKNOWN) == are_leaves
        seen.add(are_leaves)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("length", "parts", "unit", "expected"),
    [
        (8 * DAY_MS, 16, HOUR_MS, 12 * HOUR_MS),
        (12 * HOUR_MS, 16, HOUR_MS, HOUR_MS),  # no finer than what the segments share
        (12 * HOUR_MS, 16, 1, HOUR_MS),
        (128 * DAY_MS, 16, HOUR_MS, 8 * DAY_MS),
        (250, 2, 1, 100),  # a second would not fit
        (3 * HOUR_MS, 2, DAY_MS, DAY_MS),  # midnight lies within
        (2, 16, 1, 1),
    ],
)
def test_parts_have_whole_units(length: int, parts: int, unit: int, expected: int) -> None:
    assert part_length.py_func(length, parts, unit) == expected
