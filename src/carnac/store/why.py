"""The reasons why a number is another one at a later revision: which commits changed it, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import isclose
from typing import TYPE_CHECKING, cast

from carnac.core.access import ALL_DATASOURCES, DatasourcePatterns
from carnac.core.log.commits import Commit, DatasourceCommit
from carnac.core.log.entries import Entry, VisibleSegment
from carnac.core.log.reverting import difference_of
from carnac.errors import Invalid, NotFound
from carnac.ports.queries import READ_ALL
from carnac.store.querying import Reads, RevisionCatalog

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.core.segments.segment import ColumnType, Segment
    from carnac.core.time.intervals import IntervalSet
    from carnac.ports.queries import QueryBasis

COMMITS_MAX = 10_000
"""Commits that are looked at."""
RUNS_MAX = 100
"""How often a statement is run at revisions one after the other."""
ROWS_MAX = 10_000
"""Maximum number of rows of an answer that is compared group by group."""
PAGE = 1_000
CLOSE = 1e-9
"""Sums of doubles that differ by less, relatively, are one."""

Number = int | float | Decimal
Key = tuple[object, ...]
Answer = Mapping[Key, Sequence[Number]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The change of an answer by one commit.

    Attributes:
        commit: Number, time, kind and message of the commit.
        deltas: Change of each number, by group; the group is empty for a statement without groups.
    """

    commit: Commit
    deltas: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyReport:
    """The changes of an answer between two revisions.

    Attributes:
        first_revision: The earlier one.
        last_revision: The later one.
        groups: Names of the columns that rows are grouped by.
        numbers: Names of the columns that are compared.
        before: The answer at the first revision.
        after: The answer at the last one.
        changes: The commits that changed it, oldest first.
        commits: Number of commits that changed its datasources or lookups.
        way: Way in which it was found, as a sentence.
    """

    first_revision: int
    last_revision: int
    groups: Sequence[str]
    numbers: Sequence[str]
    before: Answer
    after: Answer
    changes: Sequence[Why]
    commits: int
    way: str


@dataclass(slots=True)
class _Some:
    """A catalog of some entries of a datasource, with the columns of a revision (port `Catalog`)."""

    whole: RevisionCatalog
    items: Sequence[VisibleSegment]
    schema: Mapping[str, ColumnType]
    revision: int = field(init=False)
    edition: int = 0
    datasources: DatasourcePatterns = ALL_DATASOURCES
    store_id: str = ""

    def __post_init__(self) -> None:
        self.revision = self.whole.revision

    def datasource_names(self) -> Sequence[str]:
        return self.whole.datasource_names()

    def visible(self, datasource: str, intervals: IntervalSet | None) -> Sequence[VisibleSegment]:
        del datasource
        return [
            one for one in self.items if intervals is None or intervals.intersect(one.entry.visible)
        ]

    def columns(self, datasource: str) -> Mapping[str, ColumnType]:
        del datasource
        return self.schema

    def count_segments(self, datasource: str) -> int:
        del datasource
        return len(self.items)

    def lookups(self) -> Mapping[str, Mapping[str, str]]:
        return self.whole.lookups()

    def system(self, table: str) -> Iterable[Sequence[object]]:
        return self.whole.system(table)


class WhyFinder:
    """Finds which commits changed the answer of a statement."""

    def __init__(
        self, reads: Reads, text: str, parameters: Sequence[object] | Mapping[str, object]
    ) -> None:
        self._engine, self._metadata, self._leases = reads.engine, reads.metadata, reads.leases
        self._text = text
        self._parameters = parameters
        self._segments: dict[str, Segment] = {}

    def find(self, first: int | str, last: int | str | None) -> WhyReport:
        """Return what changed the answer between two revisions.

        Raises:
            Invalid: The revisions are in the wrong order; the answer is not numbers; there are too many commits.
            NotFound: A revision, or a commit between them, is not kept any more.
        """
        with self._leases.reading(first) as reading:  # all later ones are kept with it
            start = reading.head.revision
            end = self._metadata.resolve(last).revision
            if end < start:
                raise Invalid(
                    f"revision {start} is later than {end}; give the earlier one as --from (first=…)"
                )
            planned, basis, table = self._plan(start, end)
            numbers = _places(basis, table)
            touching = self._touching(basis, start, end)
            before = self._answer_at(basis, numbers, start)
            after = _answer(table, numbers) if planned == end else {}
            changes, way = None, ""
            if basis.sums is not None and len(basis.columns) == 1:
                changes = self._by_segments(basis, touching, numbers, planned)
                way = "from the segments that each commit added and dropped, alone"
                if not _adds_up(before, after, changes):
                    changes = None  # a column took another type meanwhile, say
            if changes is None:
                changes = self._by_revisions(basis, touching, numbers, start, before)
                way = "by running the statement at each revision that changed what it reads"
        names = table.column_names
        return WhyReport(
            first_revision=start,
            last_revision=end,
            groups=[name for place, name in enumerate(names) if place not in numbers],
            numbers=[names[place] for place in numbers],
            before=before,
            after=after,
            changes=[one for one in changes if one.deltas],
            commits=len(touching),
            way=way,
        )

    def _plan(self, start: int, end: int) -> tuple[int, QueryBasis, pa.Table]:
        """Run the statement at the last revision, or the first if what it reads is gone; return which."""
        try:
            return end, *self._run(self._at(end))
        except NotFound as error:
            with suppress(NotFound):
                return start, *self._run(self._at(start))
            raise error from None

    def _answer_at(self, basis: QueryBasis, numbers: Sequence[int], revision: int) -> Answer:
        catalog = self._at(revision)
        if not basis.columns.keys() <= set(catalog.datasource_names()):
            return {}  # nothing is counted where there is no such datasource yet, or any more
        try:
            return _answer(self._run(catalog)[1], numbers)
        except NotFound:  # nor where there is no such column yet
            if basis.sums is None:
                raise
            return {}

    def _at(self, revision: int) -> RevisionCatalog:
        return RevisionCatalog(self._metadata, revision)

    def _run(self, catalog: RevisionCatalog | _Some) -> tuple[QueryBasis, pa.Table]:
        import pyarrow as pa

        query = self._engine.open_query(
            self._text, catalog, parameters=self._parameters, keeping=READ_ALL
        )
        try:
            if query.basis.is_volatile:
                raise Invalid(
                    "the answer depends on the time or on chance; ask why of a statement that rests on rows alone"
                )
            schema = cast("pa.Schema", query.start())
            batches, rows = [], 0
            for batch in query.batches():
                batches.append(cast("pa.RecordBatch", batch))
                rows += batches[-1].num_rows
                if rows > ROWS_MAX:
                    raise Invalid(
                        f"the answer has more than {ROWS_MAX:,} rows; select numbers, by fewer groups"
                    )
            return query.basis, pa.Table.from_batches(batches, schema)
        finally:
            query.close()

    def _touching(self, basis: QueryBasis, start: int, end: int) -> list[Commit]:
        """Return the commits of the interval that changed what the statement reads."""
        found: list[Commit] = []
        after, seen = start, 0
        while after < end:
            page = self._metadata.changes(after=after, limit=PAGE)
            for commit in page:
                if commit.revision > end:
                    break
                seen += 1
                names = {change.datasource for change in commit.changes}
                if names & set(basis.columns) or (basis.tables and commit.lookups):
                    found.append(commit)
            after = page[-1].revision if page else end
            if seen > COMMITS_MAX:
                raise Invalid(
                    f"there are more than {COMMITS_MAX:,} commits between {start} and {end}; "
                    "bring --from and --to closer together"
                )
        return found

    # ------------------------------------------------------------------------------------------ from segments alone

    def _by_segments(
        self, basis: QueryBasis, commits: Sequence[Commit], numbers: Sequence[int], planned: int
    ) -> list[Why]:
        [datasource] = basis.columns
        whole = self._at(planned)
        schema = whole.columns(datasource)
        found = []
        for commit in commits:
            added, dropped = self._differing(commit, datasource)
            after, before = (
                _answer(self._run(_Some(whole, items, schema))[1], numbers) if items else {}
                for items in (added, dropped)
            )
            found.append(Why(commit=commit, deltas=_deltas(before, after, len(numbers))))
        return found

    def _differing(self, commit: Commit, datasource: str) -> list[list[VisibleSegment]]:
        """Return what a commit brought into sight, and what it put out of it; not what only changed its place."""
        none = DatasourceCommit(datasource=datasource)
        change = next((one for one in commit.changes if one.datasource == datasource), none)
        entries = {one.segment_id: one for one in (*change.drops, *change.adds)}
        return [
            [self._item(replace(entries[one], clip=pieces)) for one, pieces in some.items()]
            for some in difference_of(change)
        ]

    def _item(self, entry: Entry) -> VisibleSegment:
        if entry.segment_id not in self._segments:
            segment = self._metadata.find_segment(entry.segment_id)
            if segment is None:
                raise Invalid(
                    f"segment {entry.segment_id} came and went between the revisions and is not kept any more; "
                    "bring --from and --to closer together",
                    segment_id=entry.segment_id,
                )
            self._segments[entry.segment_id] = segment
        return VisibleSegment(segment=self._segments[entry.segment_id], entry=entry)

    # ------------------------------------------------------------------------------------------ at each revision

    def _by_revisions(
        self,
        basis: QueryBasis,
        commits: Sequence[Commit],
        numbers: Sequence[int],
        start: int,
        before: Answer,
    ) -> list[Why]:
        if len(commits) > RUNS_MAX:
            raise Invalid(
                f"{len(commits)} commits changed what the statement reads after revision {start}, and it would be run "
                f"at each; that is done for {RUNS_MAX} at most: bring --from and --to closer together, or ask for "
                "counts and sums"
            )
        found = []
        for commit in commits:
            after = self._answer_at(basis, numbers, commit.revision)
            found.append(Why(commit=commit, deltas=_deltas(before, after, len(numbers))))
            before = after
        return found


def _places(basis: QueryBasis, table: pa.Table) -> Sequence[int]:
    """Return the places of the columns that are compared.

    Raises:
        Invalid: There are none, or nobody knows which they are.
    """
    import pyarrow as pa

    if basis.sums is not None:
        return basis.sums
    are_numbers = [
        pa.types.is_integer(one.type)
        or pa.types.is_floating(one.type)
        or pa.types.is_decimal(one.type)
        for one in table.schema
    ]
    if table.num_rows > 1 or not all(are_numbers):
        raise Invalid(
            "ask why of a statement that gives one row of numbers, or counts and sums by groups"
        )
    return range(len(are_numbers))


def _answer(table: pa.Table, numbers: Sequence[int]) -> Answer:
    """Return the numbers of each group; null counts as nothing."""
    found: dict[Key, Sequence[Number]] = {}
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    for row in rows:
        key = tuple(value for place, value in enumerate(row) if place not in numbers)
        found[key] = [row[place] or 0 for place in numbers]
    return found


def _deltas(before: Answer, after: Answer, width: int) -> Answer:
    """Return by how much the numbers of each group differ, if any does."""
    zeros: Sequence[Number] = [0] * width
    found = {
        key: [
            now - was  # type: ignore[operator]  # of one column, and so of one kind
            for was, now in zip(before.get(key, zeros), after.get(key, zeros), strict=True)
        ]
        for key in {**after, **before}
    }
    return {key: values for key, values in found.items() if any(values)}


def _adds_up(before: Answer, after: Answer, changes: Sequence[Why]) -> bool:
    """Whether what the commits changed is all that is different: the law of this file."""
    keys = {*before, *after, *(key for one in changes for key in one.deltas)}
    width = max((len(values) for values in (*before.values(), *after.values())), default=0)
    zeros: Sequence[Number] = [0] * width
    for key in keys:
        for index in range(width):
            first, last = before.get(key, zeros)[index], after.get(key, zeros)[index]
            total = float(first) + sum(
                float(one.deltas[key][index]) for one in changes if key in one.deltas
            )
            if not isclose(total, float(last), rel_tol=CLOSE, abs_tol=CLOSE):
                return False
    return True
