"""Whole answers that are kept: what a statement gave over one set of segments, for whoever asks it of the same set.

Not every answer is made of parts: exact quantiles, windows and joins need all rows in one place. As long as no segment
comes or goes, what they gave is right all the same.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from carnac.query.keeping.leaf import keys_of, rows_in
from carnac.query.keeping.pieces import bytes_of, may_keep
from carnac.query.keeping.store import WholeAnswer
from carnac.query.results import arrow_table

if TYPE_CHECKING:
    from carnac.ports.queries import Keeping
    from carnac.query.keeping.store import KeptResults
    from carnac.query.planning import Plan

SLICES_MAX = 20_000
"""Of a statement whose answer is kept as a whole: all of them are its key."""


def whole_answer(kept: KeptResults, plan: Plan, keeping: Keeping) -> WholeAnswer | None:
    """Return the answer of a plan, kept or to be kept; None: it is not worth it, or not the same each time."""
    slices = [piece for scan in plan.scans for piece in scan.slices]
    rows = rows_in(slices)
    if not rows or rows < kept.rows_min or len(slices) > SLICES_MAX or not may_keep(plan.statement):
        return None
    key, found = key_of_whole(plan), frozenset(keys_of(slices))
    table = None
    if keeping.use and kept.find(key, found).results:
        results = kept.take(key, found).results
        table = results[0].table if results else None
    return WholeAnswer(kept, key, found, rows, table, keeping.populate)


def key_of_whole(plan: Plan) -> str:
    """Return what is the same for a statement that is asked again of the same slices."""
    values = [(type(one), one) for one in plan.parameters]
    digest = hashlib.sha256(repr((plan.sql, values)).encode())
    for scan in plan.scans:
        digest.update(repr((scan.view, list(scan.columns.items()), keys_of(scan.slices))).encode())
    for name, columns in plan.tables.items():
        table = arrow_table(columns)
        digest.update(repr((name, table.schema.names, table.schema.types)).encode())
        digest.update(bytes_of(table))
    return digest.hexdigest()
