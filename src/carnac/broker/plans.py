"""Plans of statements that were asked before: a dashboard asks the same ones again and again.

A plan is a function of statement, parameters and revision, none of which changes, so it needs no invalidation: the
next revision is planned anew.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carnac.ports.answers import Statement
    from carnac.ports.distributed import Distribution

PLANS_MAX = 500
SLICES_MAX = 500_000
"""Of all plans together: a slice holds the record of a segment, which other plans mostly share."""


class PlanCache:
    """The plans that were used last, within two bounds. Safe for threads.

    Args:
        plans_max: How many are kept.
        slices_max: How many slices they name together; a plan that names more is not kept.
    """

    def __init__(self, *, plans_max: int = PLANS_MAX, slices_max: int = SLICES_MAX) -> None:
        self._plans_max = plans_max
        self._slices_max = slices_max
        self._plans: OrderedDict[Hashable, Distribution] = OrderedDict()
        self._slices = 0
        self._mutex = threading.Lock()

    def plan(
        self,
        statement: Statement,
        revision: int,
        timeout_ms: int,
        make: Callable[[], Distribution],
    ) -> Distribution:
        """Return the plan of a statement at a revision, made if it is not known.

        A plan that depends on the time or on chance is made each time. What `make` raises is raised.
        """
        key = _key_of(statement, revision)
        if key is None:
            return make()
        with self._mutex:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
        if found is None:
            found = make()
            if not found.basis.is_volatile:
                self._keep(key, found)
            return found
        return _asked_by(found, statement.query_id, timeout_ms)

    def _keep(self, key: Hashable, plan: Distribution) -> None:
        with self._mutex:
            before = self._plans.pop(key, None)
            self._slices -= 0 if before is None else _count_slices(before)
            self._plans[key] = plan
            self._slices += _count_slices(plan)
            while self._plans and (
                len(self._plans) > self._plans_max or self._slices > self._slices_max
            ):
                _, oldest = self._plans.popitem(last=False)
                self._slices -= _count_slices(oldest)


def _key_of(statement: Statement, revision: int) -> Hashable | None:
    """Return what a plan depends on; None if its parameters cannot be told apart."""
    given: Sequence[object] | Mapping[str, object] = statement.parameters
    values = sorted(given.items()) if isinstance(given, Mapping) else list(enumerate(given))
    key = (revision, statement.sql, tuple((name, type(one), one) for name, one in values))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _asked_by(plan: Distribution, query_id: str, timeout_ms: int) -> Distribution:
    leaves = [replace(leaf, query_id=query_id, timeout_ms=timeout_ms) for leaf in plan.leaves]
    return replace(plan, query_id=query_id, leaves=leaves)


def _count_slices(plan: Distribution) -> int:
    return sum(len(leaf.slices) for leaf in plan.leaves)
