"""Which segments of a chunk to rewrite: as few as serve, where each byte that is written buys the most.

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
from operator import attrgetter
from typing import NamedTuple

from carnac.core.compaction.chunks import TimeChunk
from carnac.core.compaction.groups import GroupKind
from carnac.core.compaction.inputs import PlanSegment
from carnac.core.compaction.likeness import TargetView
from carnac.core.compaction.settings import CompactionSettings

_by_size = attrgetter("size_bytes", "segment_id")
_name_of, _size_of = attrgetter("segment_id"), attrgetter("size_bytes")
_MINOR, _MAJOR = GroupKind.MINOR, GroupKind.MAJOR  # looking up a member takes longer than using it


class ChunkHistory(NamedTuple):
    """What a chunk has gone through.

    Attributes:
        arrived_bytes: Bytes of segments that others than compaction put there.
        rewritten_bytes: Bytes that compaction has written there.
    """

    arrived_bytes: int = 0
    rewritten_bytes: int = 0


class Choice(NamedTuple):
    """Segments of a chunk that become others.

    Attributes:
        segments: What is rewritten, smallest first.
        segments_out: How many are expected to come out.
        benefit: Segments that the chunk loses, and segments that become as the target asks for.
        cost: Of the cost model, in bytes.
        size_bytes: Bytes that are read.
        rows: Rows that are read.
        write_amplification: Bytes that compaction will have written in the chunk, by bytes that arrived in it.
    """

    kind: GroupKind
    segments: tuple[PlanSegment, ...]
    segments_out: int
    benefit: int
    cost: int
    size_bytes: int
    rows: int
    write_amplification: float


def join(choices: Sequence[Choice]) -> Choice:
    """Return the choices of whole chunks as one."""
    return Choice(
        kind=_MAJOR,
        segments=tuple([segment for one in choices for segment in one.segments]),
        segments_out=sum([one.segments_out for one in choices]),
        benefit=sum([one.benefit for one in choices]),
        cost=sum([one.cost for one in choices]),
        size_bytes=sum([one.size_bytes for one in choices]),
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
        forced: How many of the segments must be rewritten whatever their number.
    """
    ordered, size_bytes = _smallest_first(chunk.segments), chunk.size_bytes
    out = view.ideal(size_bytes, chunk.rows)
    return Choice(
        kind=_MAJOR,
        segments=tuple(ordered),
        segments_out=out,
        benefit=forced + max(len(ordered) - out, 0),
        cost=settings.cost.cost(len(ordered), size_bytes),
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
    free, fixed = _smallest_first(chunk.segments), list(forced)
    if fixed:
        ids = {one.segment_id for one in forced}
        fixed.sort(key=_by_size)
        free = [one for one in free if one.segment_id not in ids]
    options = _Options(chunk, fixed, free, view, settings, history=history)
    best = options.best()
    if best is None:
        return None
    return options.choice(best)


def _smallest_first(segments: Sequence[PlanSegment]) -> list[PlanSegment]:
    """Return the segments by size, those of one size by name: two plain keys sort faster than one of both."""
    ordered = sorted(segments, key=_name_of)
    ordered.sort(key=_size_of)
    return ordered


class _Options:
    """The choices of a chunk: the forced segments, and the k smallest of the others."""

    __slots__ = (
        "_allowed",
        "_fixed",
        "_forced_bytes",
        "_free",
        "_history",
        "_rows",
        "_settings",
        "_sizes",
        "_total_bytes",
        "_view",
    )

    def __init__(
        self,
        chunk: TimeChunk,
        fixed: Sequence[PlanSegment],
        free: Sequence[PlanSegment],
        view: TargetView,
        settings: CompactionSettings,
        *,
        history: ChunkHistory | None,
    ) -> None:
        self._fixed, self._free, self._view = fixed, free, view
        self._settings, self._history = settings, history
        self._forced_bytes = sum([one.size_bytes for one in fixed]) if fixed else 0
        self._total_bytes = chunk.size_bytes
        self._allowed = view.ideal(chunk.size_bytes, chunk.rows) + settings.slack
        # of the choices, by their k, as far as they were asked for: most searches end long before the last one
        self._sizes = [self._forced_bytes]
        self._rows = [sum([one.rows for one in fixed]) if fixed else 0]

    def best(self) -> int | None:
        """Return the k of the best choice; None if there is none that the bound on writing allows."""
        found = frugal = None
        most = 0.0
        allowed, fixed, free = self._allowed, len(self._fixed), len(self._free)
        sizes, rows, ideal = self._sizes, self._rows, self._view.ideal
        model = self._settings.cost
        least, each = model.group_bytes + fixed * model.segment_bytes, model.segment_bytes
        benefit_max = fixed + fixed + free
        first = (
            free - allowed if free > allowed else 0
        )  # with fewer the chunk would not become stable
        for k in range(first, free + 1):
            cost = least + k * each + (sizes[k] if k < len(sizes) else self._size(k))
            if benefit_max / cost < most:
                break  # costs grow: nothing that comes can be worth more
            out = ideal(sizes[k], rows[k]) if k or fixed else 0
            surplus = k + fixed - out
            benefit = fixed + surplus if surplus > 0 else fixed
            if not benefit or free - k + out > allowed:
                continue  # it buys nothing, or would not make the chunk stable
            if benefit / cost >= most:
                found, most = k, benefit / cost
            if frugal is None:
                frugal = k
        if found is None or frugal is None:
            return None
        best = self._grown(found)
        for choice in (best, frugal):
            if self._may(choice):
                return choice
        return 0 if self._fixed else None  # what must be rewritten is not given up for the rest

    def choice(self, k: int) -> Choice:
        """Return a choice as a value."""
        chosen, size_bytes = self._free[:k], self._size(k)
        if self._fixed:
            chosen = sorted((*self._fixed, *chosen), key=_by_size)
        out, fixed = self._out(k), len(self._fixed)
        return Choice(
            _MAJOR if k == len(self._free) else _MINOR,
            tuple(chosen),
            out,
            fixed + max(k + fixed - out, 0),
            self._settings.cost.cost(fixed + k, size_bytes),
            size_bytes,
            self._rows[k],
            _amplification(self._history, size_bytes, self._total_bytes),
        )

    def _out(self, k: int) -> int:
        """Return how many segments come out of a choice; more of a larger one, or as many."""
        if not k and not self._fixed:
            return 0
        return self._view.ideal(self._size(k), self._rows[k])

    def _size(self, k: int) -> int:
        """Return the bytes of a choice."""
        sizes, rows = self._sizes, self._rows
        for segment in self._free[len(sizes) - 1 : k]:
            sizes.append(sizes[-1] + segment.size_bytes)
            rows.append(rows[-1] + segment.rows)
        return sizes[k]

    def _grown(self, k: int) -> int:
        """Return k or a larger one: what is folded takes the next segment along once it is worth it."""
        while 0 < k < len(self._free):
            gathered, following = self._size(k), self._free[k].size_bytes
            folded = len(self._fixed) + k
            arrival = (gathered - self._free[k - 1].size_bytes) // max(folded - 1, 1)
            if gathered * gathered < 2 * following * arrival or not self._helps(k + 1):
                break
            k += 1
        return k

    def _helps(self, k: int) -> bool:
        """Whether the largest segment of a choice adds to its benefit."""
        fixed = len(self._fixed)
        return k + fixed > self._out(k) and self._out(k) == self._out(k - 1)

    def _may(self, k: int) -> bool:
        """Whether writing it keeps the bound; what must be rewritten anyway does not count."""
        size = self._size(k) - self._forced_bytes
        bound = self._settings.write_amplification_max
        return not size or _amplification(self._history, size, self._total_bytes) <= bound


def _amplification(history: ChunkHistory | None, size_bytes: int, total_bytes: int) -> float:
    if history is None:
        return size_bytes / max(total_bytes, 1)
    arrived = max(history.arrived_bytes, 1)
    return (history.rewritten_bytes + size_bytes) / arrived
