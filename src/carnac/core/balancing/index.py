"""Who holds what, and what any segment would cost anywhere."""

from __future__ import annotations

import numpy as np

from carnac.core.balancing.columns import (
    MAX_WEIGHT,
    NOWHERE,
    Bounds,
    Floats,
    Ints,
    Room,
    Rows,
    SegmentColumns,
    bounds_of,
    room_for,
    rows_of,
    segment_columns,
)
from carnac.core.balancing.cost import DAY_MS, square_hours
from carnac.core.balancing.growth import (
    grown,
    memory_bytes,
    new_trees,
    roots_for,
    set_frame,
    widened,
)
from carnac.core.balancing.placing import (
    DROP,
    LOAD,
    PLACE,
    TIE,
    Search,
    change_rows,
    search_for,
)
from carnac.core.balancing.tree import pair_cost
from carnac.core.balancing.tree_queries import add_costs, add_energies
from carnac.core.time.intervals import MAX_MS, MIN_MS
from carnac.errors import Invalid

__all__ = ["TIE", "CostIndex", "pair_cost", "place"]

BULK_ROWS, BULK_NODES = 1_000, 16
"""To sum up all nodes at once pays from so many rows on, and from one row for so many nodes."""
NO_ROOM, NO_SEARCH = bounds_of(room_for(0, 0)), search_for(0, 0, 0)
"""For rows whose servers are given."""


class CostIndex:
    """The segments that each server holds, by their intervals, so that the cost of one more is known everywhere.

    A query or an update takes O(log n) steps a server, exactly: no interval is left out for being far away, no grid is
    assumed, and costs do not drift however often segments come and go (`tree.py` says how). What is kept is how often
    each server covers each instant, by datasource; which segments did so is the caller's to know.

    Servers and datasources are numbers from 0 up; datasources need not be announced. Costs are in hours². Not for
    several threads at once.

    Args:
        server_count: How many servers there are, all empty; `add_servers` adds more.
        half_life_ms: Time difference at which two instants count half.
        slab_size: How many pieces a leaf takes before it is split; None chooses by the number of servers.
    """

    def __init__(
        self, server_count: int, *, half_life_ms: int = DAY_MS, slab_size: int | None = None
    ) -> None:
        if server_count < 0 or half_life_ms <= 0:
            raise Invalid(
                "a cost index needs a positive half-life and no negative number of servers"
            )
        self._server_count = server_count
        self._unit = square_hours(half_life_ms)
        self._trees = new_trees(server_count, half_life_ms, slab_size)
        self._roots = roots_for(np.full(0, -1, np.int64), 0)
        self._own = np.zeros((2, server_count))

    @property
    def server_count(self) -> int:
        """How many servers there are; they are numbered from 0."""
        return self._server_count

    @property
    def memory_bytes(self) -> int:
        """How much memory the index uses."""
        return memory_bytes(self._trees)

    def add_servers(self, count: int = 1) -> int:
        """Add empty servers; return the number of the first."""
        first = self._server_count
        self._server_count += count
        if self._server_count > self._trees.sums.shape[1]:
            self._trees = widened(self._trees, self._server_count + self._server_count // 4)
        own = np.zeros((2, self._server_count))
        own[:, :first] = self._own
        self._own = own
        return first

    def load(
        self, server: int, datasource: int, start_ms: int, end_ms: int, *, weight: int = 1
    ) -> None:
        """Add one segment to what the server holds.

        Raises:
            Invalid: No such server, or no such interval.
        """
        self._change(server, datasource, start_ms, end_ms, weight, 1)

    def drop(
        self, server: int, datasource: int, start_ms: int, end_ms: int, *, weight: int = 1
    ) -> None:
        """Take away one segment that was loaded just so.

        Raises:
            Invalid: The server does not hold it.
        """
        self._change(server, datasource, start_ms, end_ms, weight, -1)

    def load_many(self, servers: Ints, segments: SegmentColumns) -> None:
        """Add many segments, each to the server of its row; rows with a negative server are left out.

        Raises:
            Invalid: The columns differ in length, or name a server that is not there. Nothing was added.
        """
        rows = self._checked(servers, segments)
        self._run(rows, servers, 1)

    def drop_many(self, servers: Ints, segments: SegmentColumns) -> None:
        """Take away many segments, each from the server of its row; rows with a negative server are left out.

        Raises:
            Invalid: A server does not hold a segment. Other rows may have been taken away.
        """
        self._drop_rows(self._checked(servers, segments), servers)

    def _drop_rows(self, rows: Rows, servers: Ints) -> None:
        missing = self._run(rows, servers, -1)
        if missing < len(servers):
            server, datasource = int(servers[missing]), int(rows.datasources[missing])
            raise Invalid(
                f"server {server} does not hold {rows.starts[missing]}/{rows.ends[missing]} (epoch ms) "
                f"of datasource {datasource}; drop what was loaded"
            )

    def costs(self, datasource: int, start_ms: int, end_ms: int) -> Floats:
        """Return what the segment costs against all that each server holds, in hours², one element a server.

        Where a server holds the segment itself, its cost against itself is in there, twice `joint_cost(x, x)`; the
        caller who means another segment takes it away.
        """
        return self._costs(datasource, start_ms, end_ms, 0, self._server_count)

    def cost(self, server: int, datasource: int, start_ms: int, end_ms: int) -> float:
        """Return what the segment costs against all that one server holds, in hours²; see `costs`."""
        return float(self._costs(datasource, start_ms, end_ms, server, server + 1)[server])

    def totals(self) -> Floats:
        """Return for each server the cost of all pairs of different segments that it holds, in hours².

        Takes time with the number of segments. The rounding error is relative to the sum with the costs of segments
        against themselves, which is taken off.
        """
        energies = np.zeros(self._server_count)
        add_energies(self._trees, self._server_count, energies)
        pairs: Floats = (energies / 2 - self._own[0]) - self._own[1]
        return np.maximum(pairs, 0.0, out=pairs) * self._unit

    def total(self) -> float:
        """Return the sum over servers of the cost of all pairs of different segments, in hours²; see `totals`."""
        return float(self.totals().sum())

    def place(self, segments: SegmentColumns, room: Room | None = None) -> Ints:
        """Put each segment, in order of rows, on the server where it costs least, and load it there.

        Of servers whose costs are equal (to `TIE`), the one with the larger free share of its disk wins, then the lower
        number. Returns the server of each row; `NOWHERE` where none is allowed or has room.
        """
        count = len(segments)
        room = room or room_for(count, self._server_count)
        rows, different = rows_of(segments)
        self._start_trees(rows)
        chosen = np.full(count, NOWHERE, np.int64)
        search = search_for(different, count, self._server_count)
        self._change_rows(rows, chosen, PLACE, bounds_of(room), search)
        return chosen

    def _costs(self, datasource: int, start_ms: int, end_ms: int, first: int, last: int) -> Floats:
        out = np.zeros(self._server_count)
        own = int(self._roots[datasource + 1]) if datasource + 1 < len(self._roots) else -1
        add_costs(self._trees, int(self._roots[0]), own, start_ms, end_ms, first, last, out)
        out *= self._unit
        return out

    def _change(
        self, server: int, datasource: int, start_ms: int, end_ms: int, weight: int, sign: int
    ) -> None:
        """Load (1) or drop (-1) one segment; most of the time of a column's checks is that it is a column."""
        columns = (np.array([value]) for value in (datasource, start_ms, end_ms, 0, weight, 0))
        rows, servers = Rows(*columns), np.array([server])
        is_sound = (
            0 <= server < self._server_count
            and MIN_MS <= start_ms < end_ms <= MAX_MS
            and 1 <= weight <= MAX_WEIGHT
            and 0 <= datasource < len(self._roots) - 1
            and self._trees.frame[0] < self._trees.frame[1]
        )
        if not is_sound:  # or the first of its datasource
            segment = segment_columns([datasource], [start_ms], [end_ms], weights=[weight])
            rows = self._checked(servers, segment)
        if sign > 0:
            self._run(rows, servers, 1)
        else:
            self._drop_rows(rows, servers)

    def _checked(self, servers: Ints, segments: SegmentColumns) -> Rows:
        if len(servers) != len(segments):
            raise Invalid(f"{len(servers)} servers were named for {len(segments)} segments")
        if len(servers) and servers.max() >= self._server_count:
            raise Invalid(f"there is no server {servers.max()}; there are {self._server_count}")
        rows, _ = rows_of(segments)
        self._start_trees(rows)
        return rows

    def _run(self, rows: Rows, servers: Ints, sign: int) -> int:
        """Load (1) or drop (-1) the rows; return the first row that could not be dropped, or their number."""
        order, count = None, len(servers)
        in_bulk = len(servers) > max(BULK_ROWS, int(self._trees.used[0]) // BULK_NODES)
        if in_bulk:  # in order of time, for neighbours in memory
            kept = np.flatnonzero(servers >= 0)
            order = kept[np.argsort(rows.starts[kept])]
            rows, servers = Rows(*(column[order] for column in rows)), servers[order]
        how = LOAD if sign > 0 else DROP
        done = self._change_rows(rows, servers, how, NO_ROOM, NO_SEARCH, in_bulk=in_bulk)
        if done == len(servers):
            return count
        return int(order[done]) if order is not None else done

    def _change_rows(
        self,
        rows: Rows,
        servers: Ints,
        how: int,
        room: Bounds,
        search: Search,
        *,
        in_bulk: bool = False,
    ) -> int:
        """Do with the rows what is to be done; return the first that could not be dropped, or their number."""
        done, refused = 0, False
        while not refused:
            done, refused = change_rows(
                self._trees,
                self._roots,
                rows,
                room,
                search,
                servers,
                self._own,
                how,
                in_bulk,
                done,
            )
            if done == len(servers):
                break
            if not refused:
                self._trees = grown(self._trees)
        return done

    def _start_trees(self, rows: Rows) -> None:
        if not len(rows.datasources):
            return
        if self._trees.frame[0] == self._trees.frame[1]:
            set_frame(self._trees, rows.starts, rows.ends)
        self._roots = roots_for(self._roots, int(rows.datasources.max()) + 1)


def place(
    segments: SegmentColumns,
    server_count: int,
    *,
    room: Room | None = None,
    half_life_ms: int = DAY_MS,
) -> Ints:
    """Place segments in any order on empty servers; see `CostIndex.place`."""
    return CostIndex(server_count, half_life_ms=half_life_ms).place(segments, room)
