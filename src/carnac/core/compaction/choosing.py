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
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter

from carnac.core.compaction.groups import GroupKind
from carnac.core.compaction.inputs import PlanSegment
from carnac.core.compaction.likeness import TargetView
from carnac.core.compaction.settings import CompactionSettings

_by_size = attrgetter("size_bytes", "segment_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkHistory:
    """What a chunk has gone through.

    Attributes:
        arrived_bytes: Bytes of segments that others than compaction put there.
        rewritten_bytes: Bytes that compaction has written there.
    """

    arrived_bytes: int = 0
    rewritten_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Segments of a chunk that become others.

    Attributes:
        segments: What is rewritten, smallest first.
        segments_out: How many are expected to come out.
        benefit: Segments that the chunk loses, and segments that become as the target asks for.
        cost: Of the cost model, in bytes.
        write_amplification: Bytes that compaction will have written in the chunk, by bytes that arrived in it.
    """

    kind: GroupKind
    segments: tuple[PlanSegment, ...]
    segments_out: int
    benefit: int
    cost: int
    write_amplification: float

    @property
    def size_bytes(self) -> int:
        """Bytes that are read."""
        return sum([segment.size_bytes for segment in self.segments])

    @property
    def rows(self) -> int:
        """Rows that are read."""
        return sum([segment.rows for segment in self.segments])


def choose_all(
    segments: Sequence[PlanSegment],
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
    ordered = sorted(segments, key=_by_size)
    size_bytes = sum([one.size_bytes for one in ordered])
    out = view.ideal(size_bytes, sum([one.rows for one in ordered]))
    return Choice(
        kind=GroupKind.MAJOR,
        segments=tuple(ordered),
        segments_out=out,
        benefit=forced + max(len(ordered) - out, 0),
        cost=settings.cost.cost(len(ordered), size_bytes),
        write_amplification=_amplification(history, size_bytes, size_bytes),
    )


def choose(
    segments: Sequence[PlanSegment],
    forced: Sequence[PlanSegment],
    view: TargetView,
    settings: CompactionSettings,
    history: ChunkHistory | None,
) -> Choice | None:
    """Return what to rewrite of a chunk whose segments overlap no other; None if all would be written too often.

    Args:
        forced: Those of the segments that must be rewritten: too large, or not as the target asks for.
    """
    free, fixed = sorted(segments, key=_by_size), list(forced)
    if forced:
        ids = {one.segment_id for one in forced}
        fixed.sort(key=_by_size)
        free = [one for one in free if one.segment_id not in ids]
    options = _Options(fixed, free, view, settings, history)
    best = options.best()
    if best is None:
        return None
    return options.choice(best)


class _Options:
    """The choices of a chunk: the forced segments, and the k smallest of the others."""

    def __init__(
        self,
        fixed: Sequence[PlanSegment],
        free: Sequence[PlanSegment],
        view: TargetView,
        settings: CompactionSettings,
        history: ChunkHistory | None,
    ) -> None:
        self._fixed, self._free = fixed, free
        self._settings, self._history = settings, history
        self._forced_bytes = sum([one.size_bytes for one in fixed])
        self.sizes = list(accumulate([one.size_bytes for one in free], initial=self._forced_bytes))
        rows = accumulate([one.rows for one in free], initial=sum([one.rows for one in fixed]))
        self.outs = view.ideals(self.sizes, list(rows))
        if not fixed:
            self.outs[0] = 0
        self._allowed = self.outs[-1] + settings.slack

    def best(self) -> int | None:
        """Return the k of the best choice; None if there is none that the bound on writing allows."""
        found = frugal = None
        most, least = 0.0, 0
        allowed, fixed, free = self._allowed, len(self._fixed), len(self._free)
        model = self._settings.cost
        first = max(free - allowed, 0)  # with fewer the chunk would not become stable
        for k in range(first, free + 1):
            size, out = self.sizes[k], self.outs[k]
            surplus = k + fixed - out
            benefit = fixed + surplus if surplus > 0 else fixed
            if not benefit or free - k + out > allowed:
                continue  # it buys nothing, or would not make the chunk stable
            worth = benefit / (model.group_bytes + (fixed + k) * model.segment_bytes + size)
            if worth >= most:
                found, most = k, worth
            if frugal is None or size < least:
                frugal, least = k, size
        if found is None or frugal is None:
            return None
        best = self._grown(found)
        for choice in (best, frugal):
            if self._may(choice):
                return choice
        return 0 if self._fixed else None  # what must be rewritten is not given up for the rest

    def benefit(self, k: int) -> int:
        """Return the benefit of a choice."""
        return len(self._fixed) + max(k + len(self._fixed) - self.outs[k], 0)

    def cost(self, k: int) -> int:
        """Return the cost of a choice."""
        return self._settings.cost.cost(len(self._fixed) + k, self.sizes[k])

    def choice(self, k: int) -> Choice:
        """Return a choice as a value."""
        chosen = self._free[:k]
        if self._fixed:
            chosen = sorted((*self._fixed, *chosen), key=_by_size)
        is_all = k == len(self._free)
        return Choice(
            kind=GroupKind.MAJOR if is_all else GroupKind.MINOR,
            segments=tuple(chosen),
            segments_out=self.outs[k],
            benefit=self.benefit(k),
            cost=self.cost(k),
            write_amplification=_amplification(self._history, self.sizes[k], self.sizes[-1]),
        )

    def _grown(self, k: int) -> int:
        """Return k or a larger one: what is folded takes the next segment along once it is worth it."""
        while 0 < k < len(self._free):
            gathered, following = self.sizes[k], self._free[k].size_bytes
            folded = len(self._fixed) + k
            arrival = (gathered - self._free[k - 1].size_bytes) // max(folded - 1, 1)
            if gathered * gathered < 2 * following * arrival or self.benefit(k + 1) <= self.benefit(
                k
            ):
                break
            k += 1
        return k

    def _may(self, k: int) -> bool:
        """Whether writing it keeps the bound; what must be rewritten anyway does not count."""
        size = self.sizes[k] - self._forced_bytes
        bound = self._settings.write_amplification_max
        return not size or _amplification(self._history, size, self.sizes[-1]) <= bound


def _amplification(history: ChunkHistory | None, size_bytes: int, total_bytes: int) -> float:
    if history is None:
        return size_bytes / max(total_bytes, 1)
    arrived = max(history.arrived_bytes, 1)
    return (history.rewritten_bytes + size_bytes) / arrived
