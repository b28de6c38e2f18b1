"""Which segments can be put together, and what a rewrite makes of them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.compaction.plan.choosing import choose
from carnac.core.compaction.plan.chunks import TimeChunk
from carnac.core.compaction.plan.groups import CompactionTarget, GroupKind
from carnac.core.compaction.plan.input_groups import Kin, find_input_groups, kin_of, rewritten
from carnac.core.compaction.plan.inputs import PlanSegment, SegmentLayout
from carnac.core.compaction.plan.likeness import TargetView
from carnac.core.compaction.plan.planning import CompactionPlan, plan_compaction
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.segments.segment import Column, ColumnType, Metric, MetricKind, RollupSpec, Segment
from carnac.core.time.intervals import Interval
from tests.compactions import DAY_MS, LIKES, MAX, NOW_MS, SUM, History, apply_tasks, raw, rolled_up

DAY = Interval(0, DAY_MS)
MIB = 1 << 20
SKETCH = Metric(name="m", kind=MetricKind.HLL, input="n", type=ColumnType.HLL)
PAGE = ("page", ColumnType.STRING)
TYPES = [ColumnType.LONG, ColumnType.DOUBLE, ColumnType.STRING, ColumnType.HLL]


def kin(*metrics: Metric, granularity: str = "NONE", **dimensions: ColumnType) -> Kin:
    return Kin(bool(metrics), granularity, tuple(dimensions.items()), metrics)


def apart(**dimensions: ColumnType) -> Kin:
    """Of a datasource in which other segments have texts in `n`."""
    return kin(**dimensions)._replace(kept_apart=frozenset("n"))


@pytest.mark.parametrize(
    ("first", "second", "are_one"),
    [
        (kin(n=ColumnType.LONG), kin(n=ColumnType.DOUBLE, page=ColumnType.STRING), True),
        (kin(n=ColumnType.LONG), kin(n=ColumnType.HLL), False),
        (kin(n=ColumnType.HLL), kin(n=ColumnType.HLL), True),
        (kin(n=ColumnType.LONG), kin(SUM, n=ColumnType.LONG), False),
        (kin(SUM), kin(LIKES), True),
        (kin(SUM), kin(MAX), False),
        (kin(SUM), kin(replace(SUM, type=ColumnType.DOUBLE)), True),
        (kin(SUM), kin(SKETCH), False),
        (kin(SKETCH), kin(replace(SKETCH, params=(("lg_k", 12),))), False),
        (kin(SUM), kin(LIKES, m=ColumnType.LONG), False),
        (kin(LIKES, m=ColumnType.LONG), kin(SUM), False),
        (kin(SUM), kin(SUM, granularity="HOUR"), False),
        (kin(n=ColumnType.LONG), kin(n=ColumnType.LONG, granularity="HOUR"), False),
        (apart(n=ColumnType.LONG), apart(n=ColumnType.DOUBLE), False),
        (apart(n=ColumnType.LONG), apart(n=ColumnType.DOUBLE_ARRAY), False),
        (apart(n=ColumnType.LONG), apart(n=ColumnType.LONG_ARRAY), True),
        (apart(n=ColumnType.LONG), apart(n=ColumnType.STRING), True),
        (apart(n=ColumnType.DOUBLE), apart(n=ColumnType.STRING_ARRAY), True),
        (apart(n=ColumnType.LONG), apart(m=ColumnType.DOUBLE), True),
    ],
)
def test_what_shares_a_segment(first: Kin, second: Kin, *, are_one: bool) -> None:
    assert find_input_groups([first, second]) == [0, 0 if are_one else 1]


def test_a_group_remembers_what_it_has_taken() -> None:
    first, other = kin(LIKES), kin(SUM)
    assert find_input_groups([first, other, kin(MAX), kin(MAX, LIKES)]) == [0, 0, 1, 1]


def test_texts_unite_the_numbers_that_came_before_them() -> None:
    long, double, text = (apart(n=kind) for kind in TYPES[:3])
    assert find_input_groups([long, double, text]) == [0, 0, 0]
    assert find_input_groups([long, double, long]) == [0, 1, 0]


kins = st.builds(
    Kin,
    st.booleans(),
    st.sampled_from(["NONE", "HOUR"]),
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from(TYPES)),
        max_size=3,
        unique_by=lambda one: one[0],
    ).map(tuple),
    st.sets(st.sampled_from([SUM, MAX, LIKES, replace(LIKES, kind=MetricKind.MIN)]), max_size=2)
    .filter(lambda found: len({one.name for one in found}) == len(found))
    .map(lambda found: tuple(sorted(found, key=lambda one: one.name))),
).map(lambda one: one if one.is_rollup else one._replace(metrics=()))


@given(
    st.lists(kins, max_size=8),
    st.sampled_from([None, (SUM,), (MAX, LIKES)]),
    st.sampled_from([None, ("x", "y")]),
    st.frozensets(st.sampled_from("xy")),
    st.randoms(),
)
def test_what_a_rewrite_wrote_falls_into_as_many_groups_again(
    found: list[Kin],
    metrics: tuple[Metric, ...] | None,
    dimensions: tuple[str, ...] | None,
    kept_apart: frozenset[str],
    order: random.Random,
) -> None:
    found = [one._replace(kept_apart=kept_apart) for one in found]
    target = CompactionTarget(metrics=metrics, dimensions=dimensions, allow_lossy=True)
    input_groups = find_input_groups([rewritten(one, target) for one in found])
    layouts = [SegmentLayout(kin=one) for one in found]
    segments = [small(f"s{n}", layout) for n, layout in enumerate(layouts)]
    after = apply_tasks(segments, plan(segments, target, slack=0).tasks, revision=9)
    order.shuffle(after)
    written = [one.layout.kin for one in after]
    assert len(set(find_input_groups(written))) == len(written) == len(set(input_groups))


def test_a_planner_expects_the_groups_of_a_rewrite_that_reads_in_the_same_order() -> None:
    kins_read = [
        kin(MAX),
        kin(SUM),
        kin(LIKES, x=ColumnType.HLL),  # goes with either of the first two
        kin(MAX, x=ColumnType.LONG),
    ]
    segments = [small(f"s{n}", SegmentLayout(kin=one)) for n, one in enumerate(kins_read)]
    mixture = TargetView(CompactionTarget()).mixture(segments)
    assert mixture is not None
    assert [mixture[id(one.layout)] for one in segments] == [0, 1, 0, 2]
    assert find_input_groups(kins_read) == [0, 1, 0, 2]


def test_what_a_rewrite_makes_of_rows() -> None:
    hourly = CompactionTarget(query_granularity="HOUR", allow_lossy=True)
    one = kin(n=ColumnType.LONG, page=ColumnType.STRING)
    assert rewritten(one, hourly).query_granularity == "HOUR"
    assert rewritten(kin(granularity="DAY"), hourly).query_granularity == "DAY"
    rolled = rewritten(one, replace(hourly, metrics=(SUM,)))
    assert rolled == Kin(True, "HOUR", (PAGE,), (SUM,))
    assert rewritten(rolled, replace(hourly, metrics=(LIKES,))).metrics == (SUM,)
    assert rewritten(one, replace(hourly, dimensions=("gone", "page"))).dimensions == (PAGE,)


def test_the_kin_of_a_segment_is_what_its_record_says() -> None:
    columns = tuple(
        Column(name=name, type=kind)
        for name, kind in (PAGE, ("m", ColumnType.LONG), ("__at_m", ColumnType.LONG))
    )
    segment = Segment(
        segment_id="a", datasource="events", chunk=DAY, path="a", size_bytes=1, rows=1,
        input_rows=1, min_time_ms=0, max_time_ms=0, columns=columns, query_granularity="HOUR",
    )  # fmt: skip
    assert kin_of(segment) == Kin(False, "HOUR", tuple((c.name, c.type) for c in columns))
    spec = RollupSpec(
        query_granularity="HOUR", dimensions=("page",), metrics=(SUM,), is_perfect=True
    )
    assert kin_of(replace(segment, rollup=spec)) == Kin(True, "HOUR", (PAGE,), (SUM,))


def small(name: str, layout: SegmentLayout, size_bytes: int = MIB) -> PlanSegment:
    return PlanSegment(
        segment_id=name, start_ms=0, end_ms=DAY_MS, size_bytes=size_bytes, rows=size_bytes // 100,
        chunk=DAY, revision=1, layout=layout,
    )  # fmt: skip


def plan(
    segments: list[PlanSegment], target: CompactionTarget, *, slack: int = 1, rewritten: int = 0
) -> CompactionPlan:
    how = CompactionSettings(target=target, slack=slack)
    arrived = 30 * MIB
    return plan_compaction(
        "events", segments, how, now_ms=NOW_MS, histories={DAY: History(arrived, rewritten)}
    )


@pytest.mark.parametrize(
    ("layouts", "metrics", "becomes"),
    [
        ((raw("n"), rolled_up(SUM)), None, 2),
        ((raw("n"), rolled_up(SUM), rolled_up(MAX)), None, 3),
        ((raw("n"), rolled_up(SUM), rolled_up(MAX), rolled_up(granularity="DAY")), None, 4),
        ((raw("n"), rolled_up(SUM, granularity="none"), rolled_up(MAX)), (SUM,), 2),
        ((raw("n"), rolled_up(SUM, granularity="none")), (SUM,), 1),
        ((raw("n", "page"), rolled_up(SUM), rolled_up(MAX)), (SUM,), 3),
    ],
)
def test_a_mixture_is_rewritten_once_and_not_until_the_bound(
    layouts: tuple[SegmentLayout, ...], metrics: tuple[Metric, ...] | None, becomes: int
) -> None:
    """It was written 20 times over: fewer segments were expected each time than can be."""
    target = CompactionTarget(target_bytes=500 * MIB, metrics=metrics, allow_lossy=True)
    segments = [small(f"s{n:02d}", layouts[n % len(layouts)]) for n in range(30)]
    (task,) = plan(segments, target).tasks
    after = apply_tasks(segments, [task], revision=100)
    assert len(after) == becomes
    assert plan(after, target, rewritten=30 * MIB).tasks == []
    if becomes > 3:
        return
    late = [small(f"late{n}", layouts[0]) for n in range(3)]
    (task,) = plan([*after, *late], target, rewritten=30 * MIB).tasks
    folded = apply_tasks([*after, *late], [task], revision=200)
    assert len(folded) <= becomes + 1
    assert plan(folded, target, rewritten=60 * MIB).tasks == []


def test_of_a_mixture_only_what_can_be_put_together_is_rewritten() -> None:
    target = CompactionTarget(target_bytes=500 * MIB)
    alone, large = small("alone", rolled_up(MAX), 100), small("large", raw("n"), 400 * MIB)
    tiny = [small(f"t{n}", raw("n")) for n in range(5)]
    found = [alone, large, *tiny]
    chunk = TimeChunk(DAY, target, found, sum(one.size_bytes for one in found), 1)
    choice = choose(chunk, (), TargetView(target), CompactionSettings(target=target), None)
    assert choice is not None
    assert choice.kind is GroupKind.MINOR
    assert {one.segment_id for one in choice.segments} == {one.segment_id for one in tiny}
    assert (choice.segments_out, choice.benefit) == (1, 4)


def test_each_group_has_its_own_size() -> None:
    view = TargetView(CompactionTarget(target_bytes=1000))
    layouts = [raw("page"), raw("page"), rolled_up(SUM), rolled_up(SUM)]
    sizes = [600, 600, 10, 10]
    segments = [
        PlanSegment(
            segment_id=f"s{n}", start_ms=0, end_ms=DAY_MS, size_bytes=size, rows=1, layout=layout
        )
        for n, (size, layout) in enumerate(zip(sizes, layouts, strict=True))
    ]
    mixture = view.mixture(segments)
    assert mixture is not None
    assert view.ideal_of(segments, mixture) == 3, "1,200 bytes of the one, 20 of the other"
