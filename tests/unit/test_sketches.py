"""Sketches: errors stay within what the documentation promises, and foreign bytes are refused by name."""

from __future__ import annotations

import random

import datasketches
import numpy as np
import pytest

from carnac import sketches
from carnac.errors import Invalid
from tests.support.estimates import count_quantiles, estimate_hll, estimate_theta


@pytest.mark.parametrize("lg_k", [8, 12, 14])
def test_distinct_counts_stay_within_four_standard_errors(lg_k: int) -> None:
    states = [range(start, start + 40_000) for start in range(0, 200_000, 20_000)]
    error = 4 * 1.04 / 2 ** (lg_k / 2)
    hll = sketches.merge_hll([sketches.build_hll(part, lg_k) for part in states], lg_k)
    theta = sketches.merge_theta([sketches.build_theta(part, lg_k) for part in states], lg_k)
    assert estimate_hll(hll) == pytest.approx(220_000, rel=error)
    assert estimate_theta(theta) == pytest.approx(220_000, rel=error)


@pytest.mark.parametrize("count", [10, 380, 400, 30_000])
def test_the_order_of_values_and_of_states_changes_no_estimate(count: int) -> None:
    rng = random.Random(7)
    values = [f"u{number}" for number in range(count)]
    found = set()
    for _ in range(5):
        rng.shuffle(values)
        parts = [
            values[start : start + 1 + count // 20] for start in range(0, count, 1 + count // 20)
        ]
        hlls, thetas = (
            [sketches.build_hll(one) for one in parts],
            [sketches.build_theta(one, 10) for one in parts],
        )
        found.add(
            (
                sketches.estimate_hll(sketches.build_hll(values)),
                sketches.estimate_hll(sketches.merge_hll(hlls)),
                sketches.estimate_theta(sketches.build_theta(values, 10)),
                sketches.estimate_theta(sketches.merge_theta(thetas, 10)),
            )
        )
    assert len(found) == 1
    assert all(one == pytest.approx(count, rel=0.1) for one in found.pop())


def test_quantiles_of_very_many_values_stay_within_the_rank_error() -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate([np.arange(700_003.0), rng.permutation(700_000) + 700_003.0])
    state = sketches.build_quantiles(values)
    assert count_quantiles(state) == len(values)
    assert (sketches.quantile(state, 0), sketches.quantile(state, 1)) == (0, len(values) - 1)
    for value in range(0, len(values), len(values) // 50):
        assert abs((sketches.rank(state, value) or 0) - value / len(values)) < 0.0165
    doubled = sketches.merge_quantiles([state, sketches.build_quantiles(values)])
    assert count_quantiles(doubled) == 2 * len(values)
    values[5] = np.nan
    assert count_quantiles(sketches.build_quantiles(values)) == len(values) - 1


def test_quantiles_stay_within_the_rank_error() -> None:
    merged = sketches.merge_quantiles(
        [sketches.build_quantiles(range(start, 100_000, 10)) for start in range(10)]
    )
    for fraction in (0.0, 0.01, 0.25, 0.5, 0.95, 1.0):
        found = sketches.quantile(merged, fraction)
        assert found is not None
        assert abs(found / 100_000 - fraction) < 0.03
        found_rank = sketches.rank(merged, fraction * 100_000)
        assert found_rank == pytest.approx(fraction, abs=0.03)


def test_the_smallest_and_the_largest_value_are_exact() -> None:
    for _ in range(20):
        state = sketches.build_quantiles(range(-5, 100_000))
        assert (sketches.quantile(state, 0), sketches.quantile(state, 1)) == (-5, 99_999)


def test_nothing_makes_an_empty_sketch() -> None:
    assert estimate_hll(sketches.merge_hll([None])) == 0
    assert estimate_theta(sketches.merge_theta([])) == 0
    assert estimate_theta(sketches.intersect_theta([None])) == 0
    assert estimate_theta(sketches.subtract_theta(None, [None])) == 0
    assert sketches.quantile(sketches.merge_quantiles([]), 0.5) is None
    assert sketches.rank(sketches.build_quantiles([None]), 0.5) is None
    for kind in ("hll", "theta", "quantiles"):
        nothing = sketches.build(kind, (), {})
        assert sketches.merge(kind, [nothing, None], {}) == nothing


def test_bytes_of_another_family_are_named() -> None:
    classic = datasketches.quantiles_doubles_sketch()
    classic.update(1.0)
    with pytest.raises(Invalid, match="classic quantiles"):
        sketches.merge_quantiles([classic.serialize()])
    with pytest.raises(Invalid, match="they are a theta sketch"):
        sketches.merge_hll([sketches.build_theta([1])])
    with pytest.raises(Invalid, match="no sketch"):
        sketches.merge_theta([b""])
    with pytest.raises(Invalid, match="cannot be read"):
        sketches.merge_hll([sketches.build_hll(range(1000))[:40]])


def test_sizes_and_fractions_out_of_bounds_are_refused() -> None:
    with pytest.raises(Invalid, match="within 4 and 21"):
        sketches.build_hll([], 22)
    with pytest.raises(Invalid, match="within 5 and 26"):
        sketches.merge_theta([], 4)
    with pytest.raises(Invalid, match="within 8 and 65535"):
        sketches.build_quantiles([], 7)
    with pytest.raises(Invalid, match="within 0 and 1"):
        sketches.quantile(sketches.build_quantiles([1.0]), 1.5)


def test_the_kind_and_its_parameters_choose_the_functions() -> None:
    for kind, params in (("hll", {"lg_k": 8}), ("theta", {"lg_k": 8}), ("quantiles", {"k": 20})):
        small = sketches.build(kind, range(10_000), params)
        merged = sketches.merge(kind, [small, None, small], params)
        assert sketches.merge(kind, [merged], params) == merged  # it can be read as what it is
        assert len(small) < len(sketches.build(kind, range(10_000), {}))
    assert count_quantiles(merged) == 20_000
