"""Plans of statements that were asked before: neither a statement nor a revision of an edition changes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.ports.memo import Memo, key_of_values
from carnac.ports.queries import SLICE_BYTES, revision_key
from carnac.query.distributed.sizes import size_of
from carnac.query.planning import Plan, Planner
from carnac.query.syntax import TREE_BYTES

if TYPE_CHECKING:
    import duckdb

    from carnac.ports import Catalog
    from carnac.query.parameters import Parameters

PLANS_MAX = 500
PLANS_BYTES = 100 << 20
"""Maximum memory of all plans together; a plan that takes more is not kept."""


class KnownPlans:
    """The plans that were used last, within two bounds. Safe for threads. Nobody may change their trees."""

    def __init__(self) -> None:
        self._plans: Memo[Hashable, Plan] = Memo(
            values_max=PLANS_MAX,
            weight_max=PLANS_BYTES,
            weigh=lambda _, plan: SLICE_BYTES * len(plan.slices) + TREE_BYTES * len(plan.sql),
        )

    def plan(
        self,
        cursor: duckdb.DuckDBPyConnection,
        catalog: Catalog,
        sql: str,
        parameters: Parameters,
    ) -> Plan:
        """Return the plan of a statement over the revision of a catalog, made if it is not known.

        A plan that depends on the time, on chance or on what is now is made each time.

        Raises:
            Invalid, NotFound: As `Planner.plan`.
        """
        key = _key_of(catalog, sql, parameters)
        found = None if key is None else self._plans.find(key)
        if found is not None:
            return replace(found, catalog=catalog)
        made = Planner(cursor, catalog, parameters).plan(sql)
        made = replace(made, size=size_of(made.statement, made.selects))
        if key is not None and not (made.is_volatile or made.is_live or made.is_explain):
            self._plans.keep(key, made)
        return made


def _key_of(catalog: Catalog, sql: str, parameters: Parameters) -> Hashable | None:
    """Return what a plan depends on; None: there is no telling."""
    values = key_of_values(parameters)
    if values is None or not catalog.store_id:
        return None
    return (*revision_key(catalog), sql, values)
