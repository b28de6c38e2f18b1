"""Which moves help most: steepest descent of the total cost, one move at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.columns import Flags, Floats, Ints, Room, SegmentColumns, room_for
from carnac.core.balancing.cost import DAY_MS
from carnac.core.balancing.index import TIE, CostIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Moves in the order in which they were chosen, as columns.

    Attributes:
        rows: The row of the copy that moves.
        sources, destinations: Server numbers.
        gains: By how much the move lowers the total cost at its turn, in hours²; > 0.
    """

    rows: Ints
    sources: Ints
    destinations: Ints
    gains: Floats

    def __len__(self) -> int:
        return len(self.rows)


def choose_moves(
    copies: SegmentColumns,
    held_by: Ints,
    server_count: int,
    *,
    max_moves: int,
    max_bytes: int | None = None,
    min_gain: float = 0.0,
    movable: Flags | None = None,
    room: Room | None = None,
    half_life_ms: int = DAY_MS,
) -> Moves:
    """Choose the move that lowers the total cost most, then the next one after it, and so on.

    The gain of a move is what the copy costs where it is (not against itself) less what it costs where it goes. A copy
    moves at most once; never to a server that is not allowed, that has no room, or that holds another copy of the
    segment. The source's disk is not free before the move is done, so its space is not given away again.

    Of gains that are equal (to `TIE`) the lowest row wins, then the larger free share of the destination's disk, then
    its lower number.

    Args:
        copies: All that the servers hold, movable or not.
        held_by: The server of each copy.
        max_moves: The most moves to choose.
        max_bytes: The most bytes to move; a copy that no longer fits is passed over. None: any number.
        min_gain: Moves that gain no more than this, in hours², are not made.
        movable: Flags of the copies that may move; None: all.
        room: Where they may go; `free_bytes` is what is left beside the copies.
    """
    room = room or room_for(len(copies), server_count)
    index = CostIndex(server_count, half_life_ms=half_life_ms)
    index.load_many(held_by, copies)
    server = held_by.copy()
    free = room.free_bytes.copy()
    may = np.ones(len(copies), np.bool_) if movable is None else movable.copy()
    left = max_bytes if max_bytes is not None else 1 << 62
    holders: dict[int, list[int]] = {}
    for row, copy in enumerate(copies.copy_of):
        holders.setdefault(int(copy), []).append(row)
    found: list[tuple[int, int, int, float]] = []
    while len(found) < max_moves:
        best = (min_gain, -1, -1)
        for row in map(int, np.flatnonzero(may & (copies.sizes_bytes <= left))):
            key = int(copies.datasources[row]), int(copies.starts_ms[row]), int(copies.ends_ms[row])
            costs = index.costs(*key)
            weight, source = int(copies.weights[row]), int(server[row])
            index.drop(source, *key, weight=weight)
            here = index.cost(source, *key)
            index.load(source, *key, weight=weight)
            barred = room.barred_servers[room.barred_offsets[row] : room.barred_offsets[row + 1]]
            open_servers = room.allowed[room.kinds[row]] & (free >= copies.sizes_bytes[row])
            open_servers[barred] = False
            open_servers[[server[other] for other in holders[int(copies.copy_of[row])]]] = False
            candidates = np.flatnonzero(open_servers)
            if not len(candidates):
                continue
            cheap = candidates[costs[candidates] <= costs[candidates].min() * (1 + TIE)]
            share = free[cheap] / np.maximum(room.capacity_bytes[cheap], 1)
            to = int(cheap[np.argmax(share)])
            gain = weight * (here - costs[to])
            if gain > best[0] + TIE * abs(best[0]):
                best = (float(gain), int(row), to)
        gain, row, to = best
        if row < 0:
            break
        found.append((row, int(server[row]), to, gain))
        key = int(copies.datasources[row]), int(copies.starts_ms[row]), int(copies.ends_ms[row])
        index.drop(int(server[row]), *key, weight=int(copies.weights[row]))
        index.load(to, *key, weight=int(copies.weights[row]))
        server[row], may[row] = to, False
        free[to] -= copies.sizes_bytes[row]
        left -= int(copies.sizes_bytes[row])
    columns = np.array([move[:3] for move in found], np.int64).reshape(-1, 3)
    return Moves(
        rows=columns[:, 0],
        sources=columns[:, 1],
        destinations=columns[:, 2],
        gains=np.array([move[3] for move in found], np.float64),
    )
