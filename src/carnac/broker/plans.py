"""Plans of statements that were asked before: a dashboard asks the same ones again and again.

A plan is a function of statement, parameters and revision, none of which changes, so it needs no invalidation: the
next revision is planned anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.ports.memo import Memo, key_of_values

if TYPE_CHECKING:
    from carnac.ports.answers import Statement
    from carnac.ports.distributed import Distribution

PLANS_MAX = 500
SLICES_MAX = 500_000
"""Maximum slices of all plans together: a slice holds the record of a segment, which other plans mostly share."""


class PlanCache:
    """The plans that were used last, within two bounds. Safe for threads.

    Args:
        plans_max: How many are kept.
        slices_max: How many slices they name together; a plan that names more is not kept.
    """

    def __init__(self, *, plans_max: int = PLANS_MAX, slices_max: int = SLICES_MAX) -> None:
        self._plans: Memo[Hashable, Distribution] = Memo(
            values_max=plans_max,
            weight_max=slices_max,
            weigh=lambda _, plan: sum(len(leaf.slices) for leaf in plan.leaves),
        )

    def plan(
        self,
        statement: Statement,
        revision: int,
        timeout_ms: int,
        make: Callable[[], Distribution],
    ) -> Distribution:
        """Return the plan of a statement at a revision, made if it is not known.

        A plan that depends on the time or on chance is made each time. Errors of `make` are raised.
        """
        key = _key_of(statement, revision)
        if key is None:
            return _asked_by(make(), statement, timeout_ms)
        found = self._plans.find(key)
        if found is None:
            found = make()
            if not found.basis.is_volatile:
                self._plans.keep(key, found)
        return _asked_by(found, statement, timeout_ms)


def _key_of(statement: Statement, revision: int) -> Hashable | None:
    """Return what a plan depends on; None if its parameters cannot be told apart."""
    values = key_of_values(statement.parameters)
    return None if values is None else (revision, statement.sql, values)


def _asked_by(plan: Distribution, statement: Statement, timeout_ms: int) -> Distribution:
    query_id, keeping = statement.query_id, statement.keeping
    leaves = [
        replace(leaf, query_id=query_id, timeout_ms=timeout_ms, keeping=keeping)
        for leaf in plan.leaves
    ]
    along = [replace(one, plan=_asked_by(one.plan, statement, timeout_ms)) for one in plan.along]
    return replace(plan, query_id=query_id, leaves=leaves, along=along)
