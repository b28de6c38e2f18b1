"""Tasks: groups that one task does one after another or side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.core.showing import Shown
from carnac.core.time.intervals import Interval, interval_text
from carnac.core.words import bytes_text, number_text


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CompactionTask(Shown):
    """Groups that run together, each published alone.

    Attributes:
        task_id: Says what it is about; unique in its plan.
        datasource: Its name.
        datasource_priority: The higher one goes first, before `priority`.
        groups: In order of time.
        chunks: The time chunks of the groups, in order.
        segments_out: How many segments are expected to come out.
        gain: Value of the segments that go, or become as asked for, in bytes of the cost model.
        cost: In bytes of the cost model.
        chunk_costs: Part of the cost that each of the chunks has, in their order; empty: not known.
        after: Ids of the tasks of its plan that must have ended before, because they share a segment with it.
        order: Sorts the queue: datasource's priority, own priority, newest first, name.
    """

    task_id: str
    datasource: str
    datasource_priority: int
    groups: Sequence[CompactionGroup]
    chunks: tuple[Interval, ...]
    segments_out: int
    gain: int
    cost: int
    chunk_costs: tuple[int, ...] = field(default=(), repr=False)
    after: tuple[str, ...] = ()
    order: tuple[int, float, int, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        order = (-self.datasource_priority, -self.priority, -self.chunks[-1].end_ms, self.task_id)
        object.__setattr__(self, "order", order)

    @property
    def color(self) -> str:
        """Red: starts at once. Black: waits for `after`."""
        return "black" if self.after else "red"

    @property
    def priority(self) -> float:
        """Share of the gain in the sum of gain and cost, 0..1."""
        return self.gain / (self.gain + self.cost)

    @property
    def size_bytes(self) -> int:
        """Bytes that it reads."""
        return sum(group.size_bytes for group in self.groups)

    @property
    def rows(self) -> int:
        """Rows that it reads."""
        return sum(group.rows for group in self.groups)

    @property
    def segment_ids(self) -> frozenset[str]:
        """The segments that it rewrites."""
        return frozenset(one for group in self.groups for one in group.segment_ids)

    def _facts(self) -> Mapping[str, str]:
        interval = Interval(self.chunks[0].start_ms, self.chunks[-1].end_ms)
        return {
            "task": self.task_id,
            "interval": interval_text(interval),
            "segments": number_text(len(self.segment_ids)),
            "become": number_text(self.segments_out),
            "rows": number_text(self.rows),
            "size": bytes_text(self.size_bytes),
            "priority": f"{self.priority:.2f}",
            "after": ", ".join(self.after),
        }
