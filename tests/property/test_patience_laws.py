"""How long a server is waited for: never less than a second, and longer for one that has been slow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from carnac.core.answers.replicas import LEAST_MS, TIMES_USUAL, Patience

MOST_MS = 20_000
TOOK = st.lists(st.one_of(st.none(), st.floats(-500, 60_000)), max_size=60)


def after(events: list[float | None]) -> Patience:
    patience = Patience(MOST_MS)
    for took_ms in events:
        patience = patience.missed() if took_ms is None else patience.heard(took_ms)
    return patience


@given(TOOK)
def test_the_limit_has_bounds(events: list[float | None]) -> None:
    assert LEAST_MS <= after(events).limit_ms <= MOST_MS


@given(TOOK, st.floats(0, 60_000))
def test_what_was_seen_just_now_is_waited_for(events: list[float | None], took_ms: float) -> None:
    heard = after(events).heard(took_ms)
    assert heard.limit_ms >= min(MOST_MS, int(TIMES_USUAL * took_ms))


@given(TOOK)
def test_a_slow_one_is_heard_in_the_end_and_a_fast_one_given_up_soon_again(
    events: list[float | None],
) -> None:
    patience = after(events)
    for _ in range(5):
        patience = patience.missed()
    assert patience.limit_ms == MOST_MS
    for _ in range(60):
        patience = patience.heard(3)
    assert patience.limit_ms == LEAST_MS
