"""Hypothesis strategies that property tests share: instants, intervals, zones, granularities.

Small grids make intervals touch, nest and repeat often; that is where set algebra goes wrong.
"""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from carnac.core.time.granularity import STANDARD, Granularity, parse_granularity
from carnac.core.time.intervals import (
    MAX_MS,
    MIN_MS,
    Interval,
    IntervalSet,
    format_ms,
    interval_set,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
GRID = 24
"""Grid instants are 0..GRID: few enough for an oracle that lists them all."""

TRICKY_ZONES = (
    "America/New_York",
    "America/Sao_Paulo",  # until 2019 clocks went forward at midnight
    "Asia/Beirut",  # so they do here, each March
    "Australia/Lord_Howe",  # half an hour of summer time
    "America/St_Johns",  # until 2011 clocks changed at 00:01
    "America/Toronto",  # 1919: from 23:30 to 00:30
    "Pacific/Apia",  # no 30 December 2011
    "Pacific/Kwajalein",  # no 21 August 1993
    "America/Juneau",  # 1867: the same day twice
    "Africa/Monrovia",  # until 1972 44 minutes 30 seconds behind
    "Africa/Casablanca",  # negative summer time, around Ramadan
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Europe/Dublin",
    "Antarctica/Troll",  # two hours of summer time
)
PERIODS = (
    "P1D",
    "P2D",
    "P1W",
    "P2W",
    "P1M",
    "P3M",
    "P1Y",
    "P5Y",
    "P1Y2M",
    "P1M1D",
    "P1DT12H",
    "P1W2D",
)
CLOCK_PERIODS = ("PT1H", "PT1M", "PT6H", "PT8H", "PT90M", "PT15M", "PT1S", "PT0.250S", "PT24H")

grid_ms = st.integers(0, GRID)
instants = st.integers(MIN_MS, MAX_MS - 1)
recent_instants = st.integers(0, 2_240_611_200_000)
zones = st.sampled_from(("UTC", "+05:30", "-03:00", *TRICKY_ZONES))


@st.composite
def grid_intervals(draw: st.DrawFn) -> Interval:
    """Intervals on a grid of 25 instants: they often touch, nest and are equal."""
    start = draw(st.integers(0, GRID - 1))
    return Interval(start, draw(st.integers(start + 1, GRID)))


@st.composite
def intervals(draw: st.DrawFn, low_ms: int = MIN_MS, high_ms: int = MAX_MS) -> Interval:
    """Intervals anywhere between the two."""
    start = draw(st.integers(low_ms, high_ms - 1))
    return Interval(start, draw(st.integers(start + 1, high_ms)))


@st.composite
def touching_intervals(draw: st.DrawFn) -> list[Interval]:
    """A run of intervals in order, each starting where the one before ends."""
    cuts = sorted(draw(st.sets(grid_ms, min_size=2)))
    return [Interval(start, end) for start, end in itertools.pairwise(cuts)]


interval_lists = st.lists(grid_intervals(), max_size=8) | touching_intervals()
interval_sets: st.SearchStrategy[IntervalSet] = interval_lists.map(interval_set)


@st.composite
def periods(draw: st.DrawFn, texts: tuple[str, ...] = (*PERIODS, *CLOCK_PERIODS)) -> Granularity:
    """Granularities of type period, with and without zone and origin."""
    value = {"type": "period", "period": draw(st.sampled_from(texts)), "timeZone": draw(zones)}
    if draw(st.booleans()):
        value["origin"] = format_ms(draw(instants | recent_instants))
    return parse_granularity(value)


@st.composite
def durations(draw: st.DrawFn) -> Granularity:
    """Granularities of type duration."""
    length = draw(st.sampled_from((1, 7, 1000, 7_200_000, 86_400_000, 100_000_007)))
    return parse_granularity({"type": "duration", "duration": length, "origin": draw(instants)})


standards = st.sampled_from((*STANDARD, parse_granularity("NONE")))
granularities: st.SearchStrategy[Granularity] = standards | periods() | durations()


@st.composite
def moments_near_changes(draw: st.DrawFn) -> tuple[Granularity, int]:
    """A granularity and an instant within two days of a bucket's edge, or exactly on it."""
    granularity = draw(granularities)
    bucket = granularity.bucket(draw(instants | recent_instants))
    edge = draw(st.sampled_from((bucket.start_ms, bucket.end_ms)))
    shift = draw(st.sampled_from((-1, 0, 1)) | st.integers(-2 * DAY_MS, 2 * DAY_MS))
    return granularity, min(max(edge + shift, MIN_MS), MAX_MS - 1)
