"""Which time chunks segments fall into, with which share, and what is rewritten of them first."""

from __future__ import annotations

from dataclasses import replace

from carnac.core.compaction.plan.choosing import choose, choose_all, join
from carnac.core.compaction.plan.chunks import TimeChunk, cut_chunks, find_gaps, find_spans
from carnac.core.compaction.plan.groups import CompactionTarget, GroupKind
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.likeness import TargetView
from carnac.core.compaction.plan.settings import CompactionSettings, CostModel
from carnac.core.compaction.plan.target_periods import plan_target_periods
from carnac.core.time.intervals import Interval
from tests.compactions import CHEAP, DAY_MS, HOUR_MS, History

DAYS = [Interval(n * DAY_MS, (n + 1) * DAY_MS) for n in range(4)]
TARGET = CompactionTarget(target_bytes=100, segment_granularity="DAY")
HOW = CompactionSettings(target=TARGET, cost=CHEAP)


def segment(name: str, start_h: int, end_h: int, size_bytes: int = 10, **more: int) -> PlanSegment:
    return PlanSegment(
        segment_id=name,
        start_ms=start_h * HOUR_MS,
        end_ms=end_h * HOUR_MS,
        size_bytes=size_bytes,
        rows=more.get("rows", size_bytes),
    )


def chunks_of(*segments: PlanSegment) -> list[TimeChunk]:
    return cut_chunks(segments, plan_target_periods(HOW, 0))


def test_an_overlapping_segment_is_in_each_chunk_with_its_share_by_time() -> None:
    """Shares are rounded up: no chunk that has rows has none."""
    chunks = chunks_of(segment("a", 18, 54, size_bytes=36, rows=7), segment("b", 30, 31, rows=5))
    assert [one.interval for one in chunks] == DAYS[:3]
    assert [(one.overlaps_prior, one.overlaps_later) for one in chunks] == [
        (False, True),
        (True, True),
        (True, False),
    ]
    assert [[part.size_bytes for part in one.segments] for one in chunks] == [[6], [24, 10], [6]]
    assert [[part.rows for part in one.segments] for one in chunks] == [[2], [5, 5], [2]]
    assert [(one.size_bytes, one.rows) for one in chunks] == [(6, 2), (34, 10), (6, 2)]
    whole = {(part.start_ms, part.end_ms) for one in chunks for part in one.segments[:1]}
    assert whole == {(18 * HOUR_MS, 54 * HOUR_MS)}
    assert not any(one.is_plain for one in chunks)


def test_a_segment_that_fills_its_chunk_overlaps_no_other() -> None:
    first, second = chunks_of(segment("a", 0, 24), segment("b", 24, 48), segment("c", 47, 48))
    assert not any(one.overlaps_prior or one.overlaps_later for one in (first, second))
    assert [part.segment_id for part in second.segments] == ["b", "c"]


def test_a_chunk_is_plain_if_all_of_its_segments_are_of_it_and_whole() -> None:
    def is_plain(*segments: PlanSegment) -> bool:
        (chunk,) = chunks_of(*segments)
        return chunk.is_plain

    live = replace(segment("a", 0, 24), chunk=DAYS[0])
    assert is_plain(live, replace(live, segment_id="b"))
    assert not is_plain(live, replace(live, segment_id="b", is_part=True))
    assert not is_plain(live, segment("b", 0, 24))
    assert not is_plain(live, replace(segment("b", 0, 1), chunk=Interval(0, HOUR_MS)))


def test_spans_end_where_all_segments_have_ended() -> None:
    spans = find_spans([segment("c", 30, 40), segment("a", 0, 10), segment("b", 2, 5)])
    assert spans.intervals == (
        Interval(0, 10 * HOUR_MS),
        Interval(30 * HOUR_MS, 40 * HOUR_MS),
    )
    assert find_gaps(spans).intervals == (Interval(10 * HOUR_MS, 30 * HOUR_MS),)
    assert len(find_spans([segment("a", 0, 10), segment("b", 10, 11)])) == 1
    assert not find_gaps(find_spans([]))


def day(*sizes: int) -> TimeChunk:
    (chunk,) = chunks_of(*(segment(f"s{n}", 0, 24, size) for n, size in enumerate(sizes)))
    return chunk


def test_what_is_rewritten_comes_smallest_first() -> None:
    chunk = day(40, 7, 2, 7)
    view = TargetView(TARGET)
    forced = [one for one in chunk.segments if one.size_bytes == 40]
    for choice in (
        choose(chunk, forced, view, HOW, None),
        choose(chunk, (), view, replace(HOW, slack=0), None),
        choose_all(chunk, view, HOW, None),
    ):
        assert choice is not None
        assert [one.segment_id for one in choice.segments] == ["s2", "s1", "s3", "s0"]


def test_what_a_choice_is_worth() -> None:
    view = TargetView(TARGET)
    (chunk, other) = day(60, 60, 30, 2), day(90, 1)
    choice = choose_all(chunk, view, HOW, History(arrived_bytes=76, rewritten_bytes=0), forced=1)
    assert (choice.kind, choice.segments_out, choice.benefit) == (GroupKind.MAJOR, 2, 3)
    assert (choice.gain, choice.cost) == (300, 4 + 4 + 152)
    assert (choice.size_bytes, choice.rows, choice.write_amplification) == (152, 152, 2.0)
    both = join([choice, choose_all(other, view, HOW, None)], HOW.cost)
    assert both.kind is GroupKind.MAJOR
    assert (len(both.segments), both.segments_out, both.benefit) == (6, 3, 4)
    opened = len({one.segment_id for one in both.segments})
    assert (both.gain, both.cost) == (400, HOW.cost.cost(opened, 243)), "it starts once"
    assert (both.size_bytes, both.rows, both.write_amplification) == (243, 243, 2.0)


def test_one_segment_of_many_chunks_is_opened_once_and_what_is_made_counts() -> None:
    view = TargetView(TARGET)
    (chunk,) = [day(60)]
    choice = choose_all(chunk, view, HOW, None, forced=1)
    many = join([choice] * 5, HOW.cost)
    assert (len(many.segments), many.segments_out) == (5, 5)
    assert many.cost == HOW.cost.cost(5, 300) < 5 * choice.cost, "five are made of the one"


def test_a_chunk_that_was_written_too_often_is_let_be() -> None:
    view, chunk = TargetView(TARGET), day(10, 10, 10)
    tired = History(arrived_bytes=30, rewritten_bytes=30 * 20)
    assert choose(chunk, (), view, HOW, tired) is None
    fresh = tired._replace(rewritten_bytes=30 * 19)
    found = choose(chunk, (), view, HOW, fresh)
    assert found is not None
    assert found.write_amplification == 20.0
    # what must be rewritten is, and alone
    forced = choose(chunk, chunk.segments[:1], view, HOW, tired)
    assert forced is not None
    assert forced.segments == tuple(chunk.segments[:1])


def test_what_must_be_rewritten_does_not_count_against_the_bound() -> None:
    """What is folded along with it does."""
    view, chunk = TargetView(TARGET), day(90, 5, 4, 3, 2, 1)
    forced = [one for one in chunk.segments if one.size_bytes == 90]
    for rewritten, taken in ((90, 5), (95, 5), (96, 1)):
        history = History(arrived_bytes=105, rewritten_bytes=rewritten)
        how = replace(HOW, slack=0, write_amplification_max=1.0)
        choice = choose(chunk, forced, view, how, history)
        assert choice is not None
        assert len(choice.segments) == taken, rewritten


def test_what_is_cheap_comes_along_with_what_must_be_rewritten() -> None:
    """Each takes little more than what the group costs anyway, and is one segment less."""
    chunk, view = day(*[1] * 13), TargetView(TARGET)
    how = replace(HOW, slack=3, cost=CostModel(group_bytes=100, segment_bytes=1))
    choice = choose(chunk, chunk.segments[:10], view, how, None)
    assert choice is not None
    assert len(choice.segments) == 13
