"""Whole answers that are kept: the rows of a statement over one set of segments, for the next one over the same set.

Not every answer is made of parts: exact quantiles, windows and joins need all rows in one place. As long as no segment
comes or goes, their answers stay right all the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from carnac.ports.memo import key_of_values
from carnac.query.keeping.leaf import keys_of
from carnac.query.keeping.pieces import add_tables, may_keep
from carnac.query.keeping.store import WholeAnswer
from carnac.query.results import arrow_table
from carnac.query.scans import rows_in

if TYPE_CHECKING:
    from carnac.ports.distributed import Distribution
    from carnac.ports.queries import Keeping, LeafSlice
    from carnac.query.keeping.store import KeptResults
    from carnac.query.planning import Plan

ANSWER_ROWS_MIN = 10_000
"""Minimum number of rows in a statement's segments for a broker to keep its answer."""
SLICES_MAX = 20_000
"""Maximum number of slices of a statement whose answer is kept as a whole: all of them are its key."""


def whole_answer(kept: KeptResults, plan: Plan, keeping: Keeping) -> WholeAnswer | None:
    """Return the answer of a plan, kept or to be kept; None: it is not worth it, or not the same each time."""
    slices = plan.slices
    rows = rows_in(slices)
    if not rows or rows < kept.rows_min or len(slices) > SLICES_MAX or not may_keep(plan.statement):
        return None
    key = key_of_whole(plan)
    return None if key is None else _answer(kept, key, slices, keeping)


def distributed_answer(
    kept: KeptResults, plan: Distribution, keeping: Keeping
) -> WholeAnswer | None:
    """Return the answer of a distribution, kept or to be kept; None: it is not worth it, or not the same each time.

    EXPLAIN is told of what it explains, which counts as nothing taken.
    """
    slices, is_explain = plan.slices, bool(plan.told)
    if not (kept.bytes_max and (keeping.use or keeping.populate)) or len(slices) > SLICES_MAX:
        return None
    if rows_in(slices) < min(kept.rows_min, ANSWER_ROWS_MIN) or not slices or plan.is_union:
        return None
    if plan.basis.is_volatile and not is_explain:
        return None
    return _answer(kept, key_of_distributed(plan), slices, keeping, counts=not is_explain)


def _answer(
    kept: KeptResults,
    key: str,
    slices: Sequence[LeafSlice],
    keeping: Keeping,
    *,
    counts: bool = True,
) -> WholeAnswer:
    found, table = frozenset(keys_of(slices)), None
    results = kept.find(key, found).results if keeping.use else ()
    if results:
        table = results[0].table
        if counts:
            kept.take(key, found)
    return WholeAnswer(kept, key, found, rows_in(slices), table, keeping.populate)


def key_of_whole(plan: Plan) -> str | None:
    """Return what is the same for a statement that is asked again of the same slices; None: there is no telling."""
    values = key_of_values(plan.parameters)
    if values is None:
        return None
    digest = hashlib.sha256(repr((plan.sql, values)).encode())
    for scan in plan.scans:
        digest.update(repr((scan.view, list(scan.columns.items()), keys_of(scan.slices))).encode())
    add_tables(digest, {name: arrow_table(one) for name, one in plan.tables.items()})
    return digest.hexdigest()


def key_of_distributed(plan: Distribution) -> str:
    """Return what is the same for plans that ask the same of the same slices, and make the same of it."""
    digest = hashlib.sha256(repr((plan.final_sql, plan.names, plan.stands)).encode())
    for leaf in plan.leaves:
        asked = (leaf.view, leaf.sql, sorted(leaf.columns.items()), keys_of(leaf.slices))
        digest.update(repr(asked).encode())
        add_tables(digest, leaf.tables)
    add_tables(digest, plan.tables)
    for one in plan.along:
        digest.update(repr((one.table, key_of_distributed(one.plan))).encode())
    return digest.hexdigest()
