"""The decisions of a run, as values with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Ints
from carnac.core.balancing.plan.board import Reason
from carnac.core.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A segment is loaded on the target, then dropped from the source.

    Attributes:
        segment: Index of the segment in the cluster's table.
        source: Index of the server that it leaves; it keeps the segment until the target has loaded it.
        target: Index of the server that loads it.
        saving: By how much the total cost falls at the move's turn, all that counts; may be negative for an
            evacuation.
        reason: `EVACUATE` or `SAVE`.
    """

    segment: int
    source: int
    target: int
    segment_id: str
    source_id: str
    target_id: str
    size_bytes: int
    saving: float
    reason: Reason

    def __str__(self) -> str:
        what = f"{self.segment_id} from {self.source_id} to {self.target_id}"
        if self.reason is Reason.EVACUATE:
            return f"{what}: {self.source_id} is decommissioning"
        return f"{what}: saves {self.saving:.6g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """Why a decommissioning server keeps segments for now.

    Attributes:
        reason: The reason that all of them stay for.
        segments: Number of them.
        size_bytes: Their size together.
        example_id: One of them.
    """

    server_id: str
    reason: Reason
    segments: int
    size_bytes: int
    example_id: str

    def __str__(self) -> str:
        return (
            f"{self.server_id} keeps {counted(self.segments, 'segment')} ({self.size_bytes} bytes), such as "
            f"{self.example_id}: {self.reason}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """The moves of one run.

    Attributes:
        moves: In the order in which they were chosen.
        skipped: How many segments were looked at and not moved, by reason.
        blockers: Reasons why decommissioning servers cannot be emptied; throttling is not counted.
        cost_before: Sum over servers of the cost of all pairs, hours² (by heat, if heat counts).
        cost_after: The same once all is done.
    """

    moves: tuple[Move, ...] = ()
    skipped: Mapping[Reason, int] = field(default_factory=dict)
    blockers: tuple[Blocker, ...] = ()
    cost_before: float = 0.0
    cost_after: float = 0.0

    def columns(self) -> tuple[Ints, Codes, Codes]:
        """Return segments, sources and targets, for `cluster.apply_moves`."""
        rows = [(move.segment, move.source, move.target) for move in self.moves]
        table = np.array(rows, np.int64).reshape(-1, 3)
        return table[:, 0], table[:, 1].astype(np.int32), table[:, 2].astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueuePlan:
    """Loads or drops, as columns: a first load of everything is as many as there are segments.

    Attributes:
        segment: Segment of each.
        server: Server of each.
        reason: Code of each one's reason, an index into `REASONS`.
        skipped: Number of requests that were not met, by reason.
    """

    segment: Ints
    server: Codes
    reason: Codes
    skipped: Mapping[Reason, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.segment)

    def plus(self, segment: Ints, server: Codes, reason: Reason) -> QueuePlan:
        """Return these and more, all for one reason."""
        more = np.full(len(segment), CODES[reason], np.int32)
        return replace(
            self,
            segment=np.concatenate([self.segment, segment]),
            server=np.concatenate([self.server, server]).astype(np.int32),
            reason=np.concatenate([self.reason, more]),
        )

    def take(self, rows: Ints) -> QueuePlan:
        """Return those at some rows, in that order."""
        columns = self.segment[rows], self.server[rows], self.reason[rows]
        return replace(self, segment=columns[0], server=columns[1], reason=columns[2])


NOTHING = QueuePlan(
    segment=np.empty(0, np.int64), server=np.empty(0, np.int32), reason=np.empty(0, np.int32)
)
"""Nothing is loaded or dropped."""

REASONS: tuple[Reason, ...] = tuple(Reason)
"""Reasons by code."""

CODES: Mapping[Reason, int] = {reason: code for code, reason in enumerate(REASONS)}
