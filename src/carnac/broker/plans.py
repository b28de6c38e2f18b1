"""Plans of statements that were asked before: a dashboard asks the same ones again and again.

A plan is a function of statement, parameters, revision and edition, none of which changes, so it needs no
invalidation: the next revision is planned anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.ports.memo import Memo, key_of_values
from carnac.ports.queries import SLICE_BYTES, revision_key

if TYPE_CHECKING:
    from carnac.ports import Catalog
    from carnac.ports.answers import Statement
    from carnac.ports.distributed import Distribution

PLANS_MAX = 500
PLANS_BYTES = 100 << 20
"""Maximum memory of all plans together, without the records of segments, which plans mostly share."""


class PlanCache:
    """The plans that were used last, within two bounds. Safe for threads.

    Args:
        plans_max: How many are kept.
        bytes_max: Memory of all of them; a plan that takes more is not kept.
    """

    def __init__(self, *, plans_max: int = PLANS_MAX, bytes_max: int = PLANS_BYTES) -> None:
        self._plans: Memo[Hashable, Distribution] = Memo(
            values_max=plans_max,
            weight_max=bytes_max,
            weigh=lambda _, plan: _bytes_of(plan),
        )

    def plan(
        self,
        statement: Statement,
        catalog: Catalog,
        timeout_ms: int,
        make: Callable[[], Distribution],
    ) -> Distribution:
        """Return the plan of a statement at the revision of a catalog, made if it is not known.

        A plan that depends on the time or on chance is made each time. Errors of `make` are raised.
        """
        key = _key_of(statement, catalog)
        if key is None:
            return _asked_by(make(), statement, timeout_ms)
        found = self._plans.find(key)
        if found is None:
            found = make()
            if not found.basis.is_volatile:
                self._plans.keep(key, found)
        return _asked_by(found, statement, timeout_ms)


def _key_of(statement: Statement, catalog: Catalog) -> Hashable | None:
    """Return what a plan depends on; None if its parameters cannot be told apart."""
    values = key_of_values(statement.parameters)
    if values is None:
        return None
    return (*revision_key(catalog), statement.sql, values)


def _bytes_of(plan: Distribution) -> int:
    """Return the approximate memory of a plan and what goes along: slices, and texts beside that of the statement."""
    texts = (
        plan.basis.statement,
        plan.final_sql,
        plan.whole_sql or "",
        *(one.sql for one in plan.leaves),
    )
    own = SLICE_BYTES * sum(len(one.slices) for one in plan.leaves) + 2 * sum(map(len, texts))
    parts = [one.plan for one in plan.along]
    return own + sum(map(_bytes_of, [*parts, *([plan.otherwise] if plan.otherwise else [])]))


def _asked_by(plan: Distribution, statement: Statement, timeout_ms: int) -> Distribution:
    query_id, keeping = statement.query_id, statement.keeping
    leaves = [
        replace(leaf, query_id=query_id, timeout_ms=timeout_ms, keeping=keeping)
        for leaf in plan.leaves
    ]
    along = [replace(one, plan=_asked_by(one.plan, statement, timeout_ms)) for one in plan.along]
    other = plan.otherwise and _asked_by(plan.otherwise, statement, timeout_ms)
    return replace(plan, query_id=query_id, leaves=leaves, along=along, otherwise=other)
