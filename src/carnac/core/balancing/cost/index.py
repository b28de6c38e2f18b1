"""The holdings of servers, and the cost of any segment on any server."""

from __future__ import annotations

import numpy as np

from carnac.core.balancing.cost.columns import (
    NOWHERE,
    Floats,
    Ints,
    Room,
    SegmentColumns,
    numbered,
    room_for,
    segment_columns,
)
from carnac.core.balancing.cost.field import (
    DROP,
    EVERYTHING,
    LOAD,
    PLACE,
    Held,
    Takers,
    add_costs,
    add_energies,
    change_rows,
    scan_groups,
    search_for,
)
from carnac.core.balancing.cost.grids import empty_field, has_edges, refined
from carnac.core.balancing.cost.grouping import Groups
from carnac.core.balancing.cost.joint import DAY_MS, square_hours
from carnac.core.time.intervals import MAX_MS, MIN_MS
from carnac.errors import Invalid

CELLS_PER_ROW = 8
"""To take all sums anew pays from one row on for so many cells."""
NO_ROOM, NO_SEARCH = room_for(0, 0), search_for(0, 0, 0)
"""For rows whose servers are given."""


class CostIndex:
    """The segments that each server holds, by their intervals, so that the cost of one more is known everywhere.

    Costs are exact: no interval is left out for being far away, and nothing is left of segments that are gone
    (`field.py` says how). The index keeps how often each server covers each instant, by datasource. Only the caller
    knows which segments do so.

    Time is cut where segments start and end. A segment with a new end cuts it anew, which takes longer the larger the
    index is. A caller that knows the segments to come announces them first (`reserve`).

    Servers and datasources are numbers from 0 up; datasources need not be announced. Costs are in hours². One thread
    at a time may use an index.

    Args:
        server_count: Number of servers, all empty.
        half_life_ms: Time difference at which two instants count half.
    """

    def __init__(self, server_count: int, *, half_life_ms: int = DAY_MS) -> None:
        if server_count < 0 or half_life_ms <= 0:
            raise Invalid(
                "a cost index needs a positive half-life and no negative number of servers"
            )
        self._server_count = server_count
        self.half_life_ms = half_life_ms
        self._unit = square_hours(half_life_ms)
        self._field = empty_field(server_count, half_life_ms)
        self._grid_of = np.empty(0, np.int64)
        self._own = np.zeros((2, server_count))

    @property
    def server_count(self) -> int:
        """How many servers there are; they are numbered from 0."""
        return self._server_count

    def load(self, server: int, datasource: int, start_ms: int, end_ms: int) -> None:
        """Add one segment to what the server holds.

        Raises:
            Invalid: No such server, or no such interval.
        """
        self._change(server, datasource, start_ms, end_ms, 1)

    def drop(self, server: int, datasource: int, start_ms: int, end_ms: int) -> None:
        """Take away one segment that was loaded just so.

        Raises:
            Invalid: The server does not hold it.
        """
        self._change(server, datasource, start_ms, end_ms, -1)

    def load_many(self, servers: Ints, segments: SegmentColumns) -> None:
        """Add many segments, each to the server of its row; rows with a negative server are left out.

        Raises:
            Invalid: The columns differ in length, or name a server that is not there. Nothing was added.
        """
        self._check(servers, segments)
        self._run(segments, servers, 1)

    def drop_many(self, servers: Ints, segments: SegmentColumns) -> None:
        """Take away many segments, each from the server of its row; rows with a negative server are left out.

        Raises:
            Invalid: A server does not hold a segment. Other rows may have been taken away.
        """
        self._check(servers, segments)
        self._drop_rows(segments, servers)

    def _drop_rows(self, rows: SegmentColumns, servers: Ints) -> None:
        missing = self._run(rows, servers, -1)
        if missing < len(servers):
            server, datasource = int(servers[missing]), int(rows.datasources[missing])
            raise Invalid(
                f"server {server} does not hold {rows.starts_ms[missing]}/{rows.ends_ms[missing]} (epoch ms) "
                f"of datasource {datasource}; drop what was loaded"
            )

    def costs(self, datasource: int, start_ms: int, end_ms: int) -> Floats:
        """Return the cost of the segment against all that each server holds, in hours², one element a server.

        Where a server holds the segment itself, its cost against itself is in there, twice its joint cost; the
        caller that means another segment takes it away.
        """
        out = np.zeros(self._server_count)
        if not MIN_MS <= start_ms < end_ms <= MAX_MS:
            raise Invalid(
                "a cost is asked for an interval that ends after it starts, in years 1 to 9999"
            )
        add_costs(self._field, EVERYTHING, start_ms, end_ms, out)
        if datasource < len(self._grid_of) and self._grid_of[datasource] >= 0:
            add_costs(self._field, int(self._grid_of[datasource]), start_ms, end_ms, out)
        out *= self._unit
        return out

    def totals(self) -> Floats:
        """Return for each server the cost of all pairs of different segments that it holds, in hours².

        Takes time with the number of segments. The rounding error is relative to the sum with the costs of segments
        against themselves, which is taken off.
        """
        energies = np.zeros(self._server_count)
        add_energies(self._field, energies)
        pairs: Floats = (energies / 2 - self._own[0]) - self._own[1]
        return np.maximum(pairs, 0.0, out=pairs) * self._unit

    def scan(self, groups: Groups, held: Held, takers: Takers) -> tuple[Floats, Floats]:
        """Return what segments cost where they are, and the least that they cost where they could be.

        The first is for each row of `held`, itself included; the second for each group, infinity if no server could
        take one. In hours².
        """
        own, least = np.zeros(len(held.server)), np.zeros(len(groups))
        columns = (groups.datasource, groups.start_ms, groups.end_ms)
        work = np.zeros(self._server_count)
        scan_groups(self._field, self._grid_of, columns, held, takers, own, least, work)
        return own * self._unit, least * self._unit

    def place(self, segments: SegmentColumns, room: Room | None = None) -> Ints:
        """Put each segment, in order of rows, on the server where it costs least, and load it there.

        Of servers whose costs are equal (to `TIE`), the one with the larger free share of its disk wins, then the lower
        number. Returns the server of each row; `NOWHERE` where none is allowed or has room.
        """
        count = segments.row_count
        room = room or room_for(count, self._server_count)
        copies, different = numbered(segments.copy_of)
        self.reserve(segments)
        chosen = np.full(count, NOWHERE, np.int64)
        search = search_for(different, count, self._server_count)
        change_rows(
            self._field,
            self._grid_of,
            segments._replace(copy_of=copies),
            room._replace(free_bytes=room.free_bytes.copy()),
            search,
            chosen,
            self._own,
            PLACE,
            False,
        )
        return chosen

    def _change(self, server: int, datasource: int, start_ms: int, end_ms: int, sign: int) -> None:
        """Load (1) or drop (-1) one segment; most of the time of a column's checks is that it is a column."""
        columns = (np.array([value]) for value in (datasource, start_ms, end_ms, 0, 0))
        rows, servers = SegmentColumns(*columns), np.array([server])
        is_sound = (
            0 <= server < self._server_count
            and MIN_MS <= start_ms < end_ms <= MAX_MS
            and datasource >= 0
        )
        if not is_sound:
            self._check(servers, segment_columns([datasource], [start_ms], [end_ms]))
        if sign > 0:
            self._run(rows, servers, 1)
        else:
            self._drop_rows(rows, servers)

    def _check(self, servers: Ints, segments: SegmentColumns) -> None:
        if len(servers) != segments.row_count:
            raise Invalid(f"{len(servers)} servers were named for {segments.row_count} segments")
        if len(servers) and servers.max() >= self._server_count:
            raise Invalid(f"there is no server {servers.max()}; there are {self._server_count}")

    def _run(self, rows: SegmentColumns, servers: Ints, sign: int) -> int:
        """Load (1) or drop (-1) the rows; return the first row that could not be dropped, or their number."""
        if sign > 0:
            self.reserve(rows)
        elif len(servers) and rows.datasources.max() >= len(self._grid_of):
            return int(np.argmax(rows.datasources >= len(self._grid_of)))
        is_bulk = len(servers) * CELLS_PER_ROW > len(self._field.edges)
        how = LOAD if sign > 0 else DROP
        return change_rows(
            self._field,
            self._grid_of,
            rows,
            NO_ROOM,
            NO_SEARCH,
            servers,
            self._own,
            how,
            is_bulk,
        )

    def reserve(self, rows: SegmentColumns) -> None:
        """Cut time where segments start and end that will come.

        Raises:
            Invalid: It would take more memory than there should be (`grids.MEMORY_MAX_BYTES`).
        """
        if not rows.row_count:
            return
        most = int(rows.datasources.max()) + 1
        if most > len(self._grid_of):
            missing = most - len(self._grid_of)
            self._grid_of = np.pad(self._grid_of, (0, missing), constant_values=-1)
        if not has_edges(self._field, self._grid_of, rows):
            self._field, self._grid_of = refined(self._field, self._grid_of, rows)
