"""The strategies at work on a tier: the product's planner, the old heuristic, and dice."""

from __future__ import annotations

import numpy as np

from carnac.core.balancing.cost.compiled import compiled
from carnac.simulation import greedy, legacy
from carnac.simulation.arrivals import Codes, Flags, Ints, Segments
from carnac.simulation.greedy import holds_copy
from carnac.simulation.holdings import Board, Holdings
from carnac.simulation.planner import PlannerBoard
from carnac.simulation.scenario import Scenario, Strategy


@compiled
def _put_at_random(
    rows: Ints,
    order: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    columns: tuple[Codes, Ints],
    server_of: Codes,
    disks: tuple[Ints, Flags],
) -> None:
    """Put each row on the allowed server with the smallest number in `order`; where it is counts as allowed."""
    segment, size = columns
    free, is_open = disks
    for position in range(rows.size):
        row = rows[position]
        here = server_of[row]
        best = here if here >= 0 and is_open[here] else -1
        for server in range(free.size):
            if server == here or not is_open[server] or free[server] < size[row]:
                continue
            is_first = best < 0 or order[position, server] < order[position, best]
            if is_first and not holds_copy(segment, server_of, row, server):
                best = server
        if best < 0:
            continue
        if here >= 0:
            free[here] += size[row]
        free[best] -= size[row]
        server_of[row] = best


class GreedyBoard(Board):
    """Every copy goes where it costs least by the old cost function."""

    def __init__(self, held: Holdings, field: legacy.Field) -> None:
        super().__init__(held)
        self._field = field
        self._costs = np.empty(held.server_count)
        rows = np.flatnonzero(held.server >= 0)
        greedy.shift_rows(field, rows, held.columns, 1)

    def begin(self, now: int) -> None:  # noqa: D102 - as in Board
        legacy.set_now(self._field, now)

    def place(self, rows: Ints) -> None:  # noqa: D102 - as in Board
        self.move(rows, len(rows) + 1)

    def move(self, rows: Ints, limit: int) -> int:  # noqa: D102 - as in Board
        held = self.held
        return greedy.settle(self._field, rows, held.columns, (*held.disks, self._costs), limit)

    def _forget(self, rows: Ints) -> None:
        held = self.held
        greedy.shift_rows(self._field, rows, held.columns, -1)


class RandomBoard(Board):
    """Any open server that has room, as early Druid did."""

    def __init__(self, held: Holdings, draw: np.random.Generator) -> None:
        super().__init__(held)
        self._draw = draw

    def place(self, rows: Ints) -> None:  # noqa: D102 - as in Board
        self._put(rows)

    def move(self, rows: Ints, limit: int) -> int:  # noqa: D102 - as in Board
        rows = rows[:limit]
        before = self.held.server[rows].copy()
        self._put(rows)
        return int((self.held.server[rows] != before).sum())

    def _put(self, rows: Ints) -> None:
        held = self.held
        order = self._draw.random((len(rows), held.server_count), dtype=np.float32)
        _put_at_random(rows, order, (held.segment, held.size_bytes), held.server, held.disks)


def make_board(
    strategy: Strategy,
    held: Holdings,
    segments: Segments,
    scenario: Scenario,
    draw: np.random.Generator,
) -> Board:
    """Return the board of a strategy, over what is held already."""
    if strategy == "random":
        return RandomBoard(held, draw)
    if strategy == "cost":
        return PlannerBoard(held, scenario)
    field = legacy.make_field(
        hours=np.array([source.hours for source in segments.sources], np.int64),
        sizes_bytes=np.array([source.size_bytes for source in segments.sources], np.int64),
        server_count=held.server_count,
        cells=scenario.total_hours,
        is_step=strategy != "legacy-linear",
    )
    return GreedyBoard(held, field)
