"""What the trees are asked: the cost of an interval against the content of one tree, and all pairs within it."""

from __future__ import annotations

import math

from carnac.core.balancing.columns import Floats
from carnac.core.balancing.compiled import lean
from carnac.core.balancing.tree import (
    COVER,
    HI,
    LEFT,
    LO,
    MAX_TERMS,
    OWN,
    REACH,
    RIGHT,
    SERVER,
    SLAB,
    SUMS,
    TO_LEFT,
    TO_RIGHT,
    WEIGHT,
    WHOLE,
    Counts,
    Trees,
    casts,
    pair_cost,
)


@lean
def add_scaled(out: Floats, values: Floats | Counts, factor: float) -> None:
    """Add `factor` times the values; a loop over slices from 0 up is one that the compiler can vectorise."""
    for s in range(len(out)):
        out[s] += factor * values[s]


@lean
def add_term(t: Trees, count: int, row: int, side: int, factor: float) -> int:
    """Note that `factor` times one of the sums is to be added; return how many are noted now."""
    t.terms[count], t.factors[count] = row * 3 + side, factor
    return count + 1


@lean
def add_terms(t: Trees, count: int, first: int, last: int, out: Floats) -> None:
    """Add what was noted to `out[s]` for servers `first <= s < last`, four at a time: the memory is the slower part."""
    sums, terms, factors, to = t.sums, t.terms, t.factors, out[first:last]
    for k in range(count, count + 3):
        terms[k], factors[k] = terms[0], 0.0
    for k in range(0, count, 4):
        e, f, g, h = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        a = sums[terms[k] // 3, terms[k] % 3, first:last]
        b = sums[terms[k + 1] // 3, terms[k + 1] % 3, first:last]
        c = sums[terms[k + 2] // 3, terms[k + 2] % 3, first:last]
        d = sums[terms[k + 3] // 3, terms[k + 3] % 3, first:last]
        for s in range(len(to)):
            to[s] += (e * a[s] + f * b[s]) + (g * c[s] + h * d[s])


@lean
def add_costs(t: Trees, root: int, lo: int, hi: int, first: int, last: int, out: Floats) -> None:
    """Add to `out[s]` what the interval costs against all that server `s` holds in this tree, in units of 1/λ².

    For servers `first <= s < last`. The walk goes down along the ends of the interval; what lies wholly to one side, or
    wholly inside, is answered by the sums of its node.
    """
    reach = -math.expm1(-t.rate * (hi - lo))
    waiting = t.stack
    waiting[0] = root
    depth, count = 1, 0
    while depth:
        depth -= 1
        node = waiting[depth]
        row, cover = t.links[node, SUMS], t.links[node, COVER]
        if row < 0 and cover < 0:
            continue
        if count > MAX_TERMS - 3:
            add_terms(t, count, first, last, out)
            count = 0
        a, b = t.spans[node, LO], t.spans[node, HI]
        if b <= lo or a >= hi:
            side, gap = (TO_RIGHT, lo - b) if b <= lo else (TO_LEFT, a - hi)
            cast = math.exp(-t.rate * gap) * reach
            if row < 0:
                add_scaled(
                    out[first:last],
                    t.covers[cover, first:last],
                    cast * t.fades[node, REACH],
                )
            elif cast > 0:
                count = add_term(t, count, row, side, cast)
        elif lo <= a and b <= hi and row >= 0:
            after, before = -math.expm1(-t.rate * (hi - b)), -math.expm1(-t.rate * (a - lo))
            count = add_term(t, count, row, WHOLE, 1.0)
            count = add_term(t, count, row, TO_RIGHT, after)
            count = add_term(t, count, row, TO_LEFT, before)
        else:
            if cover >= 0:
                cost = pair_cost(lo, hi, a, b, t.rate)
                add_scaled(out[first:last], t.covers[cover, first:last], cost)
            if t.links[node, SLAB] >= 0:
                add_pieces(t, t.links[node, SLAB], lo, hi, first, last, out)
            if t.links[node, LEFT] >= 0:
                waiting[depth], waiting[depth + 1] = t.links[node, LEFT], t.links[node, RIGHT]
                depth += 2
    add_terms(t, count, first, last, out)


@lean
def add_both_costs(
    t: Trees, root: int, own: int, lo: int, hi: int, first: int, last: int, out: Floats
) -> None:
    """Do as `add_costs` for the tree of all and for the one of the segment's datasource, which is -1 if it has none."""
    add_costs(t, root, lo, hi, first, last, out)
    if own >= 0:
        add_costs(t, own, lo, hi, first, last, out)


@lean
def add_pieces(t: Trees, slab: int, lo: int, hi: int, first: int, last: int, out: Floats) -> None:
    """Add the cost against each piece of a slab; pieces of one interval stand side by side and are computed once."""
    a, b, cost = 0, 0, 0.0
    for k in range(t.counts[slab]):
        if t.pieces[slab, k, LO] != a or t.pieces[slab, k, HI] != b:
            a, b = t.pieces[slab, k, LO], t.pieces[slab, k, HI]
            cost = pair_cost(lo, hi, a, b, t.rate)
        s = t.pieces[slab, k, SERVER]
        if first <= s < last:
            out[s] += cost * t.pieces[slab, k, WEIGHT]


@lean
def add_energies(t: Trees, servers: int, out: Floats) -> None:
    """Add to `out[s]` the cost of all that server `s` holds against all that it holds, summed over all trees.

    Each pair counts twice, and each segment against itself once. Each pair is counted at the lowest node that has both.
    """
    for node in range(t.used[0]):
        row, cover = t.links[node, SUMS], t.links[node, COVER]
        own = t.fades[node, OWN]
        if cover >= 0:
            for s in range(servers):
                count = float(t.covers[cover, s])
                below = t.sums[row, WHOLE, s] - count * own if row >= 0 else 0.0
                out[s] += count * (count * own + 2 * max(below, 0.0))
        if t.links[node, SLAB] >= 0:
            add_piece_pairs(t, t.links[node, SLAB], out)
        if t.links[node, LEFT] >= 0:
            add_between(t, t.links[node, LEFT], t.links[node, RIGHT], servers, out)


@lean
def add_between(t: Trees, left: int, right: int, servers: int, out: Floats) -> None:
    """Add twice the cost of what the left child holds against what the right child holds."""
    for s in range(servers):
        out[s] += 2 * casts(t, left, s)[0] * casts(t, right, s)[1]


@lean
def add_piece_pairs(t: Trees, slab: int, out: Floats) -> None:
    """Add the cost of each piece of a slab against each, of one server."""
    for j in range(t.counts[slab]):
        s, lo, hi = t.pieces[slab, j, SERVER], t.pieces[slab, j, LO], t.pieces[slab, j, HI]
        weight = float(t.pieces[slab, j, WEIGHT])
        out[s] += weight * weight * pair_cost(lo, hi, lo, hi, t.rate)
        for k in range(j):
            if t.pieces[slab, k, SERVER] == s:
                cost = pair_cost(lo, hi, t.pieces[slab, k, LO], t.pieces[slab, k, HI], t.rate)
                out[s] += 2 * weight * t.pieces[slab, k, WEIGHT] * cost
