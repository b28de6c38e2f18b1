"""Trees over time that know what an interval costs against all that is held, on every server at once.

One tree holds all segments, one more each datasource's. A node stands for a range of time. Its content is the coverage
of that range, w(t): how many segments of a server cover an instant. Three numbers a server say all that the rest of
the world needs to know of it, in units of 1/λ and 1/λ²:

    TO_RIGHT = ∫ w(t) exp(−λ(hi − t)) dt      what it casts to its right, seen from its right end
    TO_LEFT  = ∫ w(t) exp(−λ(t − lo)) dt      what it casts to its left, seen from its left end
    WHOLE    = ∫∫ w(t) exp(−λ|t − s|) dt ds   what its whole range costs against its content

A node has some sixteen children, and a segment mostly lies in one of them. What the others cast on it is kept, two rows
for each child: FROM_LEFT, what all siblings to its left cast together, as seen from its left end, and FROM_RIGHT. Where
all children are leaves, one row says more: what the child's range costs against all of them, itself included (AMONG).
So a query reads two rows a level and a last one, not one for each sibling. An update adds to all siblings instead,
which is cheaper: to one number of each row, since it is of one server, where a query wants all servers.

A segment that covers a range is counted at the node (its cover) and not below; what covers a leaf in part stands in the
leaf's slab, as pieces sorted by interval and server. Leaves that fill up are split. So a query meets O(log n) nodes, an
update changes the sums of O(log n) nodes for one server, and memory grows with the segments, not with their grid.

Each sum has only positive terms, over counts that are whole: nothing cancels. A load adds to the sums above it, a drop
has them computed anew, so nothing is left of what is gone; after n loads the relative error is at most n · 2⁻⁵³. Since
each node is anchored at its own ends, nothing overflows at any distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from carnac.core.balancing.columns import Floats, Ints
from carnac.core.balancing.compiled import aside, compiled, part
from carnac.core.balancing.cost import scaled_cost
from carnac.core.balancing.tables import Tables

Counts = npt.NDArray[np.int32]

pair_cost = part(scaled_cost)

MAX_DEPTH = 128
"""More levels than any tree has: each split at least nearly halves a range, down to a millisecond."""
MAX_FAN, LAST_FAN = 16, 48
"""The most parts of one length that a leaf is split into; and the most if they are as long as the segments, so that
they will hardly be split again. What is left at the ends may add two."""
MAX_CHILDREN = LAST_FAN + 2
SPARE, SPARE_ROWS = 2_048, 12_288
"""More nodes, and more rows of sums, than one segment can add to two trees, splitting the leaves on all its ways."""

LO, HI, COVERED, SUMS, SLAB, CHILDREN, COUNT, FIRST, STEP, OUTER, AMONG, EARLIEST, LATEST = range(
    13
)
TO_RIGHT, TO_LEFT, WHOLE = range(3)
FROM_LEFT, FROM_RIGHT = range(2)
START, END, SERVER, WEIGHT = range(4)
FADE, REACH, OWN = range(3)
NODES, ROWS, SLABS, FREE = range(4)
UNKNOWN, NEVER = -1, -2
NODE, ABOVE, FROM, TO, AT_FROM, AT_TO, IS_NEW = range(7)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trees(Tables):
    """The nodes of all trees, as tables; a node, a row of sums, a slab is its number. The kernels change them in place.

    Attributes:
        rate: λ, a millisecond.
        fan: Into about how many parts a leaf is split.
        frame: Start and end of the time in which most data lies; only how deep the trees are depends on it.
        used: How many rows of `nodes`, `fades` and `covers`, `sums`, `pieces` are in use; last, the first slab that is
            free again (-1: none), whose count is the next.
        nodes: (node, LO | HI | ...): its range; COVERED, the sum of its cover over servers; its rows below (SUMS,
            SLAB; -1 is none; a leaf without pieces needs no sums: its cover says it all); its first child, whose
            siblings follow (CHILDREN), and their COUNT. The first child ends at FIRST, the others are STEP long, the
            last ends where the node does. OUTER is the first of two rows of sums for each child, FROM_LEFT and
            FROM_RIGHT, UNKNOWN while all children are leaves without pieces; AMONG the first of one row for each,
            UNKNOWN while nothing covers one, NEVER once one is no leaf. EARLIEST and LATEST say between which children
            there may be content.
        fades: (node, FADE | REACH | OWN): with its length t, exp(−λt), 1 − exp(−λt), and its cost against itself.
        sums: (row, server); a node's are three rows, TO_RIGHT, TO_LEFT, WHOLE.
        covers: (node, server): weight of the segments that cover the range.
        counts: (slab): how many pieces it has.
        pieces: (slab, piece, START | END | SERVER | WEIGHT), in this order.
        met: Nodes that a walk has met (NODE), where their parents stand in `met` (ABOVE), the children that the segment
            meets (FROM, TO) and where those two stand if it covers them in part (AT_FROM, AT_TO), and whether the rows
            between the children are new (IS_NEW).
        parts: For nodes in `met`: TO_RIGHT, TO_LEFT and WHOLE of the segment that is being added.
        noted: How many rows of sums and of covers a query has noted.
        terms, factors: (sums or covers, which): the rows that it wants, and how often.
    """

    FIXED: ClassVar[dict[str, int]] = {
        "nodes": 16, "fades": 4, "pieces": 4, "met": 8, "parts": 3
    }  # fmt: skip

    rate: float
    fan: int
    frame: Ints
    used: Ints
    nodes: Ints
    fades: Floats
    sums: Floats
    covers: Counts
    counts: Ints
    pieces: Ints
    met: Ints
    parts: Floats
    noted: Ints
    terms: Ints
    factors: Floats


@compiled
def new_node(t: Trees, lo: int, hi: int) -> int:
    """Make a leaf without content; return its number. The caller has seen to spare room."""
    node = int(t.used[NODES])
    t.used[NODES] += 1
    t.nodes[node, :] = -1
    t.nodes[node, LO], t.nodes[node, HI] = lo, hi
    t.nodes[node, COVERED] = 0
    t.fades[node, FADE] = math.exp(-t.rate * (hi - lo))
    t.fades[node, REACH] = -math.expm1(-t.rate * (hi - lo))
    t.fades[node, OWN] = pair_cost(lo, hi, lo, hi, t.rate)
    return node


@part
def child_at(t: Trees, node: int, at: int) -> int:
    """Return which child (from 0 up) has the instant, which lies in the node's range."""
    first = t.nodes[node, FIRST]
    if at < first:
        return 0
    return int(min((at - first) // t.nodes[node, STEP] + 1, t.nodes[node, COUNT] - 1))


@part
def child_start(t: Trees, node: int, k: int) -> int:
    """Return where the range of child `k` begins; the child itself may not be in the processor's cache."""
    if k == 0:
        return int(t.nodes[node, LO])
    return int(t.nodes[node, FIRST] + (k - 1) * t.nodes[node, STEP])


@part
def child_end(t: Trees, node: int, k: int) -> int:
    """Return where the range of child `k` ends."""
    if k == t.nodes[node, COUNT] - 1:
        return int(t.nodes[node, HI])
    return int(t.nodes[node, FIRST] + k * t.nodes[node, STEP])


@part
def new_slab(t: Trees, leaf: int) -> None:
    """Give the leaf an empty slab, and rows for sums if it has none."""
    slab = int(t.used[FREE])
    if slab >= 0:
        t.used[FREE] = t.counts[slab]
    else:
        slab = int(t.used[SLABS])
        t.used[SLABS] += 1
    t.counts[slab] = 0
    t.nodes[leaf, SLAB] = slab
    if t.nodes[leaf, SUMS] < 0:
        t.nodes[leaf, SUMS] = t.used[ROWS]
        t.used[ROWS] += 3


@part
def open_outer(t: Trees, node: int) -> bool:
    """Make the rows for what siblings cast on each child of the node; False if it has them."""
    if t.nodes[node, OUTER] >= 0:
        return False
    t.nodes[node, OUTER] = t.used[ROWS]
    t.used[ROWS] += 2 * t.nodes[node, COUNT]
    return True


@part
def open_among(t: Trees, node: int) -> bool:
    """Make the rows for what each child's range costs among the children; False if the node has them or cannot."""
    if t.nodes[node, AMONG] != UNKNOWN:
        return False
    t.nodes[node, AMONG] = t.used[ROWS]
    t.used[ROWS] += t.nodes[node, COUNT]
    return True


@part
def free_slab(t: Trees, leaf: int) -> None:
    """Take the slab from the leaf; the next one that needs a slab gets it."""
    slab = t.nodes[leaf, SLAB]
    t.counts[slab] = t.used[FREE]
    t.used[FREE] = slab
    t.nodes[leaf, SLAB] = -1


@part
def find_piece(t: Trees, slab: int, lo: int, hi: int, server: int) -> int:
    """Return where in the slab the piece stands, or where it would."""
    first, last = 0, t.counts[slab]
    while first < last:
        at = (first + last) // 2
        order = t.pieces[slab, at, START] - lo
        if order == 0:
            order = t.pieces[slab, at, END] - hi
        if order == 0:
            order = t.pieces[slab, at, SERVER] - server
        if order < 0:
            first = at + 1
        else:
            last = at
    return int(first)


@part
def is_piece(t: Trees, slab: int, at: int, lo: int, hi: int, server: int) -> bool:
    """Whether just this piece stands there."""
    return bool(
        at < t.counts[slab]
        and t.pieces[slab, at, START] == lo
        and t.pieces[slab, at, END] == hi
        and t.pieces[slab, at, SERVER] == server
    )


@part
def shift_pieces(t: Trees, slab: int, first: int, by: int) -> None:
    """Make room for one piece at `first` (by 1), or close the gap before it (by -1)."""
    count = t.counts[slab]
    if by > 0:
        for k in range(count, first, -1):
            t.pieces[slab, k, START] = t.pieces[slab, k - 1, START]
            t.pieces[slab, k, END] = t.pieces[slab, k - 1, END]
            t.pieces[slab, k, SERVER] = t.pieces[slab, k - 1, SERVER]
            t.pieces[slab, k, WEIGHT] = t.pieces[slab, k - 1, WEIGHT]
    else:
        for k in range(first, count):
            t.pieces[slab, k - 1, START] = t.pieces[slab, k, START]
            t.pieces[slab, k - 1, END] = t.pieces[slab, k, END]
            t.pieces[slab, k - 1, SERVER] = t.pieces[slab, k, SERVER]
            t.pieces[slab, k - 1, WEIGHT] = t.pieces[slab, k, WEIGHT]
    t.counts[slab] = count + by


@aside
def put_piece(t: Trees, slab: int, lo: int, hi: int, server: int, weight: int) -> bool:
    """Add the weight (it may be negative) of a piece to a slab; False if that is full."""
    at = find_piece(t, slab, lo, hi, server)
    if not is_piece(t, slab, at, lo, hi, server):
        if t.counts[slab] == t.pieces.shape[1]:
            return False
        shift_pieces(t, slab, at, 1)
        t.pieces[slab, at, START], t.pieces[slab, at, END] = lo, hi
        t.pieces[slab, at, SERVER], t.pieces[slab, at, WEIGHT] = server, 0
    t.pieces[slab, at, WEIGHT] += weight
    if t.pieces[slab, at, WEIGHT] == 0:
        shift_pieces(t, slab, at + 1, -1)
    return True


@part
def put_cover(t: Trees, node: int, server: int, weight: int) -> None:
    """Add the weight (it may be negative) of a segment that covers the node's whole range, but not to its sums."""
    t.covers[node, server] += weight
    t.nodes[node, COVERED] += weight


@part
def reach_out(t: Trees, node: int, first: int, last: int) -> None:
    """Note that there is content in the children from `first` to `last`."""
    t.nodes[node, EARLIEST] = min(first, t.nodes[node, EARLIEST])
    t.nodes[node, LATEST] = max(last, t.nodes[node, LATEST])


@part
def add_scaled(out: Floats, values: Floats | Counts, factor: float) -> None:
    """Add `factor` times the values; a loop over slices from 0 up is one that the compiler can vectorise."""
    for s in range(len(out)):
        out[s] += factor * values[s]


@part
def scale(out: Floats, factor: float) -> None:
    """Multiply all by the factor."""
    for s in range(len(out)):
        out[s] *= factor


@part
def copy_row(out: Floats, values: Floats) -> None:
    """Take the values."""
    for s in range(len(out)):
        out[s] = values[s]


@part
def add_casts(t: Trees, node: int, which: int, first: int, last: int, out: Floats) -> None:
    """Add one of the node's three sums to `out`."""
    row = t.nodes[node, SUMS]
    if row >= 0:
        add_scaled(out, t.sums[row + which, first:last], 1.0)
    elif t.nodes[node, COVERED] > 0:
        factor = t.fades[node, OWN if which == WHOLE else REACH]
        add_scaled(out, t.covers[node, first:last], factor)


@aside
def sum_up_children(t: Trees, node: int, first: int, last: int) -> None:
    """Add up what the children cast: from left to right and back, what comes from all before fades on its way."""
    row, count = t.nodes[node, SUMS], t.nodes[node, COUNT]
    children, outer, among = t.nodes[node, CHILDREN], t.nodes[node, OUTER], t.nodes[node, AMONG]
    whole = t.sums[row + WHOLE, first:last]
    if among >= 0:
        t.sums[among : among + count, first:last] = 0.0
    for side in (TO_RIGHT, TO_LEFT):
        cast = t.sums[row + side, first:last]
        for n in range(count):
            k = n if side == TO_RIGHT else count - 1 - n
            if outer >= 0:
                copy_row(t.sums[outer + 2 * k + side, first:last], cast)
            reach = t.fades[children + k, REACH]
            add_scaled(whole, cast, reach)
            if among >= 0:
                add_scaled(t.sums[among + k, first:last], cast, reach)
                if side == TO_RIGHT:
                    add_casts(t, children + k, WHOLE, first, last, t.sums[among + k, first:last])
            scale(cast, t.fades[children + k, FADE])
            add_casts(t, children + k, side, first, last, cast)
            if side == TO_RIGHT:
                add_casts(t, children + k, WHOLE, first, last, whole)


@aside
def sum_up_pieces(t: Trees, row: int, leaf: int, first: int, last: int) -> None:
    """Add what the pieces of a leaf cast."""
    slab, lo, hi = t.nodes[leaf, SLAB], t.nodes[leaf, LO], t.nodes[leaf, HI]
    for k in range(t.counts[slab]):
        s = t.pieces[slab, k, SERVER]
        if first <= s < last:
            a, b, weight = (
                t.pieces[slab, k, START],
                t.pieces[slab, k, END],
                t.pieces[slab, k, WEIGHT],
            )
            cast = -math.expm1(-t.rate * (b - a)) * weight
            t.sums[row + TO_RIGHT, s] += cast * math.exp(-t.rate * (hi - b))
            t.sums[row + TO_LEFT, s] += cast * math.exp(-t.rate * (a - lo))
            t.sums[row + WHOLE, s] += weight * pair_cost(a, b, lo, hi, t.rate)


@aside
def sum_up(t: Trees, node: int, first: int, last: int) -> None:
    """Compute the sums of the node, and those between its children, anew for servers `[first, last)`."""
    row = t.nodes[node, SUMS]
    if row < 0:
        return
    t.sums[row : row + 3, first:last] = 0.0
    if t.nodes[node, CHILDREN] >= 0:
        sum_up_children(t, node, first, last)
    elif t.nodes[node, SLAB] >= 0:
        sum_up_pieces(t, row, node, first, last)
    reach, own = t.fades[node, REACH], t.fades[node, OWN]
    for s in range(first, last):
        count = t.covers[node, s]
        t.sums[row + TO_RIGHT, s] += count * reach
        t.sums[row + TO_LEFT, s] += count * reach
        t.sums[row + WHOLE, s] += count * own


@compiled
def has_spare(t: Trees) -> bool:
    """Whether there is room for one segment more in two trees, whatever it splits."""
    return bool(
        t.used[NODES] + SPARE <= len(t.nodes)
        and t.used[ROWS] + SPARE_ROWS <= len(t.sums)
        and t.used[SLABS] + SPARE <= len(t.counts)
    )
