"""What of a chunk is rewritten: against trying every choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from carnac.core.compaction.plan.choosing import choose
from carnac.core.compaction.plan.chunks import TimeChunk
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.likeness import TargetView
from carnac.core.compaction.plan.settings import MIB, CompactionSettings
from carnac.core.time.intervals import Interval

DAY = Interval(0, 86_400_000)
UNBOUNDED = 1e9

sizes = st.one_of(
    st.integers(1, 100), st.integers(1, 2 * MIB), st.sampled_from([MIB, 10 * MIB]),
    st.integers(1, 70 * MIB),
)  # fmt: skip
segments = st.lists(st.tuples(sizes, st.integers(1, 5_000)), min_size=1, max_size=40).map(
    lambda found: [
        PlanSegment(
            segment_id=f"s{n:02d}", start_ms=0, end_ms=DAY.end_ms, size_bytes=size, rows=rows
        )
        for n, (size, rows) in enumerate(found)
    ]
)
targets = st.builds(
    CompactionTarget,
    target_bytes=st.sampled_from([None, MIB, 16 * MIB]),
    target_rows=st.sampled_from([1_000, 20_000, 5_000_000]),
)


class Option(NamedTuple):
    """A choice, as plainly as can be said."""

    k: int
    chosen: Sequence[PlanSegment]
    out: int
    worth: float


def worth_most(
    free: Sequence[PlanSegment],
    forced: Sequence[PlanSegment],
    view: TargetView,
    settings: CompactionSettings,
) -> Option | None:
    """Try the forced segments with any number of the smallest others; of equals the largest."""
    every = [*forced, *free]
    allowed = ideal(view, every) + settings.slack
    best = None
    for k in range(len(free) + 1):
        chosen = [*forced, *free[:k]]
        out = ideal(view, chosen) if chosen else 0
        benefit = len(forced) + max(len(chosen) - out, 0)
        if not benefit or len(free) - k + out > allowed:
            continue  # nothing is gained, or the chunk would not be stable
        cost = settings.cost.cost(len(chosen), sum(one.size_bytes for one in chosen))
        if best is None or benefit / cost >= best.worth:
            best = Option(k, chosen, out, benefit / cost)
    return best


def ideal(view: TargetView, chosen: Sequence[PlanSegment]) -> int:
    return view.ideal(sum(one.size_bytes for one in chosen), sum(one.rows for one in chosen))


@given(segments, st.data(), targets, st.integers(0, 3))
def test_of_all_choices_the_one_with_most_benefit_by_cost_is_taken(
    found: list[PlanSegment], data: st.DataObject, target: CompactionTarget, slack: int
) -> None:
    forced = data.draw(st.one_of(st.just([]), st.lists(st.sampled_from(found), unique=True)))
    names = {one.segment_id for one in forced}
    settings = CompactionSettings(target=target, slack=slack, write_amplification_max=UNBOUNDED)
    view = TargetView(target)
    chunk = TimeChunk(
        DAY, target, found, sum(one.size_bytes for one in found), sum(one.rows for one in found)
    )
    free = sorted(
        (one for one in found if one.segment_id not in names),
        key=lambda one: (one.size_bytes, one.segment_id),
    )
    expected = worth_most(free, forced, view, settings)
    choice = choose(chunk, forced, view, settings, None)
    if expected is None:
        # what must be rewritten is, though the chunk will not be stable after it
        assert (choice is None) == (not forced)
        return
    assert choice is not None
    taken = {one.segment_id for one in choice.segments}
    assert len(taken) == len(choice.segments)
    k = len(choice.segments) - len(forced)
    assert taken == names | {one.segment_id for one in free[:k]}, "the smallest of the others"
    assert k >= expected.k, "less is worth less"
    for more in range(expected.k, k):
        # larger ones that gathered bytes are worth, and that make no segment more
        gathered = [*forced, *free[:more]]
        arrival = sum(one.size_bytes for one in gathered[:-1]) // max(len(gathered) - 1, 1)
        size = free[more].size_bytes
        assert sum(one.size_bytes for one in gathered) ** 2 >= 2 * size * arrival
        assert ideal(view, [*gathered, free[more]]) == expected.out
    assert choice.segments_out == ideal(view, choice.segments)
