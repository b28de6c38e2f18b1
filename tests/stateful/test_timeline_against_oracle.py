"""Random announcements against the naive oracle: every order leads to what the definition says."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.core.timeline import find_disagreements
from tests.support.laws.timeline import check_timeline, check_unchanged
from tests.support.timeline import Timeline, timeline_of
from tests.timelines import HOUR_MS, Oracle, assert_agrees, entry, hours

HORIZON = range(8)
CHUNKS = [hours(0, 8), hours(0, 4), hours(4, 8), hours(1, 2), hours(5, 6), hours(2, 4)]
STATES = st.tuples(
    st.sampled_from(["announced"] * 4 + ["expected", "unknown"]),
    st.sampled_from([False] * 7 + [True]),
)


@st.composite
def generation(draw: st.DrawFn, first_id: int) -> list[Entry]:
    """Up to five update groups in one chunk under one major version, each replacing some of what came before."""
    chunk = draw(st.sampled_from(CHUNKS))
    major = draw(st.integers(1, 3))
    next_partition = draw(st.sampled_from([0, 0, 0, 7]))
    before: list[int] = []
    minors: dict[int, int] = {}
    found: list[Entry] = []
    for _ in range(draw(st.integers(1, 5))):
        members = list(range(next_partition, next_partition + draw(st.integers(1, 3))))
        next_partition = members[-1] + 1
        replaced = draw(st.lists(st.sampled_from(before), unique=True)) if before else []
        minor = max((minors[p] for p in replaced), default=-1) + 1
        for member in members:
            for _ in range(1 + draw(st.integers(0, 4)) // 4):
                found.append(
                    entry(
                        first_id + len(found),
                        chunk,
                        major=major,
                        minor=minor,
                        partition_id=member,
                        group=members,
                        replaces=replaced,
                        clip=draw(clips(chunk)),
                    )
                )
            minors[member] = minor
        before += members
    return found


@st.composite
def clips(draw: st.DrawFn, chunk: Interval) -> IntervalSet | None:
    """None, mostly; or the first or the last hour of the chunk."""
    kind = draw(st.integers(0, 7))
    if kind > 1:
        return None
    start = chunk.start_ms if kind else chunk.end_ms - HOUR_MS
    return IntervalSet((Interval(start, start + HOUR_MS),))


@st.composite
def universes(draw: st.DrawFn) -> list[Entry]:
    """One to four generations; those of one chunk and major version are one."""
    found: list[Entry] = []
    places = set()
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3, 4]))):
        made = draw(generation(1 + len(found)))
        place = (made[0].chunk, made[0].version.major_ms)
        if place not in places:
            places.add(place)
            found += made
    return found


@given(universe=universes(), data=st.data())
@settings(max_examples=3 * settings().max_examples)
def test_it_is_what_the_definition_says(universe: list[Entry], data: st.DataObject) -> None:
    """Whatever is announced, expected, given up or unknown; and in whatever order it is said (TL-3)."""
    states = data.draw(st.lists(STATES, min_size=len(universe), max_size=len(universe)))
    oracle = Oracle()
    for item, (standing, is_retired) in zip(universe, states, strict=True):
        if standing == "announced":
            oracle.announced[item.entry_id] = item
        elif standing == "expected":
            oracle.expected[item.entry_id] = item
        if is_retired:
            oracle.retired[item.entry_id] = item
    told = [list(facts.values()) for facts in (oracle.announced, oracle.expected, oracle.retired)]
    timeline = Timeline(told[0], expected=told[1], retired=told[2])
    assert_agrees(timeline, oracle, HORIZON)
    check_timeline(timeline)
    other = [data.draw(st.permutations(facts)) for facts in told]
    check_unchanged(timeline, Timeline(other[0], expected=other[1], retired=other[2]))


@given(universe=universes())
@settings(max_examples=3 * settings().max_examples)
def test_live_entries_are_faulted_where_their_chunks_timeline_hides_them(
    universe: list[Entry],
) -> None:
    """`carnac verify` asks for less than a timeline answers, and gets the same (TL-6)."""
    hidden = set()
    for chunk in {one.chunk for one in universe}:
        live = [one for one in universe if one.chunk == chunk]
        shown = timeline_of(live).shown()
        hidden |= {one.entry_id for one in live if shown.get(one.entry_id) != one.visible}
    assert {one.entry_id for one, _ in find_disagreements(universe)} == hidden
