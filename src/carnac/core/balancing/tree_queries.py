"""What the trees are asked: the cost of an interval against the content of trees, and all pairs within one."""

from __future__ import annotations

import math

from carnac.core.balancing.columns import Floats, Ints
from carnac.core.balancing.compiled import aside, compiled, fetch, part
from carnac.core.balancing.tree import (
    AMONG,
    CHILDREN,
    COUNT,
    COVERED,
    EARLIEST,
    END,
    FADE,
    FROM_LEFT,
    FROM_RIGHT,
    HI,
    LATEST,
    LO,
    MAX_CHILDREN,
    NODE,
    NODES,
    OUTER,
    OWN,
    REACH,
    SERVER,
    SLAB,
    START,
    SUMS,
    TO_LEFT,
    TO_RIGHT,
    WEIGHT,
    WHOLE,
    Counts,
    Trees,
    child_at,
    child_end,
    child_start,
    pair_cost,
)

NODE_TERMS = 3 * MAX_CHILDREN + 2
"""The most rows of one kind that the visit of a node notes."""
MAX_TERMS = 2 * NODE_TERMS
BY_SUMS, BY_COVERS = range(2)


@part
def note(t: Trees, kind: int, row: int, factor: float) -> None:
    """Note that `factor` times a row of sums or of covers is to be added."""
    count = t.noted[kind]
    t.terms[kind, count], t.factors[kind, count] = row, factor
    t.noted[kind] = count + 1


@part
def add_noted(t: Trees, first: int, last: int, out: Floats) -> None:
    """Add what was noted to `out[s]` for servers `first <= s < last`; then nothing is noted any more."""
    to = out[first:last]
    if t.noted[BY_COVERS] > 0:
        add_rows(t.covers, t.terms[BY_COVERS], t.factors[BY_COVERS], t.noted[BY_COVERS], first, to)
    if t.noted[BY_SUMS] > 0:
        add_rows(t.sums, t.terms[BY_SUMS], t.factors[BY_SUMS], t.noted[BY_SUMS], first, to)
    t.noted[BY_SUMS] = t.noted[BY_COVERS] = 0


@part
def add_rows(
    table: Floats | Counts, rows: Ints, factors: Floats, count: int, first: int, to: Floats
) -> None:
    """Add so many rows, times their factors, five at a time: mostly a tree has five, and the memory is the slower part.

    What is left of the last five is filled up with nothing.
    """
    last = first + len(to)
    for n in range(count, count + 4):
        rows[n], factors[n] = rows[0], 0.0
    for n in range(0, count, 5):
        e0, e1, e2, e3, e4 = (
            factors[n],
            factors[n + 1],
            factors[n + 2],
            factors[n + 3],
            factors[n + 4],
        )
        a, b = table[rows[n], first:last], table[rows[n + 1], first:last]
        c, d = table[rows[n + 2], first:last], table[rows[n + 3], first:last]
        e = table[rows[n + 4], first:last]
        for s in range(len(to)):
            to[s] += ((e0 * a[s] + e1 * b[s]) + (e2 * c[s] + e3 * d[s])) + e4 * e[s]


@part
def add_both_costs(
    t: Trees, root: int, own: int, lo: int, hi: int, first: int, last: int, out: Floats
) -> None:
    """Add to `out[s]` what the interval costs against all that server `s` holds, in units of 1/λ².

    For servers `first <= s < last`. `root` is the tree of all, `own` that of the segment's datasource, -1 if none.
    """
    reach = -math.expm1(-t.rate * (hi - lo))
    for tree in (root, own):
        if tree >= 0:
            note_costs(t, tree, lo, hi, reach, first, last, out)
    add_noted(t, first, last, out)


@compiled
def add_costs(
    t: Trees, root: int, own: int, lo: int, hi: int, first: int, last: int, out: Floats
) -> None:
    """Do the same when Python asks."""
    add_both_costs(t, root, own, lo, hi, first, last, out)


@aside
def note_costs(
    t: Trees, root: int, lo: int, hi: int, reach: float, first: int, last: int, out: Floats
) -> None:
    """Note which rows of one tree answer for the interval, or add to `out` what must be computed by pieces.

    The walk goes down along the ends of the interval; what lies wholly to one side, or wholly inside, is in sums.
    """
    waiting = t.met
    waiting[0, NODE] = root
    depth = 1
    while depth:
        depth -= 1
        node = waiting[depth, NODE]
        if max(t.noted[BY_SUMS], t.noted[BY_COVERS]) > MAX_TERMS - NODE_TERMS:
            add_noted(t, first, last, out)
        if t.nodes[node, COVERED] > 0:
            cost = pair_cost(lo, hi, t.nodes[node, LO], t.nodes[node, HI], t.rate)
            note(t, BY_COVERS, node, cost)
        if t.nodes[node, CHILDREN] < 0:
            if t.nodes[node, SLAB] >= 0:
                add_pieces(t, t.nodes[node, SLAB], lo, hi, first, last, out)
            continue
        i = child_at(t, node, max(lo, t.nodes[node, LO]))
        j = i
        if hi > child_end(t, node, i):
            j = child_at(t, node, min(hi, t.nodes[node, HI]) - 1)
        if note_among(t, node, i, j, lo, hi):
            continue
        if t.nodes[node, OUTER] >= 0:
            note_outer(t, node, i, j, lo, hi, reach)
        else:
            note_leaves(t, node, i, j, lo, hi, reach)
        for k in range(max(i, t.nodes[node, EARLIEST]), min(j, t.nodes[node, LATEST]) + 1):
            child = t.nodes[node, CHILDREN] + k
            if not note_inside(t, child, lo, hi):
                waiting[depth, NODE] = child
                depth += 1


@part
def note_outer(t: Trees, node: int, i: int, j: int, lo: int, hi: int, reach: float) -> None:
    """Note what the children before `i` and after `j` cast on the interval, which begins in `i` and ends in `j`."""
    outer = t.nodes[node, OUTER]
    if t.nodes[node, EARLIEST] < i:
        cast = reach * math.exp(-t.rate * (lo - child_start(t, node, i)))
        note(t, BY_SUMS, outer + 2 * i + FROM_LEFT, cast)
    if t.nodes[node, LATEST] > j:
        cast = reach * math.exp(-t.rate * (child_end(t, node, j) - hi))
        note(t, BY_SUMS, outer + 2 * j + FROM_RIGHT, cast)


@aside
def note_leaves(t: Trees, node: int, i: int, j: int, lo: int, hi: int, reach: float) -> None:
    """Note what each child before `i` and after `j` casts on the interval, where all are leaves without pieces."""
    children = t.nodes[node, CHILDREN]
    if t.nodes[node, EARLIEST] < i:
        cast = reach * math.exp(-t.rate * (lo - child_start(t, node, i)))
        for child in range(children + i - 1, children + t.nodes[node, EARLIEST] - 1, -1):
            note(t, BY_COVERS, child, cast * t.fades[child, REACH])
            cast *= t.fades[child, FADE]
    if t.nodes[node, LATEST] > j:
        cast = reach * math.exp(-t.rate * (child_end(t, node, j) - hi))
        for child in range(children + j + 1, children + t.nodes[node, LATEST] + 1):
            note(t, BY_COVERS, child, cast * t.fades[child, REACH])
            cast *= t.fades[child, FADE]


@part
def note_among(t: Trees, node: int, i: int, j: int, lo: int, hi: int) -> bool:
    """Note what the interval costs among the children, if it is just the range of those from `i` to `j`, all leaves.

    The first of them is fetched: as a rule, what is asked about is loaded there next.
    """
    among = t.nodes[node, AMONG]
    if among < 0 or lo != child_start(t, node, i) or hi != child_end(t, node, j):
        return False
    fetch(t.nodes, (t.nodes[node, CHILDREN] + i) * t.nodes.shape[1] * t.nodes.itemsize)
    fetch(t.fades, (t.nodes[node, CHILDREN] + i) * t.fades.shape[1] * t.fades.itemsize)
    for k in range(i, j + 1):
        note(t, BY_SUMS, among + k, 1.0)
    return True


@aside
def note_inside(t: Trees, node: int, lo: int, hi: int) -> bool:
    """Note what the interval costs against a node that it meets, if rows say it; otherwise return False."""
    row, a, b = t.nodes[node, SUMS], t.nodes[node, LO], t.nodes[node, HI]
    if row < 0:
        own = t.fades[node, OWN] if lo == a and hi == b else pair_cost(lo, hi, a, b, t.rate)
        note(t, BY_COVERS, node, own)
        return True
    if a < lo or b > hi:
        return False
    note(t, BY_SUMS, row + WHOLE, 1.0)
    if b < hi:
        note(t, BY_SUMS, row + TO_RIGHT, -math.expm1(-t.rate * (hi - b)))
    if a > lo:
        note(t, BY_SUMS, row + TO_LEFT, -math.expm1(-t.rate * (a - lo)))
    return True


@aside
def add_pieces(t: Trees, slab: int, lo: int, hi: int, first: int, last: int, out: Floats) -> None:
    """Add the cost against each piece of a slab; pieces of one interval stand side by side and are computed once."""
    a, b, cost = 0, 0, 0.0
    for k in range(t.counts[slab]):
        if t.pieces[slab, k, START] != a or t.pieces[slab, k, END] != b:
            a, b = t.pieces[slab, k, START], t.pieces[slab, k, END]
            cost = pair_cost(lo, hi, a, b, t.rate)
        s = t.pieces[slab, k, SERVER]
        if first <= s < last:
            out[s] += cost * t.pieces[slab, k, WEIGHT]


@compiled
def add_energies(t: Trees, servers: int, out: Floats) -> None:
    """Add to `out[s]` the cost of all that server `s` holds against all that it holds, summed over all trees.

    Each pair counts twice, and each segment against itself once. Each pair is counted at the lowest node that has both.
    """
    to = out[:servers]
    for node in range(t.used[NODES]):
        row = t.nodes[node, SUMS]
        own = t.fades[node, OWN]
        if t.nodes[node, COVERED] > 0:
            for s in range(servers):
                count = float(t.covers[node, s])
                below = t.sums[row + WHOLE, s] - count * own if row >= 0 else 0.0
                to[s] += count * (count * own + 2 * max(below, 0.0))
        if t.nodes[node, SLAB] >= 0:
            add_piece_pairs(t, t.nodes[node, SLAB], to)
        if t.nodes[node, CHILDREN] >= 0:
            add_between(t, node, to)


@part
def add_between(t: Trees, node: int, out: Floats) -> None:
    """Add twice the cost of what each child of the node holds against what those before it hold."""
    for s in range(len(out)):
        cast = 0.0
        for child in range(t.nodes[node, CHILDREN], t.nodes[node, CHILDREN] + t.nodes[node, COUNT]):
            row, count = t.nodes[child, SUMS], t.covers[child, s]
            reach = t.fades[child, REACH]
            to_left = t.sums[row + TO_LEFT, s] if row >= 0 else count * reach
            to_right = t.sums[row + TO_RIGHT, s] if row >= 0 else count * reach
            out[s] += 2 * cast * to_left
            cast = cast * t.fades[child, FADE] + to_right


@part
def add_piece_pairs(t: Trees, slab: int, out: Floats) -> None:
    """Add the cost of each piece of a slab against each, of one server."""
    for j in range(t.counts[slab]):
        s, lo, hi = t.pieces[slab, j, SERVER], t.pieces[slab, j, START], t.pieces[slab, j, END]
        weight = float(t.pieces[slab, j, WEIGHT])
        out[s] += weight * weight * pair_cost(lo, hi, lo, hi, t.rate)
        for k in range(j):
            if t.pieces[slab, k, SERVER] == s:
                cost = pair_cost(lo, hi, t.pieces[slab, k, START], t.pieces[slab, k, END], t.rate)
                out[s] += 2 * weight * t.pieces[slab, k, WEIGHT] * cost
