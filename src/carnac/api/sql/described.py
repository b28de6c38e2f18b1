"""The columns that a statement gives, found without running it: clients ask for them first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from carnac.ports.memo import Memo

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.broker import Broker
    from carnac.ports.answers import Statement

TIMEOUT_MS = 10_000
"""Time limit of looking."""
KEPT_MAX = 2_000
KEPT_BYTES = 16 << 20
"""Schemas are kept by the ETag of the answer."""


class Described:
    """Statements and the schemas of their rows. Safe for threads.

    Args:
        new_id: Makes ids of queries.
    """

    def __init__(self, broker: Broker, new_id: Callable[[], str]) -> None:
        self._broker = broker
        self._new_id = new_id
        self._kept: Memo[str, pa.Schema] = Memo(
            values_max=KEPT_MAX, weight_max=KEPT_BYTES, weigh=lambda _, one: 500 + 100 * len(one)
        )

    def find(self, statement: Statement) -> tuple[pa.Schema, int]:
        """Return the schema of a statement's rows, and the revision at which it was looked at.

        Args:
            statement: A SELECT; its values may be null.

        Raises:
            CarnacError: As `Broker.run`.
        """
        asked = replace(statement, query_id=self._new_id(), engine=None, timeout_ms=TIMEOUT_MS)
        with self._broker.looking(asked) as (facts, execution):
            schema = self._kept.find(facts.etag)
            if schema is None:
                schema = cast("pa.Schema", execution.describe())
                if not facts.etag.endswith(asked.query_id):  # as of what depends on the time, say
                    self._kept.keep(facts.etag, schema)
            return schema, facts.revision
