"""The strategies at work on a tier: the product's planner, the old heuristic, and dice."""

from __future__ import annotations

import numpy as np

from carnac.core.balancing.cost.columns import SegmentColumns, room_for, segment_columns
from carnac.core.balancing.cost.compiled import compiled
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.plan.cluster import (
    ClusterState,
    Departures,
    Hold,
    Replicas,
    SegmentTable,
    Server,
)
from carnac.core.balancing.plan.limits import MoveLimits
from carnac.core.balancing.plan.moves import plan_moves
from carnac.simulation import greedy, legacy
from carnac.simulation.arrivals import Codes, Flags, Ints, Segments
from carnac.simulation.greedy import holds_copy
from carnac.simulation.holdings import Board, Holdings
from carnac.simulation.scenario import HOUR_MS, Scenario, Strategy


class PlannerBoard(Board):
    """Every copy goes where the product's `CostIndex` puts it, and moves as its `plan_moves` plans.

    The scenario says which copies should be held, where a coordinator reads its rules. The rest is what `plan_run`
    does: `CostIndex.place` for loads, `plan_moves` for decommissioning servers and for moves that help.
    """

    def __init__(self, held: Holdings, scenario: Scenario) -> None:
        super().__init__(held)
        half_life_ms = round(scenario.half_life_hours * HOUR_MS)
        self._now_ms = 0
        self._min_saving = scenario.min_saving
        self._departures = Departures()
        self._columns = self._columns_of_all()
        self._table = self._table_of_all()
        self._index = CostIndex(held.server_count, half_life_ms=half_life_ms)
        self._index.reserve(self._columns)
        rows = np.flatnonzero(held.server >= 0)
        self._index.load_many(held.server[rows].astype(np.int64), self._columns.take(rows))

    def begin(self, now: int) -> None:  # noqa: D102 - as in Board
        self._now_ms = now * HOUR_MS

    def place(self, rows: Ints) -> None:  # noqa: D102 - as in Board
        held = self.held
        bounds, barred = self._holders(rows)
        room = room_for(
            len(rows),
            held.server_count,
            allowed=held.is_open,
            free_bytes=held.free_bytes,
            capacity_bytes=np.full(held.server_count, held.disk_bytes),
            barred_offsets=bounds,
            barred_servers=barred,
        )
        chosen = self._index.place(self._columns.take(rows), room)
        held.server[rows] = chosen
        placed = chosen >= 0
        np.subtract.at(held.free_bytes, chosen[placed], held.size_bytes[rows[placed]])

    def move(self, rows: Ints, limit: int) -> int:  # noqa: ARG002, D102 - the planner finds its own
        held = self.held
        limits = MoveLimits(max_moves=limit, min_saving=self._min_saving)
        cluster = self._cluster()
        plan = plan_moves(cluster, limits, index=self._index)
        segment, source, target = plan.columns()
        recent = cluster.departures.since(self._now_ms - limits.return_window_ms)
        self._departures = recent.plus(segment, source, self._now_ms)
        # all at once, and in the type of the column: else it is cast anew for each move
        first = np.searchsorted(held.segment, segment.astype(held.segment.dtype))
        for row, left, right in zip(first.tolist(), source, target, strict=True):
            while held.server[row] != left:
                row += 1  # noqa: PLW2901 - copies of a segment are neighbours
            held.server[row] = right
            held.free_bytes[left] += held.size_bytes[row]
            held.free_bytes[right] -= held.size_bytes[row]
        return len(segment)

    def _forget(self, rows: Ints) -> None:
        servers = self.held.server[rows].astype(np.int64)
        self._index.drop_many(servers, self._columns.take(rows))

    def _columns_of_all(self) -> SegmentColumns:
        """Return all copies that there ever are, for the index."""
        held = self.held
        return segment_columns(
            held.source.astype(np.int64),
            held.start.astype(np.int64) * HOUR_MS,
            held.end.astype(np.int64) * HOUR_MS,
            sizes_bytes=held.size_bytes,
            copy_of=held.segment.astype(np.int64),
        )

    def _table_of_all(self) -> SegmentTable:
        """Return all segments that there ever are, for the planner; those without a copy here are of no length."""
        held = self.held
        count = int(held.segment.max(initial=-1)) + 1
        source, start = np.zeros(count, np.int32), np.zeros(count, np.int64)
        end, size = np.ones(count, np.int64), np.zeros(count, np.int64)
        source[held.segment], size[held.segment] = held.source, held.size_bytes
        start[held.segment] = held.start.astype(np.int64) * HOUR_MS
        end[held.segment] = held.end.astype(np.int64) * HOUR_MS
        return SegmentTable(
            ids=range(count),  # type: ignore[arg-type] # names are not looked at
            datasources=tuple(map(str, range(int(held.source.max(initial=-1)) + 1))),
            datasource=source,
            start_ms=start,
            end_ms=end,
            size_bytes=size,
            partition=np.zeros(count, np.int32),
        )

    def _cluster(self) -> ClusterState:
        """Return the tier as the planner sees it; a server that is down holds nothing and takes nothing."""
        held = self.held
        rows = np.flatnonzero(held.server >= 0)
        return ClusterState(
            servers=tuple(
                Server(
                    server_id=str(n), capacity_bytes=held.disk_bytes, decommissioning=not is_open
                )
                for n, is_open in enumerate(held.is_open.tolist())
            ),
            segments=self._table,
            replicas=Replicas(
                segment=held.segment[rows].astype(np.int64),
                server=held.server[rows],
                hold=np.full(len(rows), Hold.LOADED, np.int32),
            ),
            departures=self._departures,
            now_ms=self._now_ms,
        )

    def _holders(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the servers that hold another copy of each row's segment; copies are neighbours."""
        held = self.held
        pairs: list[tuple[int, int]] = []
        reach = int(np.bincount(held.segment).max(initial=1)) - 1
        for step in (*range(-reach, 0), *range(1, reach + 1)):
            other = np.clip(rows + step, 0, len(held.segment) - 1)
            is_copy = (held.segment[other] == held.segment[rows]) & (held.server[other] >= 0)
            at = np.flatnonzero(is_copy & (other != rows))
            pairs += zip(at.tolist(), held.server[other[at]].tolist(), strict=True)
        table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        return np.searchsorted(table[:, 0], np.arange(len(rows) + 1)), table[:, 1].copy()


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

    def move(self, rows: Ints, limit: int) -> int:  # noqa: D102 - as in Board
        held, rows = self.held, rows[:limit]
        before = held.server[rows].copy()
        order = self._draw.random((len(rows), held.server_count), dtype=np.float32)
        _put_at_random(rows, order, (held.segment, held.size_bytes), held.server, held.disks)
        return int((held.server[rows] != before).sum())


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
