"""How trees change: leaves are split, segments come and go, and the sums follow."""

from __future__ import annotations

import math

from carnac.core.balancing.columns import Floats, Ints
from carnac.core.balancing.compiled import aside, part
from carnac.core.balancing.cost import DAY_MS, HOUR_MS
from carnac.core.balancing.tree import (
    ABOVE,
    AMONG,
    AT_FROM,
    AT_TO,
    CHILDREN,
    COUNT,
    EARLIEST,
    END,
    FADE,
    FIRST,
    FROM,
    FROM_LEFT,
    FROM_RIGHT,
    HI,
    IS_NEW,
    LAST_FAN,
    LATEST,
    LO,
    NEVER,
    NODE,
    NODES,
    OUTER,
    OWN,
    REACH,
    SERVER,
    SLAB,
    START,
    STEP,
    SUMS,
    TO,
    TO_LEFT,
    TO_RIGHT,
    UNKNOWN,
    WEIGHT,
    WHOLE,
    Trees,
    child_at,
    child_end,
    find_piece,
    free_slab,
    is_piece,
    new_node,
    new_slab,
    open_among,
    open_outer,
    pair_cost,
    put_cover,
    put_piece,
    reach_out,
    sum_up,
)
from carnac.core.time.intervals import MAX_MS, MIN_MS


@part
def shared_unit(t: Trees, leaf: int) -> int:
    """Return the largest unit of time in which at least half of the ends of the leaf's pieces are whole."""
    slab, lo, hi = t.nodes[leaf, SLAB], t.nodes[leaf, LO], t.nodes[leaf, HI]
    for unit in (DAY_MS, HOUR_MS, 900_000, 300_000, 60_000, 15_000, 5_000, 1_000, 100, 10):
        whole, ends = 0, 0
        for k in range(t.counts[slab]):
            for at in (t.pieces[slab, k, START], t.pieces[slab, k, END]):
                if lo < at < hi:
                    ends += 1
                    whole += at % unit == 0
        if 2 * whole >= ends:
            return unit
    return 1


@part
def part_length(length: int, parts: int, unit: int) -> int:
    """Return how long the parts should be if there are to be about so many, two at least: a whole unit of time."""
    least, shorter = max(-(-length // parts), unit), 1
    for step in (
        1, 10, 100, 1_000, 5_000, 15_000, 60_000, 300_000, 900_000,
        HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 12 * HOUR_MS, DAY_MS,
    ):  # fmt: skip
        if step >= least:
            return step if step < length or step == unit else shorter
        shorter = step
    days = 1
    while days * DAY_MS < least:
        days *= 2
    return days * DAY_MS


@part
def plan_cuts(t: Trees, leaf: int) -> tuple[int, int, int]:
    """Return where the leaf's first child is to end, how long the next ones are to be, and how many there will be.

    First it is cut at the ends of the frame, so that the years without data cost no depth; beyond it, in parts as long
    as the way to the other end of the frame; within, in parts as long as the segments, or else in some larger unit.
    """
    lo, hi = t.nodes[leaf, LO], t.nodes[leaf, HI]
    start, end = t.frame[0], t.frame[1]
    if lo < start < hi:
        return start, end - start, 3 if end < hi else 2
    if lo < end < hi:
        return end, hi - end, 2
    if hi == MAX_MS and lo >= end and 2 * lo - start < hi:
        step = lo - start
        return lo + step, step, min(-(-(hi - lo) // step), t.fan)
    if lo == MIN_MS and hi <= start and 2 * hi - end > lo:
        step = end - hi
        count = min(-(-(hi - lo) // step), t.fan)
        return hi - (count - 1) * step, step, count
    step = shared_unit(t, leaf)
    if step == 1 or hi - lo > LAST_FAN * step:
        step = part_length(hi - lo, t.fan, step)
    grid = min(step, DAY_MS)
    first = lo // grid * grid + step
    return first, step, 1 + -(-(hi - first) // step)


@part
def give_piece(t: Trees, node: int, n: int) -> None:
    """Give the children their parts of a piece of a leaf that has just got them."""
    slab = t.nodes[node, SLAB]
    a, b = t.pieces[slab, n, START], t.pieces[slab, n, END]
    server, weight = t.pieces[slab, n, SERVER], t.pieces[slab, n, WEIGHT]
    i, j = child_at(t, node, a), child_at(t, node, b - 1)
    reach_out(t, node, i, j)
    for child in range(t.nodes[node, CHILDREN] + i, t.nodes[node, CHILDREN] + j + 1):
        lo, hi = t.nodes[child, LO], t.nodes[child, HI]
        if a <= lo and b >= hi:
            put_cover(t, child, server, weight)
            open_among(t, node)
            continue
        if t.nodes[child, SLAB] < 0:
            new_slab(t, child)
            open_outer(t, node)
        put_piece(t, t.nodes[child, SLAB], max(a, lo), min(b, hi), server, weight)


@aside
def split(t: Trees, leaf: int, in_bulk: bool) -> None:
    """Give the leaf children, and its pieces to them; a piece across a cut becomes two."""
    slab, lo, hi = t.nodes[leaf, SLAB], t.nodes[leaf, LO], t.nodes[leaf, HI]
    first, step, count = plan_cuts(t, leaf)
    children = t.used[NODES]
    for k in range(count):
        a = lo if k == 0 else first + (k - 1) * step
        new_node(t, a, hi if k == count - 1 else first + k * step)
    t.nodes[leaf, CHILDREN], t.nodes[leaf, COUNT] = children, count
    t.nodes[leaf, FIRST], t.nodes[leaf, STEP] = first, step
    t.nodes[leaf, EARLIEST], t.nodes[leaf, LATEST] = count, -1
    for n in range(t.counts[slab]):
        give_piece(t, leaf, n)
    free_slab(t, leaf)
    if not in_bulk:
        for child in range(children, children + count):
            sum_up(t, child, 0, t.sums.shape[1])
        sum_up(t, leaf, 0, t.sums.shape[1])


@part
def cover(t: Trees, node: int, server: int, weight: int, in_bulk: bool) -> None:
    """Add the weight (it may be negative) of a segment that covers the node's whole range."""
    put_cover(t, node, server, weight)
    row = t.nodes[node, SUMS]
    if row < 0 or in_bulk:
        return
    if weight > 0:
        t.sums[row + TO_RIGHT, server] += weight * t.fades[node, REACH]
        t.sums[row + TO_LEFT, server] += weight * t.fades[node, REACH]
        t.sums[row + WHOLE, server] += weight * t.fades[node, OWN]
    else:
        sum_up(t, node, server, server + 1)


@aside
def put_in_leaf(
    t: Trees, m: int, lo: int, hi: int, server: int, weight: int, in_bulk: bool
) -> bool:
    """Add the weight (it may be negative) of a segment that covers a leaf in part; False if its slab is full."""
    leaf, above = t.met[m, NODE], t.met[m, ABOVE]
    if t.nodes[leaf, SLAB] < 0:
        new_slab(t, leaf)
        if above >= 0 and open_outer(t, t.met[above, NODE]):
            t.met[above, IS_NEW] = 1
        if not in_bulk:
            sum_up(t, leaf, 0, t.sums.shape[1])
    a, b = max(lo, t.nodes[leaf, LO]), min(hi, t.nodes[leaf, HI])
    return put_piece(t, t.nodes[leaf, SLAB], a, b, server, weight)


@aside
def meet_children(
    t: Trees, m: int, count: int, lo: int, hi: int, server: int, weight: int, in_bulk: bool
) -> int:
    """Cover the children that the segment covers, and list those it meets in part; return how many nodes are listed."""
    met, node = t.met, t.met[m, NODE]
    i = child_at(t, node, max(lo, t.nodes[node, LO]))
    j = i
    if hi > child_end(t, node, i):
        j = child_at(t, node, min(hi, t.nodes[node, HI]) - 1)
    reach_out(t, node, i, j)
    met[m, FROM], met[m, TO] = i, j
    for k in range(i, j + 1):
        child = t.nodes[node, CHILDREN] + k
        at = -1
        if lo <= t.nodes[child, LO] and hi >= t.nodes[child, HI]:
            cover(t, child, server, weight, in_bulk)
            if open_among(t, node):
                met[m, IS_NEW] = 1
        else:
            at = count
            met[at, NODE], met[at, ABOVE], met[at, IS_NEW] = child, m, 0
            count += 1
        if k == i:
            met[m, AT_FROM] = at
        if k == j:
            met[m, AT_TO] = at
    return count


@aside
def add_in_leaf(t: Trees, m: int, lo: int, hi: int, server: int, weight: int) -> None:
    """Add what a segment casts to the sums of a leaf that it covers in part."""
    leaf = t.met[m, NODE]
    first, last = t.nodes[leaf, LO], t.nodes[leaf, HI]
    lo, hi = max(lo, first), min(hi, last)
    cast = -math.expm1(-t.rate * (hi - lo)) * weight
    t.parts[m, TO_RIGHT] = cast * math.exp(-t.rate * (last - hi))
    t.parts[m, TO_LEFT] = cast * math.exp(-t.rate * (lo - first))
    t.parts[m, WHOLE] = weight * pair_cost(lo, hi, first, last, t.rate)
    row = t.nodes[leaf, SUMS]
    for which in range(3):
        t.sums[row + which, server] += t.parts[m, which]


@part
def part_of(t: Trees, m: int, k: int, which: int, weight: int) -> float:
    """Return a child's part of a segment that meets it: TO_RIGHT, TO_LEFT or WHOLE."""
    at = -1
    if k == t.met[m, FROM]:
        at = t.met[m, AT_FROM]
    elif k == t.met[m, TO]:
        at = t.met[m, AT_TO]
    if at >= 0:
        return float(t.parts[at, which])
    child = t.nodes[t.met[m, NODE], CHILDREN] + k
    return float(weight * t.fades[child, OWN if which == WHOLE else REACH])


@part
def pass_by(
    t: Trees, node: int, k: int, side: int, cast: float, server: int
) -> tuple[float, float]:
    """Add what comes to a child from one side; return what is left of it behind, and what its range costs by it."""
    child, outer = t.nodes[node, CHILDREN] + k, t.nodes[node, OUTER]
    if outer >= 0:
        t.sums[outer + 2 * k + side, server] += cast
    return cast * t.fades[child, FADE], cast * t.fades[child, REACH]


@part
def add_three(sums: Floats, to_right: float, to_left: float, whole: float) -> None:
    """Add to the three sums of a node, for one server."""
    sums[TO_RIGHT] += to_right
    sums[TO_LEFT] += to_left
    sums[WHOLE] += whole


@part
def add_outer(
    outer: Floats, fades: Floats, i: int, j: int, count: int, to_right: float, to_left: float
) -> None:
    """Add what the children `i` to `j` cast to what comes to their siblings. In short loops, so that they overlap."""
    for k in range(j + 1, count):
        outer[2 * k + FROM_LEFT] += to_right
        to_right *= fades[k, FADE]
    for k in range(i - 1, -1, -1):
        outer[2 * k + FROM_RIGHT] += to_left
        to_left *= fades[k, FADE]


@part
def add_among(
    among: Floats, fades: Floats, i: int, j: int, count: int, to_right: float, to_left: float
) -> None:
    """Add what the ranges of the siblings of the children `i` to `j` cost against these."""
    for k in range(j + 1, count):
        among[k] += to_right * fades[k, REACH]
        to_right *= fades[k, FADE]
    for k in range(i - 1, -1, -1):
        among[k] += to_left * fades[k, REACH]
        to_left *= fades[k, FADE]


@part
def add_beside(
    node: Ints,
    fades: Floats,
    sums: Floats,
    i: int,
    j: int,
    to_right: float,
    to_left: float,
    whole: float,
) -> tuple[float, float, float]:
    """Add what the children `i` to `j` were given to what their siblings are told; return what the node casts by it.

    Short loops that wait for nothing, so that all the memory is asked for at once.
    """
    children, count, outer, among = node[CHILDREN], node[COUNT], node[OUTER], node[AMONG]
    fades = fades[children : children + count]
    if among >= 0:
        add_among(sums[among:], fades, i, j, count, to_right, to_left)
    if outer >= 0:
        add_outer(sums[outer:], fades, i, j, count, to_right, to_left)
    for k in range(j + 1, count):
        whole += to_right * fades[k, REACH]
        to_right *= fades[k, FADE]
    for k in range(i - 1, -1, -1):
        whole += to_left * fades[k, REACH]
        to_left *= fades[k, FADE]
    return to_right, to_left, whole


@aside
def add_above(t: Trees, m: int, server: int, weight: int) -> None:
    """Add what a segment casts, known at the children that it meets, to all children and to the sums of the node."""
    node, i, j = t.met[m, NODE], t.met[m, FROM], t.met[m, TO]
    among = t.nodes[node, AMONG]
    to_right, to_left, whole = 0.0, 0.0, 0.0
    for k in range(i, j + 1):  # to the siblings within the segment, and as seen from its ends
        part = part_of(t, m, k, WHOLE, weight)
        if k > i:
            to_right, more = pass_by(t, node, k, FROM_LEFT, to_right, server)
            part += more
        to_right += part_of(t, m, k, TO_RIGHT, weight)
        if among >= 0:
            t.sums[among + k, server] += part
        whole += part
    for k in range(j, i - 1, -1):
        if k < j:
            to_left, more = pass_by(t, node, k, FROM_RIGHT, to_left, server)
            whole += more
            if among >= 0:
                t.sums[among + k, server] += more
        to_left += part_of(t, m, k, TO_LEFT, weight)
    column = t.sums[:, server]
    to_right, to_left, whole = add_beside(
        t.nodes[node], t.fades, column, i, j, to_right, to_left, whole
    )
    t.parts[m, TO_RIGHT], t.parts[m, TO_LEFT], t.parts[m, WHOLE] = to_right, to_left, whole
    if t.met[m, IS_NEW]:
        sum_up(t, node, 0, t.sums.shape[1])
        return
    add_three(t.sums[t.nodes[node, SUMS] :, server], to_right, to_left, whole)


@part
def add_on_one_way(t: Trees, root: int, lo: int, hi: int, server: int, weight: int) -> bool:
    """Add a segment that has one place, a node that it covers or a leaf with room for its piece; return whether it has.

    Nearly all do, and most of the time goes here; so there is one way down, one up, and no call with all the tables.
    """
    node, depth = root, 0
    while lo > t.nodes[node, LO] or hi < t.nodes[node, HI]:
        children = t.nodes[node, CHILDREN]
        if children < 0:
            break
        k = child_at(t, node, lo)
        if hi > child_end(t, node, k):
            return False
        t.met[depth, NODE], t.met[depth, FROM] = node, k
        depth += 1
        node = children + k
    first, last, row = t.nodes[node, LO], t.nodes[node, HI], t.nodes[node, SUMS]
    if lo == first and hi == last:
        if depth > 0 and t.nodes[t.met[depth - 1, NODE], AMONG] == UNKNOWN:
            return False
        put_cover(t, node, server, weight)
        to_right = to_left = weight * t.fades[node, REACH]
        whole = weight * t.fades[node, OWN]
    else:
        slab = t.nodes[node, SLAB]
        if slab < 0 or not put_piece(t, slab, lo, hi, server, weight):
            return False
        cast = -math.expm1(-t.rate * (hi - lo)) * weight
        to_right = cast * math.exp(-t.rate * (last - hi))
        to_left = cast * math.exp(-t.rate * (lo - first))
        whole = weight * pair_cost(lo, hi, first, last, t.rate)
    if row >= 0:
        add_three(t.sums[row:, server], to_right, to_left, whole)
    for m in range(depth - 1, -1, -1):
        node, k = t.met[m, NODE], t.met[m, FROM]
        reach_out(t, node, k, k)
        column = t.sums[:, server]
        if t.nodes[node, AMONG] >= 0:
            column[t.nodes[node, AMONG] + k] += whole
        to_right, to_left, whole = add_beside(
            t.nodes[node], t.fades, column, k, k, to_right, to_left, whole
        )
        add_three(column[t.nodes[node, SUMS] :], to_right, to_left, whole)
    return True


@aside
def add(t: Trees, root: int, lo: int, hi: int, server: int, weight: int, in_bulk: bool) -> None:
    """Add the weight (it may be negative) of a segment that a server holds to one tree; in bulk not to the sums.

    What is loaded is added to the sums on the way, what is dropped makes them be computed anew: the first touches less
    memory, and adding what is positive is as good; the second leaves no trace of what is gone.
    """
    if weight > 0 and not in_bulk and add_on_one_way(t, root, lo, hi, server, weight):
        return
    if lo <= t.nodes[root, LO] and hi >= t.nodes[root, HI]:
        cover(t, root, server, weight, in_bulk)
        return
    t.met[0, NODE], t.met[0, ABOVE], t.met[0, IS_NEW] = root, -1, 0
    m, count = 0, 1
    while m < count:
        node, above = t.met[m, NODE], t.met[m, ABOVE]
        if t.nodes[node, CHILDREN] < 0 and not put_in_leaf(t, m, lo, hi, server, weight, in_bulk):
            split(t, node, in_bulk)
            if above >= 0:  # a child that is no leaf is asked itself
                t.nodes[t.met[above, NODE], AMONG] = NEVER
        if t.nodes[node, CHILDREN] >= 0:
            count = meet_children(t, m, count, lo, hi, server, weight, in_bulk)
        m += 1
    if in_bulk:
        return
    for m in range(count - 1, -1, -1):
        node = t.met[m, NODE]
        if weight < 0:
            sum_up(t, node, server, server + 1)
        elif t.nodes[node, CHILDREN] >= 0:
            add_above(t, m, server, weight)
        else:
            add_in_leaf(t, m, lo, hi, server, weight)


@aside
def holds(t: Trees, root: int, lo: int, hi: int, server: int, weight: int) -> bool:
    """Whether the server has this much coverage of the interval, in the pieces in which it was added."""
    waiting = t.met
    waiting[0, NODE] = root
    depth = 1
    while depth:
        depth -= 1
        node = waiting[depth, NODE]
        a, b = max(lo, t.nodes[node, LO]), min(hi, t.nodes[node, HI])
        if a == t.nodes[node, LO] and b == t.nodes[node, HI]:
            if t.covers[node, server] < weight:
                return False
        elif t.nodes[node, CHILDREN] < 0:
            slab = t.nodes[node, SLAB]
            if slab < 0:
                return False
            at = find_piece(t, slab, a, b, server)
            if not is_piece(t, slab, at, a, b, server) or t.pieces[slab, at, WEIGHT] < weight:
                return False
        else:
            for k in range(child_at(t, node, a), child_at(t, node, b - 1) + 1):
                waiting[depth, NODE] = t.nodes[node, CHILDREN] + k
                depth += 1
    return True
