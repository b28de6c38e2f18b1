"""Trees over time that know what an interval costs against all that is held, on every server at once.

One tree holds all segments, one more each datasource's. A node stands for a range of time. Its content is the coverage
of that range, w(t): how many segments of a server cover an instant. Three numbers a server say all that the rest of
the world needs to know of it, in units of 1/λ and 1/λ²:

    TO_RIGHT = ∫ w(t) exp(−λ(hi − t)) dt      what it casts to its right, seen from its right end
    TO_LEFT  = ∫ w(t) exp(−λ(t − lo)) dt      what it casts to its left, seen from its left end
    WHOLE    = ∫∫ w(t) exp(−λ|t − s|) dt ds   what its whole range costs against its content

A segment that covers a range is counted at the node (its cover) and not below; what covers a leaf in part stands in the
leaf's slab, as pieces sorted by interval and server. Leaves that fill up are split. So a query meets O(log n) nodes, an
update changes the sums of O(log n) nodes for one server, and memory grows with the segments, not with their grid.

Each sum has only positive terms, over counts that are whole: nothing cancels. A load adds to the sums above it, a drop
has them computed anew, so nothing is left of what is gone; after n loads the relative error is at most n · 2⁻⁵³. Since
each node is anchored at its own ends, nothing overflows at any distance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carnac.core.balancing.columns import Floats, Ints
from carnac.core.balancing.compiled import lean
from carnac.core.balancing.cost import DAY_MS, HOUR_MS, scaled_cost
from carnac.core.intervals import MAX_MS, MIN_MS

Counts = npt.NDArray[np.int32]

pair_cost = lean(scaled_cost)

MAX_DEPTH = 128
"""More than any tree has: at most 48 doublings beyond the frame, as many halvings down to a millisecond."""
SPARE = 4 * MAX_DEPTH
"""More nodes than one segment can add to two trees: it may split the leaves on its two ways down."""
STACK = 2 * MAX_DEPTH
MAX_TERMS = 61
"""Sums that are noted before they are added up; three more fill the last four."""

LEFT, RIGHT, SUMS, COVER, SLAB = range(5)
TO_RIGHT, TO_LEFT, WHOLE = range(3)
LO, HI, SERVER, WEIGHT = range(4)
FADE, REACH, OWN = range(3)
NODES, ROWS, COVERS, SLABS, FREE = range(5)


class Trees(NamedTuple):
    """The nodes of all trees, as tables; a node, a row of sums, a slab is its number. The kernels change them in place.

    Attributes:
        rate: λ, a millisecond.
        frame: Start and end of the time in which most data lies; only how deep the trees are depends on it.
        used: How many rows of `spans`, `fades` and `links`, `sums`, `covers`, `pieces` are in use; last, the first slab
            that is free again (-1: none), whose count is the next.
        spans: (node, LO | HI): its range.
        fades: (node, FADE | REACH | OWN): with its length t, exp(−λt), 1 − exp(−λt), and its cost against itself.
        links: (node, LEFT | RIGHT | SUMS | COVER | SLAB): its children, and its rows below; -1 is none. A node without
            children and pieces needs no sums: its cover says it all.
        sums: (row, TO_RIGHT | TO_LEFT | WHOLE, server).
        covers: (row, server): weight of the segments that cover the range.
        counts: (slab): how many pieces it has.
        pieces: (slab, piece, LO | HI | SERVER | WEIGHT), in this order.
        stack: Where walks keep the nodes that they have yet to visit, then those that they have met.
        terms, factors: Where queries note which sums they want, and how often.
    """

    rate: float
    frame: Ints
    used: Ints
    spans: Ints
    fades: Floats
    links: Ints
    sums: Floats
    covers: Counts
    counts: Ints
    pieces: Ints
    stack: Ints
    terms: Ints
    factors: Floats


@lean
def split_at(t: Trees, lo: int, hi: int) -> int:
    """Return where a range is cut.

    First at the ends of the frame, so that the years without data cost no depth; beyond it, twice as far each time;
    within, in halves, at a whole day, hour or minute near the middle, where segments are likely to end.
    """
    first, last = t.frame[0], t.frame[1]
    if lo < first < hi:
        return int(first)
    if lo < last < hi:
        return int(last)
    at = lo
    if hi == MAX_MS and lo >= last:
        at = 2 * lo - first  # as far again as it is from the other end of the frame
    elif lo == MIN_MS and hi <= first:
        at = 2 * hi - last
    if lo < at < hi:
        return int(at)
    middle = lo + (hi - lo) // 2
    for unit in (DAY_MS, HOUR_MS, 300_000, 60_000, 1_000):
        at = (middle + unit // 2) // unit * unit
        if lo < at < hi:
            return int(at)
    return int(middle)


@lean
def new_leaf(t: Trees, lo: int, hi: int) -> int:
    """Make a leaf without content; return its number. The caller has seen to spare room."""
    node = int(t.used[NODES])
    t.used[NODES] += 1
    t.spans[node, LO], t.spans[node, HI] = lo, hi
    t.fades[node, FADE] = math.exp(-t.rate * (hi - lo))
    t.fades[node, REACH] = -math.expm1(-t.rate * (hi - lo))
    t.fades[node, OWN] = pair_cost(lo, hi, lo, hi, t.rate)
    t.links[node, :] = -1
    return node


@lean
def new_slab(t: Trees, leaf: int) -> int:
    """Give the leaf an empty slab, and sums if it has none; return the slab."""
    slab = int(t.used[FREE])
    if slab >= 0:
        t.used[FREE] = t.counts[slab]
    else:
        slab = int(t.used[SLABS])
        t.used[SLABS] += 1
    t.counts[slab] = 0
    t.links[leaf, SLAB] = slab
    if t.links[leaf, SUMS] < 0:
        t.links[leaf, SUMS] = t.used[ROWS]
        t.used[ROWS] += 1
    return slab


@lean
def free_slab(t: Trees, leaf: int) -> None:
    """Take the slab from the leaf; the next one that needs a slab gets it."""
    slab = t.links[leaf, SLAB]
    t.counts[slab] = t.used[FREE]
    t.used[FREE] = slab
    t.links[leaf, SLAB] = -1


@lean
def find_piece(t: Trees, slab: int, lo: int, hi: int, server: int) -> int:
    """Return where in the slab the piece stands, or where it would."""
    first, last = 0, t.counts[slab]
    while first < last:
        at = (first + last) // 2
        order = t.pieces[slab, at, LO] - lo
        if order == 0:
            order = t.pieces[slab, at, HI] - hi
        if order == 0:
            order = t.pieces[slab, at, SERVER] - server
        if order < 0:
            first = at + 1
        else:
            last = at
    return int(first)


@lean
def is_piece(t: Trees, slab: int, at: int, lo: int, hi: int, server: int) -> bool:
    """Whether just this piece stands there."""
    return bool(
        at < t.counts[slab]
        and t.pieces[slab, at, LO] == lo
        and t.pieces[slab, at, HI] == hi
        and t.pieces[slab, at, SERVER] == server
    )


@lean
def shift_pieces(t: Trees, slab: int, first: int, by: int) -> None:
    """Make room for one piece at `first` (by 1), or close the gap before it (by -1)."""
    count = t.counts[slab]
    if by > 0:
        for k in range(count, first, -1):
            t.pieces[slab, k, LO] = t.pieces[slab, k - 1, LO]
            t.pieces[slab, k, HI] = t.pieces[slab, k - 1, HI]
            t.pieces[slab, k, SERVER] = t.pieces[slab, k - 1, SERVER]
            t.pieces[slab, k, WEIGHT] = t.pieces[slab, k - 1, WEIGHT]
    else:
        for k in range(first, count):
            t.pieces[slab, k - 1, LO] = t.pieces[slab, k, LO]
            t.pieces[slab, k - 1, HI] = t.pieces[slab, k, HI]
            t.pieces[slab, k - 1, SERVER] = t.pieces[slab, k, SERVER]
            t.pieces[slab, k - 1, WEIGHT] = t.pieces[slab, k, WEIGHT]
    t.counts[slab] = count + by


@lean
def put_cover(t: Trees, node: int, server: int, weight: int) -> None:
    """Add the weight of a segment that covers the node's whole range."""
    if t.links[node, COVER] < 0:
        t.links[node, COVER] = t.used[COVERS]
        t.used[COVERS] += 1
        t.covers[t.links[node, COVER], :] = 0
    t.covers[t.links[node, COVER], server] += weight


@lean
def put_at_leaf(t: Trees, leaf: int, lo: int, hi: int, server: int, weight: int) -> bool:
    """Add the weight (it may be negative) of a segment to a leaf that it meets; False if the slab is full.

    The sums are the caller's to see to: for all servers where the leaf had none before.
    """
    lo, hi = max(lo, t.spans[leaf, LO]), min(hi, t.spans[leaf, HI])
    if lo == t.spans[leaf, LO] and hi == t.spans[leaf, HI]:
        put_cover(t, leaf, server, weight)
        return True
    slab = t.links[leaf, SLAB]
    if slab < 0:
        slab = new_slab(t, leaf)
    at = find_piece(t, slab, lo, hi, server)
    if not is_piece(t, slab, at, lo, hi, server):
        if t.counts[slab] == t.pieces.shape[1]:
            return False
        shift_pieces(t, slab, at, 1)
        t.pieces[slab, at, LO], t.pieces[slab, at, HI] = lo, hi
        t.pieces[slab, at, SERVER], t.pieces[slab, at, WEIGHT] = server, 0
    t.pieces[slab, at, WEIGHT] += weight
    if t.pieces[slab, at, WEIGHT] == 0:
        shift_pieces(t, slab, at + 1, -1)
    return True


@lean
def sum_up(t: Trees, node: int, first: int, last: int) -> None:
    """Compute the sums of the node anew from its cover, children and pieces, for servers `[first, last)`."""
    row, cover = t.links[node, SUMS], t.links[node, COVER]
    if row < 0:
        return
    left, right = t.links[node, LEFT], t.links[node, RIGHT]
    for s in range(first, last):
        count = t.covers[cover, s] if cover >= 0 else 0
        to_right = to_left = count * t.fades[node, REACH]
        whole = count * t.fades[node, OWN]
        if left >= 0:
            from_left, outward, inner = casts(t, left, s)
            to_left += outward
            to_right += from_left * t.fades[right, FADE]
            whole += inner + from_left * t.fades[right, REACH]
            outward, from_right, inner = casts(t, right, s)
            to_right += outward
            to_left += from_right * t.fades[left, FADE]
            whole += inner + from_right * t.fades[left, REACH]
        t.sums[row, TO_RIGHT, s] = to_right
        t.sums[row, TO_LEFT, s] = to_left
        t.sums[row, WHOLE, s] = whole
    if t.links[node, SLAB] >= 0:
        sum_up_pieces(t, row, node, first, last)


@lean
def casts(t: Trees, node: int, server: int) -> tuple[float, float, float]:
    """Return what the content of a node casts to its right and left, and what its range costs against it."""
    row, cover = t.links[node, SUMS], t.links[node, COVER]
    if row >= 0:
        sums = t.sums
        return sums[row, TO_RIGHT, server], sums[row, TO_LEFT, server], sums[row, WHOLE, server]
    count = float(t.covers[cover, server]) if cover >= 0 else 0.0
    reach = count * t.fades[node, REACH]
    return reach, reach, count * t.fades[node, OWN]


@lean
def sum_up_pieces(t: Trees, row: int, leaf: int, first: int, last: int) -> None:
    """Add what the pieces of a leaf cast."""
    slab, lo, hi = t.links[leaf, SLAB], t.spans[leaf, LO], t.spans[leaf, HI]
    for k in range(t.counts[slab]):
        s = t.pieces[slab, k, SERVER]
        if first <= s < last:
            a, b, weight = t.pieces[slab, k, LO], t.pieces[slab, k, HI], t.pieces[slab, k, WEIGHT]
            cast = -math.expm1(-t.rate * (b - a)) * weight
            t.sums[row, TO_RIGHT, s] += cast * math.exp(-t.rate * (hi - b))
            t.sums[row, TO_LEFT, s] += cast * math.exp(-t.rate * (a - lo))
            t.sums[row, WHOLE, s] += weight * pair_cost(a, b, lo, hi, t.rate)


@lean
def split(t: Trees, leaf: int) -> None:
    """Give the leaf two children, and its pieces to them; a piece across the cut becomes two."""
    lo, hi, slab = t.spans[leaf, LO], t.spans[leaf, HI], t.links[leaf, SLAB]
    at = split_at(t, lo, hi)
    left, right = new_leaf(t, lo, at), new_leaf(t, at, hi)
    for k in range(t.counts[slab]):
        a, b = t.pieces[slab, k, LO], t.pieces[slab, k, HI]
        for child in (left, right):
            if a < t.spans[child, HI] and b > t.spans[child, LO]:
                put_at_leaf(t, child, a, b, t.pieces[slab, k, SERVER], t.pieces[slab, k, WEIGHT])
    free_slab(t, leaf)
    t.links[leaf, LEFT], t.links[leaf, RIGHT] = left, right


@lean
def put(t: Trees, root: int, lo: int, hi: int, server: int, weight: int) -> int:
    """Add the weight (it may be negative) of a segment that a server holds to one tree, but not to its sums.

    Return how many nodes it met; their numbers stand in the second part of the stack, parents before children. `~node`
    says that its sums are new, for all servers.
    """
    waiting, met = t.stack, t.stack[STACK:]
    waiting[0] = root
    depth, count = 1, 0
    while depth:
        depth -= 1
        node = waiting[depth]
        met[count] = node
        count += 1
        if lo <= t.spans[node, LO] and hi >= t.spans[node, HI]:
            put_cover(t, node, server, weight)
            continue
        if t.links[node, LEFT] < 0:
            bare = t.links[node, SUMS] < 0
            if put_at_leaf(t, node, lo, hi, server, weight):
                met[count - 1] = ~node if bare else node
                continue
            split(t, node)
            met[count], met[count + 1] = ~t.links[node, LEFT], ~t.links[node, RIGHT]
            count += 2
        for side in range(2):
            child = t.links[node, side]
            if lo < t.spans[child, HI] and hi > t.spans[child, LO]:
                waiting[depth] = child
                depth += 1
    return count


@lean
def is_one_way(t: Trees, met: Ints, count: int) -> bool:
    """Whether each node that was met is a child of the one before, and none has new sums."""
    for k in range(1, count):
        node, above = met[k], met[k - 1]
        if node < 0 or (t.links[above, LEFT] != node and t.links[above, RIGHT] != node):
            return False
    return bool(met[0] >= 0)


@lean
def add_on_the_way(
    t: Trees, met: Ints, count: int, lo: int, hi: int, server: int, weight: int
) -> None:
    """Add what a segment casts to the sums of the nodes on the one way that leads to where it stands."""
    node = met[count - 1]
    first, last = t.spans[node, LO], t.spans[node, HI]
    lo, hi = max(lo, first), min(hi, last)
    cast = -math.expm1(-t.rate * (hi - lo)) * weight
    to_right, to_left = cast, cast
    if lo == first and hi == last:
        whole = weight * t.fades[node, OWN]
    else:
        to_right *= math.exp(-t.rate * (last - hi))
        to_left *= math.exp(-t.rate * (lo - first))
        whole = weight * pair_cost(lo, hi, first, last, t.rate)
    for k in range(count - 1, -1, -1):
        row = t.links[met[k], SUMS]
        if row >= 0:
            t.sums[row, TO_RIGHT, server] += to_right
            t.sums[row, TO_LEFT, server] += to_left
            t.sums[row, WHOLE, server] += whole
        if k > 0 and t.links[met[k - 1], LEFT] == met[k]:
            other = t.links[met[k - 1], RIGHT]
            whole += to_right * t.fades[other, REACH]
            to_right *= t.fades[other, FADE]
        elif k > 0:
            other = t.links[met[k - 1], LEFT]
            whole += to_left * t.fades[other, REACH]
            to_left *= t.fades[other, FADE]


@lean
def add(t: Trees, root: int, lo: int, hi: int, server: int, weight: int) -> None:
    """Add the weight (it may be negative) of a segment that a server holds to one tree.

    What is loaded is added to the sums on the way, what is dropped makes them be computed anew: the first touches a
    third of the memory, and adding what is positive is as good; the second leaves no trace of what is gone.
    """
    met = t.stack[STACK:]
    count = put(t, root, lo, hi, server, weight)
    if weight > 0 and is_one_way(t, met, count):
        add_on_the_way(t, met, count, lo, hi, server, weight)
        return
    for k in range(count - 1, -1, -1):
        node, first, last = met[k], server, server + 1
        if node < 0:
            node, first, last = ~node, 0, t.sums.shape[2]
        sum_up(t, node, first, last)


@lean
def holds(t: Trees, root: int, lo: int, hi: int, server: int, weight: int) -> bool:
    """Whether the server has this much coverage of the interval, in the pieces in which it was added."""
    waiting = t.stack
    waiting[0] = root
    depth = 1
    while depth:
        depth -= 1
        node = waiting[depth]
        a, b = max(lo, t.spans[node, LO]), min(hi, t.spans[node, HI])
        if a == t.spans[node, LO] and b == t.spans[node, HI]:
            if t.links[node, COVER] < 0 or t.covers[t.links[node, COVER], server] < weight:
                return False
        elif t.links[node, LEFT] < 0:
            slab = t.links[node, SLAB]
            if slab < 0:
                return False
            at = find_piece(t, slab, a, b, server)
            if not is_piece(t, slab, at, a, b, server) or t.pieces[slab, at, WEIGHT] < weight:
                return False
        else:
            for side in range(2):
                child = t.links[node, side]
                if lo < t.spans[child, HI] and hi > t.spans[child, LO]:
                    waiting[depth] = child
                    depth += 1
    return True


@lean
def has_spare(t: Trees) -> bool:
    """Whether there is room for one segment more in two trees, whatever it splits."""
    return bool(
        t.used[NODES] + SPARE <= len(t.spans)
        and t.used[ROWS] + SPARE <= len(t.sums)
        and t.used[COVERS] + SPARE <= len(t.covers)
        and t.used[SLABS] + SPARE <= len(t.counts)
    )
