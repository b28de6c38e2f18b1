"""The trace of queries: drawn once, asked of any state of the cluster, at any time, in the same words.

A query is "this datasource, so many hours, ending so long ago", so the same trace can be asked before and after.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.cost.compiled import compiled
from carnac.simulation.arrivals import Codes, Floats, Ints, Segments, Source
from carnac.simulation.holdings import Holdings
from carnac.simulation.scenario import Queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Queries as columns: index of the datasource, hours covered, hours since the covered time ended."""

    source: Ints
    span: Ints
    age: Ints

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The segments that each query of a trace finds; queries that find no segment are left out.

    Attributes:
        segments: How many segments it reads.
        makespan: Most segments that any server must scan for it.
        ideal: Least makespan that any layout could have: segments over servers, rounded up.
        used: Servers that scan something.
        servers: Servers that could.
    """

    segments: Ints
    makespan: Ints
    ideal: Ints
    used: Ints
    servers: Ints

    def __len__(self) -> int:
        return len(self.segments)

    def ratio(self) -> Floats:
        """Return makespan over ideal of each; at least 1."""
        return self.makespan / self.ideal

    def unused(self) -> Floats:
        """Return which share of the servers that could help a query does nothing for it; 0 is the ideal."""
        return 1 - self.used / np.minimum(self.segments, self.servers)


def draw_trace(queries: Queries, sources: tuple[Source, ...], draw: np.random.Generator) -> Trace:
    """Return a trace: datasources by popularity, spans by weight, ages by an exponential law."""
    popularity = np.array([source.popularity for source in sources])
    weights = np.array([span.weight for span in queries.spans])
    spans = np.array([span.hours for span in queries.spans], np.int64)
    chosen = draw.choice(len(spans), size=queries.count, p=weights / weights.sum())
    return Trace(
        source=draw.choice(len(sources), size=queries.count, p=popularity / popularity.sum()),
        span=spans[chosen],
        age=np.floor(draw.exponential(queries.mean_age_hours, queries.count)).astype(np.int64),
    )


class Asker:
    """Asks traces of the state of a cluster: of all its tiers together.

    A server takes one number over all tiers: those of the first tier come first. Of several copies of a segment, the
    one whose server has least to scan for the query so far is read, as a broker that balances connections does.
    """

    def __init__(self, segments: Segments, tiers: list[Holdings]) -> None:
        self._tiers = tiers
        segment = np.concatenate([held.segment for held in tiers])
        start = np.concatenate([held.start for held in tiers])
        source = np.concatenate([held.source for held in tiers])
        self._order = np.lexsort((segment, start, source))
        self._segment = segment[self._order]
        self._start = start[self._order]
        edges = np.searchsorted(source[self._order], np.arange(len(segments.sources) + 1))
        self._edges = edges.astype(np.int64)
        self._hours = np.array([source.hours for source in segments.sources], np.int64)
        self._tier_has = np.array(
            [np.bincount(held.source, minlength=len(self._hours)) > 0 for held in tiers]
        )
        self.server_count = sum(held.server_count for held in tiers)

    def servers_in_order(self) -> Codes:
        """Return the server of every copy, by datasource and start, numbered over all tiers."""
        parts, first = [], 0
        for held in self._tiers:
            parts.append(np.where(held.server >= 0, held.server + first, -1))
            first += held.server_count
        joined: Codes = np.concatenate(parts)[self._order].astype(np.int32)
        return joined

    def ask(self, trace: Trace, now: int) -> Answers:
        """Return what each query finds at a cell of time."""
        start_at = now - trace.age - trace.span
        low, high = np.empty_like(start_at), np.empty_like(start_at)
        for source in np.unique(trace.source):
            mine = trace.source == source
            first, last = self._edges[source], self._edges[source + 1]
            starts = self._start[first:last]
            # A segment that starts up to its length before the query's interval reaches into it.
            low[mine] = first + np.searchsorted(
                starts, start_at[mine] - self._hours[source], "right"
            )
            high[mine] = first + np.searchsorted(starts, now - trace.age[mine], "left")
        found = np.zeros((3, len(trace)), np.int64)
        load = np.zeros(self.server_count, np.int64)
        _scan((low, high), self._segment, self.servers_in_order(), load, found)
        up = np.array([held.is_up.sum() for held in self._tiers])
        servers = (up @ self._tier_has)[trace.source]
        some = found[0] > 0
        count = found[0][some]
        return Answers(
            segments=count,
            makespan=found[1][some],
            ideal=-(-count // servers[some]),
            used=found[2][some],
            servers=servers[some],
        )

    def total_cost(self, cells: int, half_life_hours: float) -> float:
        """Return the exact cost of all pairs on one server, in hours²: the cost that source 2 introduced."""
        rate = np.log(2) / half_life_hours
        total = _total_cost(
            (self._edges, self._start, self._hours),
            self.servers_in_order(),
            np.zeros((2, self.server_count, cells), np.int32),
            float(rate),
        )
        return float(total / rate**2)


@compiled
def _scan(
    slices: tuple[Ints, Ints], segment: Codes, server_of: Codes, load: Ints, found: Ints
) -> None:
    """Count, for each query, segments, the most on one server, and servers used, over its slice of the copies."""
    low, high = slices
    for query in range(low.size):
        load[:] = 0
        count, most, used = 0, 0, 0
        row = low[query]
        while row < high[query]:
            best = -1
            first = row
            while row < high[query] and segment[row] == segment[first]:
                server = server_of[row]
                if server >= 0 and (best < 0 or load[server] < load[best]):
                    best = server
                row += 1
            if best < 0:
                continue
            load[best] += 1
            count += 1
            used += load[best] == 1
            most = max(most, load[best])
        found[0, query], found[1, query], found[2, query] = count, most, used


@compiled
def _square(covered: Codes, q: float, apart: float, itself: float) -> float:
    """Return Σ over servers of the cost of all ordered pairs of covered cells, equal ones among them."""
    total = 0.0
    for server in range(covered.shape[0]):
        behind = 0.0
        for cell in range(covered.shape[1]):
            here = covered[server, cell]
            total += here * (itself * here + 2 * apart * behind)
            behind = q * behind + here
    return total


@compiled
def _total_cost(
    columns: tuple[Ints, Codes, Ints],
    server_of: Codes,
    counts: Codes,
    rate: float,
) -> float:
    """Return Σ cost over pairs on one server, in 1/rate², from the number of segments that cover each cell.

    The cost is additive, so a segment is the sum of its cells. Two cells that lie d ≥ 1 apart cost q^(d−1)·(1 − q)²,
    a cell against itself 2·(rate + q − 1), with q = exp(−rate); one pass per server sums over all pairs of cells.
    """
    edges, start, hours = columns
    q = np.exp(-rate)
    apart, itself = (1 - q) ** 2, 2 * (rate + q - 1)
    everything, covered = counts[0], counts[1]
    total = 0.0
    for source in range(edges.size - 1):
        covered[:] = 0
        length = hours[source]
        own = length * itself
        for d in range(1, length):
            own += 2 * (length - d) * apart * q ** (d - 1)
        for row in range(edges[source], edges[source + 1]):
            if server_of[row] >= 0:
                total -= 2 * own
                for cell in range(start[row], start[row] + length):
                    covered[server_of[row], cell] += 1
                    everything[server_of[row], cell] += 1
        total += _square(covered, q, apart, itself)
    return (total + _square(everything, q, apart, itself)) / 2
