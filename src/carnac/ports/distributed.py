"""One statement over many servers: what a broker asks of those that hold segments, and what it does with their rows.

A *leaf* is who reads segment files for a statement: a server, or a part of one. A broker has a statement planned, sends
each leaf request out, for some of its slices to each server, and gives the rows that come back to `run_final`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.core.segments.segment import ColumnType
    from carnac.ports.queries import Catalog, FileSlice, QueryResult

PlainValue: TypeAlias = (
    str | bytes | int | float | bool | Decimal | datetime | date | time | timedelta | None
)
"""A parameter of a statement that can be sent."""
SmallTable: TypeAlias = Mapping[str, Sequence[str | int]]
"""A lookup, or a table about tables: values by column."""
Listing: TypeAlias = Mapping[str, Sequence[object]]
"""Arrow tables or readers by the name of the leaf request that they answer; one for each server that was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeEdge:
    """The rows at one end of time that a statement wants.

    Attributes:
        sql: Gives the epoch microseconds of the rows that match.
        rows: How many are wanted, with those to skip among them.
    """

    sql: str
    rows: int
    is_newest: bool


class Way(StrEnum):
    """How a statement is run over many servers."""

    ONE_ROUND = "one round"
    """Each server answers for its files alone; the broker merges the answers."""
    GATHERED = "gathered"
    """Servers send the rows and columns that matter; the broker runs the statement over them."""
    AT_BROKER = "at the broker"
    """It names no datasource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLimit:
    """How much may be gathered for one statement, from all servers together.

    Attributes:
        size_bytes: In Arrow's form.
    """

    rows: int
    size_bytes: int

    def check(self, rows: int, size_bytes: int) -> None:
        """Refuse more.

        Raises:
            Invalid: It is more; says what to do.
        """
        if rows <= self.rows and size_bytes <= self.size_bytes:
            return
        limit = f"{self.rows:,} rows" if rows > self.rows else f"{self.size_bytes:,} bytes"
        raise Invalid(
            f"the statement needs more than {limit} of the servers' rows at the broker; select a shorter time or fewer "
            "columns, write it as one SELECT with sums, counts or extremes, or run it with carnac sql",
            rows_max=self.rows,
            bytes_max=self.size_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRequest:
    """One statement over some segment files: all that a leaf must know.

    Attributes:
        name: Of the table that its rows become at the broker.
        sql: One SELECT over `view` and `tables`; `$1`, `$2`, … are `parameters`.
        columns: Of `view`, besides `__time`, in order.
        slices: The files, and which of their instants are visible. Each counts once.
        tables: Small tables that go along.
        edge: Set if only rows at one end of time are wanted: files that hold none of them need not be read.
        limit: None: as many rows as there are.
    """

    name: str
    sql: str
    view: str
    columns: Mapping[str, ColumnType]
    slices: Sequence[FileSlice]
    parameters: Sequence[PlainValue] = ()
    tables: Mapping[str, SmallTable] = field(default_factory=dict)
    edge: TimeEdge | None = None
    limit: RowLimit | None = None

    def over(self, slices: Sequence[FileSlice]) -> LeafRequest:
        """Return the same request over some of its slices, for one server."""
        return replace(self, slices=tuple(slices))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafAnswer:
    """The rows of a leaf, as they come.

    Attributes:
        schema: A `pyarrow.Schema`. Names may repeat: columns are told apart by their place.
        batches: Of `pyarrow.RecordBatch`, once.
        segment_ids: Of all files that the answer accounts for: those of the request.
        read_ids: Of those among them that are read; the rest cannot hold a row that is wanted.
        stop: Ends it, from any thread: taking batches raises Unavailable.
    """

    schema: object
    batches: Iterator[object]
    segment_ids: frozenset[str]
    read_ids: frozenset[str]
    stop: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """What stands for a table of a statement at the broker.

    Attributes:
        leaf: Name of the request whose rows it is made of.
        view: Name in the final statement.
        types: SQL types of the rows' columns, which are called `p_0`, `p_1`, … in `select`.
        select: The list of expressions that make the view's columns of them.
    """

    leaf: str
    view: str
    types: Sequence[str]
    select: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How one statement is run over many servers, at one revision.

    Attributes:
        reason: Why this way, in a sentence.
        leaves: What is asked; none where no segment can matter, and for EXPLAIN.
        final_sql: What the broker runs over what comes back.
        parameters: Of `final_sql`.
        stands: What the rows that come back are to `final_sql`.
        tables: Small tables that `final_sql` names.
        names: Of the result's columns; None: as `final_sql` gives them.
        limit: Of what comes back, from all servers together; None: what memory holds.
        segments_total: Live segments of the datasources that it names.
        told: What EXPLAIN says, line by line; empty: the statement is to be run.
    """

    way: Way
    reason: str
    leaves: Sequence[LeafRequest]
    final_sql: str
    parameters: Sequence[object]
    stands: Sequence[Stand]
    tables: Mapping[str, SmallTable]
    names: Sequence[str] | None
    limit: RowLimit | None
    revision: int
    segments_total: int
    told: Sequence[str] = ()

    @property
    def segment_ids(self) -> frozenset[str]:
        """The segments that the answer must rest on: those of all requests."""
        return frozenset(piece.segment.segment_id for leaf in self.leaves for piece in leaf.slices)


class LeafEngine(Protocol):
    """Answers leaf requests from segment files."""

    def run_leaf(self, request: LeafRequest) -> AbstractContextManager[LeafAnswer]:
        """Run the statement of a request over its slices; its files stay until the block ends.

        Raises:
            Invalid: The statement reaches for something else; it gives more rows than the request's limit.
            Unavailable: It took too long, needs more memory than there is, or was interrupted.
            Corrupt: A segment file is missing or damaged.
        """
        ...


class BrokerEngine(Protocol):
    """Plans statements for many servers, and merges what they answer."""

    def plan_distributed(
        self, sql: str, catalog: Catalog, *, parameters: Sequence[object] = ()
    ) -> Distribution:
        """Return how a statement is run over the revision of `catalog`.

        Raises:
            Invalid: As `QueryEngine.run_query`; it cannot be run over many servers.
            NotFound: As `QueryEngine.run_query`.
        """
        ...

    def run_final(self, distribution: Distribution, answers: Listing) -> QueryResult:
        """Merge what the leaves answered.

        Args:
            answers: By the names of the requests, Arrow tables or record batch readers of each leaf, in any order.

        Raises:
            Invalid: They are more than the distribution's limit.
            Unavailable: It took too long, needs more memory than there is, or was interrupted.
        """
        ...
