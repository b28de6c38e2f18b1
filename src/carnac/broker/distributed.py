"""Statements over historicals: planned on one revision, asked of leaves, merged here, and proved.

When segments cannot be read from any server, `OnMissing` decides: an error names them; or the newest older revision
that can be read as a whole is read in its stead; or the answer goes without them and says which intervals are missing.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from carnac.broker.plans import PlanCache
from carnac.broker.scatter import Lack, Scatter
from carnac.core.answers.laws import check_answer, is_proved
from carnac.core.answers.replicas import plan_reads
from carnac.core.time.intervals import IntervalSet
from carnac.core.words import counted, first_of
from carnac.errors import (
    Cancelled,
    CarnacError,
    Corrupt,
    Invalid,
    NotFound,
    TimedOut,
    Unavailable,
    gravest,
)
from carnac.ports.answers import Engine, OnMissing, Reach, Statement
from carnac.ports.distributed import Distribution, TooMuch, Way, said_of_slices
from carnac.ports.threads import stopped_after

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.broker.cluster import Cluster, Member
    from carnac.core.access import DatasourcePatterns
    from carnac.core.answers.receipts import SliceKey
    from carnac.ports import Catalog
    from carnac.ports.queries import LeafRequest, QueryBasis
    from carnac.query.engine import QueryEngine
    from carnac.query.keeping.store import WholeAnswer

EXPLAIN_TIMEOUT_MS = 2_000
"""How long a historical may take to say what it has kept of a statement that is explained."""
NAMED_MAX = 5
"""Segments that an error names."""
PREVIOUS_MAX = 50
"""Older revisions that are looked at for one that can be read."""

Planned = Callable[[int | str | None], AbstractContextManager[int]]
"""Gives the revision that a statement is planned on, and keeps it readable until the block ends."""
Earlier = Callable[[int, Sequence[str]], Iterator[int]]
"""Yields revisions before one, newest first, that differ in datasources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The tools that run statements.

    Attributes:
        engine: Plans and merges.
        cluster: Servers to ask.
        planned: See there.
        catalog: Returns what a client may see of a revision.
        earlier: See there.
        plans: Plans of statements that were asked before.
        part_bytes: Bytes of a query's files that are asked of one server before another one is.
    """

    engine: QueryEngine
    cluster: Cluster
    planned: Planned
    catalog: Callable[[int, DatasourcePatterns], Catalog]
    earlier: Earlier
    plans: PlanCache = field(default_factory=PlanCache)
    part_bytes: int = 0


class DistributedExecutor:
    """Runs statements over historicals (`Executor`)."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def open(self, statement: Statement, *, timeout_ms: int) -> DistributedExecution:
        """Plan a statement on the revision that it means."""
        with ExitStack() as steps:
            revision = steps.enter_context(self._tools.planned(statement.at))
            plan = plan_at(self._tools, statement, revision, timeout_ms)
            return DistributedExecution(
                self._tools, statement, plan, timeout_ms=timeout_ms, steps=steps.pop_all()
            )


def plan_at(tools: Tools, statement: Statement, revision: int, timeout_ms: int) -> Distribution:
    """Return how a statement is run at a revision."""
    catalog = tools.catalog(revision, statement.client.datasources)

    def make() -> Distribution:
        return tools.engine.plan_distributed(
            statement.sql,
            catalog,
            parameters=statement.parameters,
            query_id=statement.query_id,
            timeout_ms=timeout_ms,
        )

    return tools.plans.plan(statement, catalog, timeout_ms, make)


class DistributedExecution:
    """A statement that is planned for historicals (`Execution`)."""

    def __init__(
        self,
        tools: Tools,
        statement: Statement,
        plan: Distribution,
        *,
        timeout_ms: int,
        steps: ExitStack,
    ) -> None:
        self._tools = tools
        self._statement = statement
        self._plan = plan
        self._timeout_ms = timeout_ms
        self._steps = steps
        self._scatter: Scatter | None = None
        self._scatters: list[Scatter] = []
        self._requests: list[LeafRequest] = []
        self._is_cancelled = False
        self._is_kept = False
        self._rows: Iterator[pa.RecordBatch] = iter(())
        self.reach = Reach()
        self._watch = ExitStack()
        self._is_late = self._watch.enter_context(stopped_after(timeout_ms or None, self.cancel))

    @property
    def revision(self) -> int:
        """The one revision that is read; another one after `start` if that was to be."""
        return self._plan.revision

    @property
    def engine(self) -> Engine:
        """The engine that runs it."""
        if self._plan.way is Way.AT_BROKER:
            return Engine.EMBEDDED
        return Engine.ONE_ROUND if self._plan.way is Way.ONE_ROUND else Engine.GATHERED

    @property
    def why(self) -> str:
        """One sentence: why that engine."""
        return self._plan.reason

    @property
    def basis(self) -> QueryBasis:
        """The basis of its answer."""
        return self._plan.basis

    def start(self) -> object:
        """Run it; return the schema of its rows."""
        with self._in_time():
            return self._start()

    def _start(self) -> pa.Schema:
        plan = self._plan
        is_sure = plan.otherwise is None and self._statement.on_missing is OnMissing.ERROR
        may_stream = is_sure and plan.is_union
        if self._plan.told:
            self.reach = Reach(is_complete=True)
            told = [*self._plan.told, *self._said_of_kept(), *self._shares()]
            self._plan = replace(self._plan, told=told)
            return self._take(self._merged({}))
        if not (self._plan.leaves or self._plan.along):
            self.reach = Reach(is_complete=True)
            return self._take(self._merged({}))
        if may_stream:
            schema = cast("pa.Schema", self._merged({}).schema)
            self._rows = self._streamed(schema)
            return schema
        return self._take(self._whole())

    def describe(self) -> object:
        """Return the schema of its rows; nothing is run."""
        return self._tools.engine.describe(self._plan)

    def batches(self) -> Iterator[object]:
        """Yield its rows."""
        with self._in_time():
            yield from self._rows

    def cancel(self) -> None:
        """Stop what runs; returns at once."""
        self._is_cancelled = True
        scatter = self._scatter
        if scatter is not None:
            scatter.stop()
        self._tools.engine.cancel(self._statement.query_id)

    def close(self) -> None:
        """Stop what runs and let go of the revision. Idempotent."""
        self._watch.close()
        scatter, self._scatter = self._scatter, None
        if scatter is not None:
            scatter.close()
        self._steps.close()

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Say that the time is over where that is why something was cancelled."""
        try:
            yield
        except Unavailable as error:
            if not self._is_late.is_set() or isinstance(error, TimedOut):
                raise
            raise TimedOut(
                f"the query took longer than {self._timeout_ms} ms and was stopped; "
                "select a shorter time or fewer rows, or raise query_timeout_ms"
            ) from error

    def _said_of_kept(self) -> Iterator[str]:
        """Yield what this broker has kept of a statement that is explained."""
        answer = self._kept_answer()
        if answer is not None and answer.table is not None:
            read = f"{self._segments} of {counted(self._segments, 'segment')}"
            yield f"this broker has the whole answer; taken from kept ones: {read}; without it:"

    def _shares(self) -> Iterator[str]:
        """Yield what each historical would be asked for, as they are now."""
        members = self._tools.cluster.members()
        for leaf in self._plan.leaves:
            slices = {one.segment.segment_id: one for one in leaf.slices}
            assignment = plan_reads(
                {key: one.segment.size_bytes for key, one in slices.items()},
                [member.view(frozenset(slices)) for member in members.values()],
                {},
                part_bytes=self._part_bytes,
            )
            for server_id, ids in sorted(assignment.parts.items()):
                part = replace(leaf, slices=tuple(slices[key] for key in ids))
                kept = self._said_of_part(members[server_id], part)
                yield f"historical {server_id}: {said_of_slices(part.slices)}; {kept}"
            if assignment.left:
                yield f"no server can be asked for {said_of_slices([slices[key] for key in assignment.left])}"

    def _said_of_part(self, member: Member, part: LeafRequest) -> str:
        """Return what a historical says that it has kept of its part."""
        asked = replace(part, is_explained=True, timeout_ms=EXPLAIN_TIMEOUT_MS)
        try:
            batches, report = member.server.run(asked)
            deque(batches, maxlen=0)
        except CarnacError as error:
            return f"what it has kept is not known: {error.message}"
        return (
            f"taken from kept ones there: {report.kept} of {counted(len(part.slices), 'segment')}"
        )

    @property
    def _part_bytes(self) -> int:
        """How much is asked of one server before another one is: everything, where it reads little of it."""
        own = self._tools.part_bytes
        if not (own and self._plan.is_edge):
            return own
        return max(own, sum(one.segment.size_bytes for one in self._plan.slices))

    def _take(self, table: pa.Table) -> pa.Schema:
        self._rows = iter(table.to_batches())
        return table.schema

    # ------------------------------------------------------------------------------------------------ as a whole

    def _kept_answer(self) -> WholeAnswer | None:
        return self._tools.engine.kept_answer(self._plan, self._statement.keeping)

    @property
    def _segments(self) -> int:
        """Number of the plan's segments."""
        return len({one.segment.segment_id for one in self._plan.slices})

    def _whole(self) -> pa.Table:
        """Return the answer, as it was kept or as servers give it, which is kept if it is complete."""
        answer = self._kept_answer()
        if answer is not None and answer.table is not None:
            count = self._segments
            self.reach = Reach(segments_read=count, is_complete=True, segments_kept=count)
            return answer.table
        self._is_kept = answer is not None and answer.populates
        wanted = self.revision
        table = self._asked()
        if answer is not None and self.reach.is_complete and self.revision == wanted:
            answer.keep(table)
        return table

    def _asked(self) -> pa.Table:
        """Ask for everything, and merge it; on an older revision if that is wanted and nothing else helps."""
        unread: set[str] = set()
        while True:
            self._send_along()
            answers, is_whole = self._gathered(self._plan)
            lacks = self._lacks
            if not lacks or self._statement.on_missing is OnMissing.PARTIAL:
                table = self._merged(answers, is_whole=is_whole)
                self._conclude()
                return table
            if self._statement.on_missing is OnMissing.ERROR:
                raise unreadable(lacks)
            unread |= {one.slice.segment.segment_id for one in lacks}
            self._plan = self._find_previous(unread, lacks)
            if not (self._plan.leaves or self._plan.along):
                self.reach = Reach(is_complete=True)
                return self._merged({})

    def _send_along(self) -> None:
        """Ask for the tables that go along with the plan; slices of them that cannot be read are among the lacks."""
        self._scatters, self._requests = [], []
        try:
            self._plan = self._plan_given(self._plan)
        except TooMuch:
            if self._plan.otherwise is None:
                raise
            if self._scatter is not None:
                self._scatter.close()
            self._scatters, self._requests = [], []
            self._plan = self._plan.otherwise

    def _plan_given(self, plan: Distribution) -> Distribution:
        if not plan.along:
            return plan
        tables = {}
        for one in plan.along:
            first = self._plan_given(one.plan)
            answers, is_whole = self._gathered(first)
            found = self._tools.engine.run_final(
                first, answers, timeout_ms=self._timeout_ms, is_whole=is_whole
            )
            tables[one.table] = found.table
        return plan.given(tables)

    def _gathered(self, plan: Distribution) -> tuple[dict[str, list[pa.Table]], bool]:
        """Return what leaves answer, and whether that is one leaf's answer to the whole statement."""
        scatter = self._begin(plan)
        answers: dict[str, list[pa.Table]] = defaultdict(list)
        for view, part in scatter.parts():
            answers[view].extend(part.tables())
            part.close()
        return answers, scatter.is_whole

    @property
    def _lacks(self) -> list[Lack]:
        return [one for scatter in self._scatters for one in scatter.lacks]

    def _find_previous(self, unread: set[str], lacks: Sequence[Lack]) -> Distribution:
        """Return the plan of the newest older revision that needs nothing of what cannot be read.

        Raises:
            Unavailable: None of those that are looked at is one.
        """
        names = tuple(self._plan.basis.columns)
        for number, revision in enumerate(self._tools.earlier(self._plan.revision, names)):
            if number == PREVIOUS_MAX:
                break
            with suppress(NotFound), ExitStack() as steps:  # not kept any more, or not there yet
                steps.enter_context(self._tools.planned(revision))
                plan = plan_at(self._tools, self._statement, revision, self._timeout_ms)
                if unread.isdisjoint(segment_id for segment_id, _ in plan.basis.slices):
                    before, self._steps = self._steps, steps.pop_all()
                    before.close()
                    return plan
        raise unreadable(lacks, "and no revision before it can be read without them")

    # ------------------------------------------------------------------------------------------------ part by part

    def _streamed(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield rows as leaves report them; rows that were yielded count, and are never asked for again."""
        self._send_along()
        if self._lacks:
            raise unreadable(self._lacks)
        scatter = self._begin(self._plan)
        for view, part in scatter.parts():
            try:
                for table in part.tables():
                    merged = self._merged({view: [table]})
                    yield from cast_rows(merged, schema).to_batches()
            finally:
                part.close()
            if scatter.lacks:
                raise unreadable(scatter.lacks)
        if scatter.lacks:
            raise unreadable(scatter.lacks)
        self._conclude()

    # ------------------------------------------------------------------------------------------------ both

    def _begin(self, plan: Distribution) -> Scatter:
        scatter = self._scatter = Scatter(
            plan, self._tools.cluster, part_bytes=self._part_bytes, is_kept=self._is_kept
        )
        self._scatters.append(scatter)
        self._requests += plan.leaves
        if self._is_cancelled:
            raise Cancelled(f"query '{self._statement.query_id}' was cancelled")
        return scatter

    def _merged(
        self, answers: Mapping[str, Sequence[object]], *, is_whole: bool = False
    ) -> pa.Table:
        found = self._tools.engine.run_final(
            self._plan, answers, timeout_ms=self._timeout_ms, is_whole=is_whole
        )
        return cast("pa.Table", found.table)

    def _conclude(self) -> None:
        """Say what was reached, by what leaves have reported."""
        lacks = self._lacks
        reads = [one for scatter in self._scatters for one in scatter.reads]
        needed = [
            (leaf.view, (one.segment.segment_id, one.clip))
            for leaf in self._requests
            for one in leaf.slices
        ]
        missing: list[tuple[str, SliceKey]] = [
            (one.view, (one.slice.segment.segment_id, one.slice.clip)) for one in lacks
        ]
        is_complete = is_proved(needed, reads)
        check_answer(needed, reads, missing, is_complete=is_complete)
        read = {segment_id for one in reads for segment_id, _ in one.slices}
        lacking = {one.slice.segment.segment_id for one in lacks}
        self.reach = Reach(
            segments_read=len(read - lacking),
            is_complete=is_complete,
            missing=missing_intervals(lacks),
            servers=tuple(sorted({one for scatter in self._scatters for one in scatter.servers})),
            segments_cold=sum(one.cold for one in self._scatters),
            segments_kept=sum(one.kept for one in self._scatters),
        )


def missing_intervals(lacks: Sequence[Lack]) -> dict[str, list[str]]:
    """Return the intervals of which rows are missing, ISO 8601, by datasource."""
    found: dict[str, IntervalSet] = {}
    for one in lacks:
        segment, clip = one.slice.segment, one.slice.clip
        shown = IntervalSet((segment.span,)) if clip is None else clip
        found[segment.datasource] = found.get(segment.datasource, IntervalSet()).union(shown)
    return {name: [str(one) for one in found[name]] for name in sorted(found)}


def unreadable(lacks: Sequence[Lack], more: str = "") -> CarnacError:
    """Return the error that names segments which no server can read: Corrupt if a file is damaged."""
    ids = sorted({one.slice.segment.segment_id for one in lacks})
    worst = gravest(one.reason for one in lacks)
    tail = f", {more}" if more else ""
    kind = Corrupt if isinstance(worst, Corrupt) else Unavailable
    return kind(
        f"segments {first_of(ids, NAMED_MAX)} cannot be read from any server ({worst.message}){tail}",
        segments=ids[:100],
        missing=missing_intervals(lacks),
    )


def cast_rows(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the types that were said before they came.

    Raises:
        Invalid: They do not fit.
    """
    import pyarrow as pa

    if table.schema.equals(schema):
        return table
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, ValueError) as error:
        raise Invalid(
            "the rows of the answer do not all have the same types; cast its whole numbers AS VARCHAR or AS DOUBLE"
        ) from error
