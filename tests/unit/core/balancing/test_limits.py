"""Limits: the numbers of Druid's smart loading, and what is refused."""

from __future__ import annotations

import pytest

from carnac.core.balancing.plan.limits import (
    LoadLimits,
    MoveLimits,
    smart_limits,
)
from carnac.errors import Invalid


def test_smart_loading_replicates_a_twentieth_at_a_time() -> None:
    assert smart_limits(1_000).max_replicas == 100
    assert smart_limits(1_000_000).max_replicas == 50_000
    assert smart_limits(1).max_queue == 0


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (MoveLimits, {"max_moves": -1}),
        (MoveLimits, {"min_saving": 0}),
        (MoveLimits, {"min_saving": float("nan")}),
        (MoveLimits, {"return_window_ms": -1}),
        (LoadLimits, {"max_replicas": -1}),
    ],
)
def test_limits_that_make_no_sense_are_refused(kind: type, fields: dict[str, float]) -> None:
    with pytest.raises(Invalid):
        kind(**fields)
