"""What is kept of what was computed: the values used last, within two bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from carnac.ports.memo import Memo

VALUES_MAX = 3
WEIGHT_MAX = 10


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 12)), max_size=40))
def test_the_values_used_last_are_kept_within_both_bounds(asked: list[tuple[int, int]]) -> None:
    """Against a list of what was asked for, newest last."""
    memo: Memo[int, tuple[int, int]] = Memo(
        values_max=VALUES_MAX, weight_max=WEIGHT_MAX, weigh=lambda _, value: value[1]
    )
    kept: list[tuple[int, int]] = []
    for key, weight in asked:
        known = next((one for one in kept if one[0] == key), None)
        wanted = known or (key, weight)
        assert memo.get(key, lambda made=(key, weight): made) == wanted  # type: ignore[misc]
        kept = [one for one in kept if one[0] != key] + [wanted]
        while len(kept) > VALUES_MAX or sum(one[1] for one in kept) > WEIGHT_MAX:
            kept.pop(0)
        assert [memo.find(one[0]) for one in kept] == kept
    assert all((memo.find(key) is not None) == (key in dict(kept)) for key in range(6))


def test_what_is_cleared_is_gone_and_weighs_nothing() -> None:
    memo: Memo[int, int] = Memo(values_max=9, weight_max=WEIGHT_MAX, weigh=lambda _, value: value)
    memo.keep(1, WEIGHT_MAX)
    memo.clear()
    assert memo.find(1) is None
    memo.keep(2, WEIGHT_MAX)
    assert memo.find(2) == WEIGHT_MAX
