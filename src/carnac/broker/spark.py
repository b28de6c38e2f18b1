"""Statements on Spark, over the files of one revision: those that ask for it, and those too large for a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, cast

from carnac.broker.distributed import cast_rows
from carnac.errors import Cancelled, CarnacError, Invalid
from carnac.ports.answers import Engine, OnMissing, Reach, Statement
from carnac.ports.distributed import SparkAsked, late_on_spark
from carnac.ports.threads import stopped_after

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.broker.distributed import Planned
    from carnac.core.access import DatasourcePatterns
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.ports import Catalog
    from carnac.ports.distributed import SparkPlan
    from carnac.ports.queries import QueryBasis
    from carnac.query.engine import QueryEngine

ASKED = "Spark was asked for"
BEYOND = "more rows would have to come together at the broker than may"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkExecutor:
    """Runs statements on Spark (`Executor`).

    Attributes:
        engine: Plans them, and casts rows to the types of the answer.
        runner: Makes what runs them when it is first needed.
        planned: Gives the revision that a statement is planned on, and keeps it readable until the block ends.
        catalog: Returns what a client may see of a revision.
    """

    engine: QueryEngine
    runner: Callable[[], SparkPipeline]
    planned: Planned
    catalog: Callable[[int, DatasourcePatterns], Catalog]

    def open(self, statement: Statement, *, timeout_ms: int) -> SparkExecution:
        """Plan a statement on the revision that it means.

        Raises:
            Invalid: It was asked for on Spark, and `on_missing` is not `ERROR`.
        """
        is_asked = statement.engine is Engine.SPARK
        if is_asked and statement.on_missing is not OnMissing.ERROR:
            raise Invalid(
                f"onMissing {statement.on_missing} is for segments that servers cannot read; Spark reads deep storage, "
                "and answers from all of it or fails: leave onMissing out"
            )
        reason = ASKED if is_asked else BEYOND
        asked = SparkAsked(
            reason=reason,
            parameters=statement.parameters,
            query_id=statement.query_id,
            timeout_ms=timeout_ms,
        )
        with ExitStack() as steps:
            revision = steps.enter_context(self.planned(statement.at))
            catalog = self.catalog(revision, statement.client.datasources)
            plan = self.engine.plan_spark(statement.sql, catalog, asked)
            return SparkExecution(self, plan, timeout_ms, steps.pop_all())


class SparkExecution:
    """A statement that is planned for Spark (`Execution`)."""

    engine = Engine.SPARK

    def __init__(
        self, tools: SparkExecutor, plan: SparkPlan, timeout_ms: int, steps: ExitStack
    ) -> None:
        self._tools = tools
        self._plan = plan
        self._timeout_ms = timeout_ms
        self._steps = steps
        self._is_cancelled = False
        self._rows: Iterator[pa.RecordBatch] = iter(())
        self.reach = Reach()
        self._is_late = steps.enter_context(stopped_after(timeout_ms or None, self.cancel))

    @property
    def revision(self) -> int:
        """The one revision that is read."""
        return self._plan.merge.revision

    @property
    def why(self) -> str:
        """One sentence: why Spark."""
        return self._plan.merge.reason

    @property
    def basis(self) -> QueryBasis:
        """The basis of its answer."""
        return self._plan.merge.basis

    def start(self) -> object:
        """Run it until its first rows are there; return the schema of its rows."""
        empty = self._cast([])
        if self._plan.merge.told:
            self.reach = Reach(is_complete=True)
            self._rows = iter(empty.to_batches())
            return empty.schema
        pieces = self._tools.runner().run_statement(self._plan, stop=self._verdict)
        self._steps.callback(_close, pieces)
        first = [one for one in (next(pieces, None),) if one is not None]
        self._rows = self._taken(chain(first, pieces), empty.schema)
        return empty.schema

    def describe(self) -> object:
        """Return the schema of its rows; nothing is run."""
        return self._tools.engine.describe(self._plan.merge)

    def batches(self) -> Iterator[object]:
        """Yield its rows."""
        yield from self._rows

    def _taken(self, pieces: Iterator[object], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            yield from cast_rows(self._cast([piece]), schema).to_batches()
        # Spark reads every file that it is given, or fails
        self.reach = Reach(segments_read=self.basis.segments_read, is_complete=True)

    def _cast(self, pieces: list[object]) -> pa.Table:
        import pyarrow as pa

        tables = [pa.Table.from_batches([cast("pa.RecordBatch", one)]) for one in pieces]
        plan = self._plan
        found = self._tools.engine.run_final(
            plan.merge, {plan.rows: tables} if tables else {}, timeout_ms=self._timeout_ms
        )
        return cast("pa.Table", found.table)

    def _verdict(self) -> CarnacError | None:
        if not self._is_cancelled:
            return None
        if self._is_late.is_set():
            return late_on_spark(self._timeout_ms)
        return Cancelled(f"query '{self._plan.merge.query_id}' was cancelled")

    def cancel(self) -> None:
        """Stop what runs; returns at once."""
        self._is_cancelled = True
        self._tools.engine.cancel(self._plan.merge.query_id)

    def close(self) -> None:
        """Stop what runs and let go of the revision. Idempotent."""
        self._is_cancelled = True
        self._steps.close()


def _close(pieces: Iterator[object]) -> None:
    """Close a generator; one that is running in another thread ends soon, as nobody wants its rows any more."""
    with suppress(ValueError):
        pieces.close()  # type: ignore[attr-defined]
