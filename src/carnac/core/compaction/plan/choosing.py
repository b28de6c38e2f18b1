"""The segments of a chunk to rewrite: as few as serve, where each byte that is written buys the most.

A choice has a *benefit* (segments that the chunk loses, and segments that become as the target asks for) and a *cost*
(`CostModel`). Only choices count after which the chunk is stable. Of them the one with the most benefit per cost is
taken: to fold ten tiny segments beside a large one it takes the ten; to fold ten of one size it takes all.

Taking the cheapest each time would fold the same middling segment again and again. So a choice grows by the next larger
segment once what it folds is worth it: with folds of `a` new bytes each, a segment of `s` bytes is rewritten least in
the long run if it is taken whenever `sqrt(2 a s)` bytes have gathered beside it. (The gathering costs about
`m² / 2a` for m bytes, the large fold `s`; the sum per byte gathered is least at that m.) The bytes written for n equal
arrivals are then about `sqrt(2 n)` times what arrived; `write_amplification_max` bounds it in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeAlias

from carnac.core.compaction.plan.chunks import TimeChunk
from carnac.core.compaction.plan.groups import GroupKind
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.likeness import Mixture, TargetView, shares_of
from carnac.core.compaction.plan.settings import CompactionSettings, CostModel

_by_size = attrgetter("size_bytes", "segment_id")
_name_of, _size_of = attrgetter("segment_id"), attrgetter("size_bytes")
_rows_of = attrgetter("rows")
_MINOR, _MAJOR = GroupKind.MINOR, GroupKind.MAJOR  # looking up a member takes longer than using it


class ChunkHistory(Protocol):
    """The history of a chunk, as its state tells it."""

    @property
    def arrived_bytes(self) -> int:
        """Bytes of segments that others than compaction put there; 0: not known."""

    @property
    def rewritten_bytes(self) -> int:
        """Bytes that compaction has written there."""


class Choice(NamedTuple):
    """Segments of a chunk that become others.

    Attributes:
        segments: Segments to rewrite, smallest first.
        segments_out: How many are expected to come out.
        benefit: Segments that the chunk loses, and segments that become as the target asks for.
        gain: Value of the benefit in bytes of the cost model: so many segments of the target's size.
        cost: Of the cost model, in bytes.
        size_bytes: Bytes that are read.
        rows: Rows that are read.
        write_amplification: Bytes that compaction will have written in the chunk, by bytes that arrived in it.
    """

    kind: GroupKind
    segments: tuple[PlanSegment, ...]
    segments_out: int
    benefit: int
    gain: int
    cost: int
    size_bytes: int
    rows: int
    write_amplification: float


_new_choice = partial(tuple.__new__, Choice)  # half of what `Choice(...)` takes


def join(choices: Sequence[Choice], model: CostModel) -> Choice:
    """Return the choices of whole chunks as one, which starts once and opens each segment once.

    Where it makes more segments than it opens, these are what it costs.
    """
    segments = tuple([segment for one in choices for segment in one.segments])
    size_bytes = sum([one.size_bytes for one in choices])
    segments_out = sum([one.segments_out for one in choices])
    opened = len({one.segment_id for one in segments})
    return Choice(
        kind=_MAJOR,
        segments=segments,
        segments_out=segments_out,
        benefit=sum([one.benefit for one in choices]),
        gain=sum([one.gain for one in choices]),
        cost=model.cost(max(opened, segments_out), size_bytes),
        size_bytes=size_bytes,
        rows=sum([one.rows for one in choices]),
        write_amplification=max(one.write_amplification for one in choices),
    )


def choose_all(
    chunk: TimeChunk,
    view: TargetView,
    settings: CompactionSettings,
    history: ChunkHistory | None,
    *,
    forced: int = 0,
) -> Choice:
    """Return the choice of a whole chunk.

    Args:
        forced: How many of the segments must be rewritten whatever their number, or buckets get segments of their own.
    """
    ordered, size_bytes = sorted(chunk.segments, key=_size_of), chunk.size_bytes
    out, mixture = view.measure(chunk.segments, size_bytes, chunk.rows)
    if chunk.buckets > 1:
        out = _written_to_buckets(view, ordered, chunk, mixture)
    benefit = forced + max(len(ordered) - out, 0)
    return Choice(
        kind=_MAJOR,
        segments=tuple(ordered),
        segments_out=out,
        benefit=benefit,
        gain=benefit * view.unit_bytes,
        cost=settings.cost.cost(
            max(len(ordered), out) if chunk.buckets > 1 else len(ordered), size_bytes
        ),
        size_bytes=size_bytes,
        rows=chunk.rows,
        write_amplification=_amplification(history, size_bytes, size_bytes),
    )


def choose(
    chunk: TimeChunk,
    forced: Sequence[PlanSegment],
    view: TargetView,
    settings: CompactionSettings,
    history: ChunkHistory | None,
) -> Choice | None:
    """Return what to rewrite of a chunk whose segments overlap no other; None if all would be written too often.

    Args:
        forced: Those of the segments that must be rewritten: too large, or not as the target asks for.
    """
    options = _Options(chunk, forced, view, settings, history)
    best, frugal = options.best()
    if best is None or frugal is None:
        return None
    choice = options.choice(options.grown(best))
    if options.may(choice):
        return choice
    choice = options.choice(frugal)
    if options.may(choice):
        return choice
    # the forced segments are not given up for the rest
    return options.choice(options.option(0)) if forced else None


class _Count:
    """How many segments come out of a rewrite of a mixture, input group by input group."""

    def __init__(self, view: TargetView, mixture: Mixture) -> None:
        self._view, self._input_groups = view, mixture
        self._shares: dict[int, tuple[int, int, int]] = {}
        self.out = 0

    def add(self, one: PlanSegment) -> int:
        """Add a segment; return how many come out now."""
        number = self._input_groups[id(one.layout)]
        size_bytes, rows, out = self._shares.get(number, (0, 0, 0))
        size_bytes, rows = size_bytes + one.size_bytes, rows + one.rows
        now = self._view.ideal(size_bytes, rows)
        self._shares[number] = size_bytes, rows, now
        self.out += now - out
        return self.out


_Option: TypeAlias = tuple[int, int, int, int]
"""A choice of the forced segments and the k smallest of the others: k, their bytes and rows, and what comes out."""


class _Options:
    """The choices of a chunk."""

    __slots__ = (
        "_allowed",
        "_forced",
        "_free",
        "_history",
        "_mixture",
        "_settings",
        "_total_bytes",
        "_view",
    )

    def __init__(
        self,
        chunk: TimeChunk,
        forced: Sequence[PlanSegment],
        view: TargetView,
        settings: CompactionSettings,
        history: ChunkHistory | None,
    ) -> None:
        segments, size_bytes = chunk.segments, chunk.size_bytes
        ideal, self._mixture = view.measure(segments, size_bytes, chunk.rows)
        free = sorted(segments, key=_size_of)  # those of one size in the order of their names
        if forced:
            ids = set(map(_name_of, forced))
            free = [one for one in free if one.segment_id not in ids]
        self._forced, self._free, self._total_bytes = forced, free, size_bytes
        self._view, self._settings, self._history = view, settings, history
        self._allowed = settings.slack + ideal

    def option(self, k: int) -> _Option:
        """Return the option with this k."""
        return self._measured(self._free[:k])

    def _measured(self, free: Sequence[PlanSegment]) -> _Option:
        chosen = [*self._forced, *free] if self._forced else free
        size_bytes = rows = 0
        for one in chosen:
            size_bytes, rows = size_bytes + one.size_bytes, rows + one.rows
        view, mixture = self._view, self._mixture
        out = view.ideal_of(chosen, mixture) if mixture else view.ideal(size_bytes, rows)
        return len(free), size_bytes, rows, out

    def best(self) -> tuple[_Option | None, _Option | None]:
        """Return the option that is worth most, and the smallest one that serves; None if none serves."""
        free, fixed, allowed = self._free, len(self._forced), self._allowed
        model, mixture, total = self._settings.cost, self._mixture, len(free)
        # with fewer the chunk would not become stable, or would lose no segment
        first = max(total - allowed + 1, 0 if fixed else 2)
        best = frugal = None
        if first > total:
            return best, frugal
        most, each = 0.0, model.segment_bytes
        k, size_bytes, rows, out = option = self.option(first)
        count = None if mixture is None else self._count(mixture, first)
        cost = model.cost(fixed + k, size_bytes)
        while True:
            surplus = k + fixed - out
            benefit = fixed + surplus if surplus > 0 else fixed
            if benefit and total - k + out <= allowed:
                worth = benefit / cost
                if worth >= most:
                    best, most = option, worth
                if frugal is None:
                    frugal = option
            if k == total:
                break
            segment = free[k]
            k, cost = k + 1, cost + each + segment.size_bytes
            if (fixed + fixed + total) / cost < most:
                break  # costs grow: nothing that comes can be worth more
            size_bytes, rows = size_bytes + segment.size_bytes, rows + segment.rows
            out = self._view.ideal(size_bytes, rows) if count is None else count.add(segment)
            option = k, size_bytes, rows, out
        return best, frugal

    def grown(self, option: _Option) -> _Option:
        """Return the option or a larger one: the fold takes the next segment along once it is worth that."""
        k, gathered, rows, out = option
        free, fixed, mixture = self._free, len(self._forced), self._mixture
        count = None if mixture is None else self._count(mixture, k)
        while 0 < k < len(free):
            segment = free[k]
            arrival = (gathered - free[k - 1].size_bytes) // max(fixed + k - 1, 1)
            if gathered * gathered < 2 * segment.size_bytes * arrival:
                break
            size_bytes, rows_too = gathered + segment.size_bytes, rows + segment.rows
            out_too = (
                self._view.ideal(size_bytes, rows_too) if count is None else count.add(segment)
            )
            if fixed + k + 1 <= out or out_too != out:
                break  # the larger one would lose no segment more
            k, gathered, rows = k + 1, size_bytes, rows_too
        return k, gathered, rows, out

    def choice(self, option: _Option) -> Choice:
        """Return an option as a value."""
        k, size_bytes, rows, out = option
        chosen, fixed = self._free[:k], len(self._forced)
        if self._mixture is not None and k:
            chosen = self._useful(chosen)
            k, size_bytes, rows, out = self._measured(chosen)
        if fixed:
            chosen = sorted((*self._forced, *chosen), key=_by_size)
        benefit = fixed + max(fixed + k - out, 0)
        kind = _MAJOR if k == len(self._free) else _MINOR
        gain = benefit * self._view.unit_bytes
        cost = self._settings.cost.cost(fixed + k, size_bytes)
        written = _amplification(self._history, size_bytes, self._total_bytes)
        return _new_choice(
            (kind, tuple(chosen), out, benefit, gain, cost, size_bytes, rows, written)
        )

    def _count(self, mixture: Mixture, k: int) -> _Count:
        """Return what comes out of the option with this k, to be added to."""
        count = _Count(self._view, mixture)
        for one in (*self._forced, *self._free[:k]):
            count.add(one)
        return count

    def _useful(self, free: Sequence[PlanSegment]) -> list[PlanSegment]:
        """Return what is chosen without the input groups of which as many segments come out as go in."""
        input_groups = self._mixture or {}
        forced = {input_groups[id(one.layout)] for one in self._forced}
        mine: dict[int, list[PlanSegment]] = {}
        for one in free:
            mine.setdefault(input_groups[id(one.layout)], []).append(one)
        vain = {
            number
            for number, chosen in mine.items()
            if number not in forced
            and len(chosen)
            <= self._view.ideal(sum(map(_size_of, chosen)), sum(map(_rows_of, chosen)))
        }
        return [one for one in free if input_groups[id(one.layout)] not in vain]

    def may(self, choice: Choice) -> bool:
        """Whether writing it keeps the bound. Segments that must be rewritten anyway do not count."""
        bound = self._settings.write_amplification_max
        if choice.write_amplification <= bound:
            return True
        size_bytes = choice.size_bytes - sum([one.size_bytes for one in self._forced])
        return (
            not size_bytes or _amplification(self._history, size_bytes, self._total_bytes) <= bound
        )


def _written_to_buckets(
    view: TargetView, chosen: Sequence[PlanSegment], chunk: TimeChunk, mixture: Mixture | None
) -> int:
    """Return how many segments a rewrite makes of a chunk of several buckets, each of which has some of its own."""
    shares = [(chunk.size_bytes, chunk.rows)] if mixture is None else shares_of(chosen, mixture)
    return sum(max(view.ideal(*one), min(chunk.buckets, one[1])) for one in shares)


def _amplification(history: ChunkHistory | None, size_bytes: int, total_bytes: int) -> float:
    if history is None or not history.arrived_bytes:
        return size_bytes / max(total_bytes, 1)
    return (history.rewritten_bytes + size_bytes) / history.arrived_bytes
