"""The score of a time chunk: the action that it needs, its urgency, and the reason.

Source: "Compaction Notes", the third step, "a set of rules". A rule takes a chunk and what is known besides, and
returns a score, or None to leave it to the next rule; the last one always scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from carnac.core.compaction.plan.choosing import Choice, ChunkHistory, choose, choose_all
from carnac.core.compaction.plan.chunks import TimeChunk
from carnac.core.compaction.plan.groups import CompactionTarget, GroupKind
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.likeness import Mixture, TargetView
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.target_periods import Extent
from carnac.core.time.intervals import MAX_MS, Interval, IntervalSet, time_text
from carnac.core.words import bytes_text, chunk_text, counted, granularity_text, number_text


class Action(StrEnum):
    """The action that a score asks for. The words are those of the source."""

    EMPTY = "empty"
    STABLE = "stable"
    COMPACT = "compact"
    NO_OPINION = "no opinion"


# looking up a member of an enumeration takes longer than using it
_COMPACT, _STABLE, _MINOR = Action.COMPACT, Action.STABLE, GroupKind.MINOR
_CUT, _COARSE = Extent.CUT, Extent.COARSE


class Score(NamedTuple):
    """The planner's judgement of a chunk.

    Attributes:
        reason: Why, for people; one clause without a full stop.
        priority: Of `compact`, 0..1: the benefit by its cost; else 0.
        choice: Of `compact`: the segments to rewrite.
        may_join: Of `no opinion`: whether the chunk goes along if a neighbour with which it shares a segment is
            compacted.
    """

    action: Action
    reason: str
    priority: float = 0.0
    choice: Choice | None = None
    may_join: bool = False


_new_score = partial(tuple.__new__, Score)  # half of what `Score(...)` takes


@dataclass(slots=True, kw_only=True)
class Situation:
    """The facts that rules may use besides the chunk.

    Attributes:
        skip_from_ms: Chunks that end after it are too new.
        within: Only chunks that lie in one of these are planned; None: all.
        histories: By chunk.
    """

    settings: CompactionSettings
    skip_from_ms: int = MAX_MS
    within: IntervalSet | None = None
    histories: Mapping[Interval, ChunkHistory] = field(default_factory=dict)
    views: dict[int, TargetView] = field(default_factory=dict)

    def view(self, target: CompactionTarget) -> TargetView:
        """Return the target, ready to be compared with."""
        found = self.views.get(id(target))
        if found is None:
            found = self.views[id(target)] = TargetView(target)
        return found


def score_chunk(chunk: TimeChunk, situation: Situation) -> Score:
    """Return the score that the first rule with an opinion gives."""
    for rule in _RULES:
        score = rule(chunk, situation)
        if score is not None:
            return score
    return score_stable(chunk, situation)


def leave_alone(reason: str) -> Score:
    """Return the score of a chunk that is not to be touched now."""
    return Score(action=Action.NO_OPINION, reason=reason)


def score_left_alone(chunk: TimeChunk, situation: Situation) -> Score | None:
    """Leave alone what is not asked for, too new or too large."""
    interval = chunk.interval
    if chunk.extent is _CUT:
        return leave_alone(
            "the border of two age rules cuts it; it is judged when the border has moved on"
        )
    if situation.within is not None and not situation.within.contains(interval):
        return leave_alone("it is not wholly inside the interval that was asked for")
    if interval.end_ms > situation.skip_from_ms:
        offset = situation.settings.skip_offset
        newest = time_text(situation.skip_from_ms)
        return leave_alone(
            f"too new: skipOffsetFromLatest {offset} leaves alone what ends after {newest}"
        )
    size_bytes = chunk.size_bytes
    if size_bytes > situation.settings.input_bytes_max:
        limit = bytes_text(situation.settings.input_bytes_max)
        return leave_alone(f"too large: {bytes_text(size_bytes)}, inputSegmentSizeBytes is {limit}")
    return None


def score_misaligned(chunk: TimeChunk, situation: Situation) -> Score | None:
    """A chunk whose live time chunks are not what the target asks for is compacted as a whole."""
    if chunk.is_plain or chunk.target.segment_granularity is None:
        return None
    first = chunk.segments[0].chunk
    others = {one.chunk for one in chunk.segments if one.chunk is not first}
    live = {one for one in {first, *others} if one is not None}
    if chunk.extent is not _COARSE:
        live.discard(chunk.interval)
    if not live:
        return None
    choice = _choose_all(chunk, situation, forced=max(len(chunk.segments), chunk.buckets))
    example = min(live)
    rest = "" if len(live) == 1 else f" and {len(live) - 1:,} more"
    return _compact(
        chunk,
        choice,
        f"segment granularity {granularity_text(chunk.target.segment_granularity)} is asked for; "
        f"there is the time chunk {chunk_text(example)}{rest}",
    )


def score_unlike(chunk: TimeChunk, situation: Situation) -> Score | None:
    """A chunk with segments that are not as its target asks for is compacted: those, and what is small beside them."""
    view = situation.view(chunk.target)
    unlike = view.unlike(chunk.segments) if view.asks_layout else ()
    if not unlike:
        return None
    first = min(unlike, key=lambda one: one.segment_id)
    words = view.difference(first.layout)
    of_all = f"{len(unlike):,} of {counted(len(chunk.segments), 'segment')}"
    oversize = view.oversize(chunk.segments)
    names = {one.segment_id for one in unlike}
    forced = [*unlike, *(one for one in oversize if one.segment_id not in names)]
    if chunk.overlaps_prior or chunk.overlaps_later:
        choice = _choose_all(chunk, situation, forced=len(forced))
    else:
        found = _choose(chunk, situation, forced)
        if found is None:
            return None
        choice = found
    return _compact(chunk, choice, f"{of_all} not as asked for: {words}")


def score_oversize(chunk: TimeChunk, situation: Situation) -> Score | None:
    """A chunk with a segment that is too large is compacted."""
    view = situation.view(chunk.target)
    oversize = view.oversize(chunk.segments)
    if not oversize:
        return None
    largest = max(oversize, key=lambda one: (one.size_bytes, one.segment_id))
    reason = (
        f"{counted(len(oversize), 'segment')} too large: "
        f"{bytes_text(largest.size_bytes)}, {counted(largest.rows, 'row')}"
    )
    if chunk.overlaps_prior or chunk.overlaps_later:
        return _compact(chunk, _choose_all(chunk, situation, forced=len(oversize)), reason)
    choice = _choose(chunk, situation, oversize)
    return None if choice is None else _compact(chunk, choice, reason)


def score_overlapping(chunk: TimeChunk, situation: Situation) -> Score | None:
    """A chunk that shares segments with a neighbour: no opinion if sizes are stable, compact otherwise."""
    if not (chunk.overlaps_prior or chunk.overlaps_later):
        return None
    count, (ideal, _) = len(chunk.segments), _measure(chunk, situation.view(chunk.target))
    sides = [
        side
        for side, there in (("prior", chunk.overlaps_prior), ("later", chunk.overlaps_later))
        if there
    ]
    where = f"it overlaps the {' and the '.join(sides)} chunk"
    if count <= ideal + situation.settings.slack:
        return Score(
            action=Action.NO_OPINION,
            reason=f"{where}, and its sizes are stable",
            may_join=True,
        )
    choice = _choose_all(chunk, situation)
    words = f"{counted(count, 'segment')} where {number_text(ideal)} would do; {where}"
    return _compact(chunk, choice, words)


def score_fragmented(chunk: TimeChunk, situation: Situation) -> Score | None:
    """A chunk with more segments than its size asks for, and some slack, is compacted."""
    count, view = len(chunk.segments), situation.view(chunk.target)
    ideal, mixture = _measure(chunk, view)
    if count <= ideal + situation.settings.slack:
        return None
    history = situation.histories.get(chunk.interval)
    choice = choose(chunk, (), view, situation.settings, history)
    if choice is None:
        bound = situation.settings.write_amplification_max
        return leave_alone(
            f"{counted(count, 'segment')} where {ideal:,} would do, but compaction has written as much here as "
            f"it may: {bound:g} times what arrived; judged again when more has arrived"
        )
    words = f"{counted(count, 'segment')} where {number_text(ideal)} would do{_kinds(mixture)}"
    return _compact(chunk, choice, words)


def score_stable(chunk: TimeChunk, situation: Situation) -> Score:
    """A chunk that no earlier rule wants to change is stable."""
    count = len(chunk.segments)
    ideal, mixture = _measure(chunk, situation.view(chunk.target))
    words = f"{counted(count, 'segment')}, {bytes_text(chunk.size_bytes)}"
    if count > ideal:
        surplus = count - ideal
        words += f"; {ideal:,} would do, {surplus:,} more {'is' if surplus == 1 else 'are'} let be"
    return Score(_STABLE, words + _kinds(mixture))


_RULES = (
    score_left_alone,
    score_misaligned,
    score_unlike,
    score_oversize,
    score_overlapping,
    score_fragmented,
)


def _measure(chunk: TimeChunk, view: TargetView) -> tuple[int, Mixture | None]:
    """Return how many segments would do, and the input groups of those that are there."""
    return view.measure(chunk.segments, chunk.size_bytes, chunk.rows)


def _kinds(mixture: Mixture | None) -> str:
    """Return what to say of a chunk whose segments cannot all be put together."""
    if mixture is None:
        return ""
    return f", of {max(mixture.values()) + 1:,} kinds of rows that never share a segment"


def _choose_all(chunk: TimeChunk, situation: Situation, *, forced: int = 0) -> Choice:
    history = situation.histories.get(chunk.interval)
    view = situation.view(chunk.target)
    return choose_all(chunk, view, situation.settings, history, forced=forced)


def _choose(chunk: TimeChunk, situation: Situation, forced: Sequence[PlanSegment]) -> Choice | None:
    history = situation.histories.get(chunk.interval)
    view = situation.view(chunk.target)
    return choose(chunk, forced, view, situation.settings, history)


def _compact(chunk: TimeChunk, choice: Choice, reason: str) -> Score:
    """Return the score of a chunk that should be compacted; it says what of it, and the priority."""
    kind, segments, segments_out, _, gain, cost, size_bytes, *_ = choice
    count, out = len(segments), number_text(segments_out)
    amount = f"{counted(count, 'segment')} of {bytes_text(size_bytes)}"
    if kind is _MINOR:
        kept = len(chunk.segments) - count
        rest = "1 stays as it is" if kept == 1 else f"{number_text(kept)} stay as they are"
        words = f"{reason}; {amount} become about {out}, {rest}"
    else:
        words = f"{reason}; all of it ({amount}) becomes about {out}"
    return _new_score((_COMPACT, words, gain / (gain + cost), choice, False))
