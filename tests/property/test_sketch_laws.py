"""Laws of sketches: merging is building from all values, within the stated error."""

from __future__ import annotations

import bisect
import math

from hypothesis import given
from hypothesis import strategies as st

from carnac import sketches
from tests.support.estimates import count_quantiles, estimate_hll, estimate_theta

ITEMS = st.lists(
    st.one_of(st.text(max_size=5), st.integers(-(2**63), 2**63 - 1), st.none()), max_size=60
)
NUMBERS = st.lists(
    st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.none()), max_size=60
)
PARTS = st.lists(ITEMS, max_size=6)


def distinct(items: list[str | int | None]) -> int:
    return len({(type(item), item) for item in items if item is not None and item != ""})


@given(PARTS)
def test_distinct_counts_of_merged_parts_are_those_of_all_values(
    parts: list[list[str | int | None]],
) -> None:
    everything = [item for part in parts for item in part]
    hll = sketches.merge_hll([sketches.build_hll(part) for part in parts])
    theta = sketches.merge_theta([sketches.build_theta(part) for part in parts])
    assert math.isclose(estimate_hll(hll), distinct(everything), rel_tol=1e-3)  # few: still exact
    assert estimate_theta(theta) == distinct(everything)


@given(ITEMS, ITEMS, ITEMS)
def test_theta_knows_the_algebra_of_sets(
    a: list[str | int | None], b: list[str | int | None], c: list[str | int | None]
) -> None:
    sets = [{(type(item), item) for item in items if item not in (None, "")} for items in (a, b, c)]
    states = [sketches.build_theta(items) for items in (a, b, c)]
    assert estimate_theta(sketches.intersect_theta(states)) == len(sets[0] & sets[1] & sets[2])
    assert estimate_theta(sketches.subtract_theta(states[0], states[1:])) == len(
        sets[0] - sets[1] - sets[2]
    )


@given(st.lists(NUMBERS, max_size=6), st.floats(0, 1))
def test_quantiles_of_merged_parts_are_exact_while_they_are_few(
    parts: list[list[float | None]], fraction: float
) -> None:
    values = sorted(value for part in parts for value in part if value is not None)[:150]
    merged = sketches.merge_quantiles([sketches.build_quantiles(values[i::3]) for i in range(3)])
    assert count_quantiles(merged) == len(values)
    found = sketches.quantile(merged, fraction)
    if not values:
        assert found is None
        return
    assert found in values
    below = bisect.bisect_left(values, found) / len(values)
    upto = bisect.bisect_right(values, found) / len(values)
    assert below - 1e-9 <= fraction <= upto + 1e-9
