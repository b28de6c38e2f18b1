"""One statement over many servers: how it is split, and how the broker puts the servers' rows together.

A process that reads segment files for a part of a statement is a leaf (`LeafRequest`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from carnac.core.words import counted
from carnac.errors import Invalid, TimedOut

if TYPE_CHECKING:
    from carnac.core.segments.segment import ColumnType
    from carnac.ports.queries import LeafRequest, LeafSlice, QueryBasis
    from carnac.specs.sql.external import External


class Way(StrEnum):
    """How a statement is run over many servers."""

    ONE_ROUND = "one round"
    """Each server answers for its files alone; the broker merges the answers."""
    GATHERED = "gathered"
    """Servers send the rows and columns that matter; the broker runs the statement over them."""
    AT_BROKER = "at the broker"
    """It names no datasource."""
    SPARK = "Spark"
    """Spark runs the statement over the segment files."""


class TooMuch(Invalid):
    """More rows would come together at a broker than may; Spark could run the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherLimit:
    """How much of what servers send may come together at a broker for one statement.

    Attributes:
        size_bytes: In Arrow's form.
    """

    rows: int = 20_000_000
    size_bytes: int = 1 << 30

    def check(self, rows: int, size_bytes: int) -> None:
        """Refuse more.

        Raises:
            TooMuch: It is more; says what to do.
        """
        if rows <= self.rows and size_bytes <= self.size_bytes:
            return
        is_long = rows > self.rows
        limit = f"{self.rows:,} rows" if is_long else f"{self.size_bytes:,} bytes"
        setting = "query_gather_rows" if is_long else "query_gather_bytes"
        raise TooMuch(
            f"the statement needs more than {limit} of the servers' rows at the broker; select a shorter time or fewer "
            "columns, write it as one SELECT with sums, counts or extremes, run it on Spark (engine: spark), "
            f"or raise {setting}",
            rows_max=self.rows,
            bytes_max=self.size_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """The substitute for a table of a statement at the broker.

    Attributes:
        leaf: The view of the request whose rows it is made of.
        view: Name in the final statement.
        types: SQL types of the rows' columns, which are called `p_0`, `p_1`, … in `select`.
        select: The list of expressions that make the view's columns of them.
    """

    leaf: str
    view: str
    types: Sequence[str]
    select: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Along:
    """A small table that goes along with a statement, and how its rows are found first.

    Attributes:
        table: By which leaf requests and the final statement name it.
    """

    table: str
    plan: Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How one statement is run over many servers, at one revision.

    Attributes:
        reason: Why this way, in a sentence.
        leaves: Requests to leaves, each with all its slices. A broker deals the slices out, so that each goes to one
            server. Each request has a view of its own, by which it is known. None where no segment can matter.
        final_sql: Statement that the broker runs over the rows that come back.
        stands: Tables that `final_sql` reads these rows as.
        query_id: By which merging is cancelled.
        tables: Small tables that `final_sql` names, `pyarrow.Table`s by name.
        names: Of the result's columns; None: as `final_sql` gives them.
        limit: Limit of the rows that come back, from all servers together; None: the memory.
        basis: Basis of the answer.
        is_union: Whether the answer is that of each leaf's rows, united: `run_final` may be called part by part.
        whole_sql: SQL by which one server answers the whole statement, if it reads all slices of the one request; None:
            the broker has something to do in any case.
        is_edge: Whether it needs rows at one end of time, for which few files are read as a rule.
        told: Lines of EXPLAIN; empty: the statement is to be run.
        gives: Names and SQL types of the columns of the statement's rows; none where it is a part of another one.
        along: Tables whose plans are run first; `given` adds their answers.
        otherwise: Plan to run in its place if what goes along is more than the limit of its own plan; None: no plan has
            a limit that is lower than that of all.
    """

    way: Way
    reason: str
    leaves: Sequence[LeafRequest]
    final_sql: str
    query_id: str
    stands: Sequence[Stand]
    tables: Mapping[str, object]
    names: Sequence[str] | None
    limit: GatherLimit | None
    basis: QueryBasis
    revision: int
    is_union: bool = False
    whole_sql: str | None = None
    is_edge: bool = False
    told: Sequence[str] = ()
    gives: Sequence[tuple[str, str]] = ()
    along: Sequence[Along] = ()
    otherwise: Distribution | None = None

    def given(self, tables: Mapping[str, object]) -> Distribution:
        """Return the plan with the answers of what was run first, `pyarrow.Table`s by name."""
        leaves = [
            replace(
                leaf,
                tables=dict(leaf.tables)
                | {name: one for name, one in tables.items() if name in leaf.sql},
            )
            for leaf in self.leaves
        ]
        return replace(self, leaves=leaves, tables=dict(self.tables) | dict(tables), along=())

    @property
    def slices(self) -> Sequence[LeafSlice]:
        """All that is asked of servers, also for what goes along."""
        own = [piece for leaf in self.leaves for piece in leaf.slices]
        return [*own, *(piece for one in self.along for piece in one.plan.slices)]


def said_of_slices(slices: Sequence[LeafSlice]) -> str:
    """Return how much slices are, for people."""
    rows = sum(one.segment.rows for one in slices)
    size_bytes = sum(one.segment.size_bytes for one in slices)
    clipped = sum(one.clip is not None for one in slices)
    parts = [counted(len(slices), "segment"), counted(rows, "row"), counted(size_bytes, "byte")]
    return ", ".join([*parts, *([f"{clipped} of them clipped"] if clipped else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable:
    """A view of a statement on Spark.

    Attributes:
        columns: Without `__time`, with their types.
        slices: Slices that the view shows.
    """

    view: str
    columns: Mapping[str, ColumnType]
    slices: Sequence[LeafSlice]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlan:
    """One statement as Spark runs it, at one revision.

    Attributes:
        sql: In Spark's SQL; it names nothing but `scans` and `tables`.
        tables: Small tables, `pyarrow.Table`s by name.
        merge: Plan over Spark's rows, part by part, which it names `rows`.
        rows: Name of Spark's rows in it.
    """

    sql: str
    scans: Sequence[SparkTable]
    tables: Mapping[str, object]
    merge: Distribution
    rows: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRows:
    """A view of a statement that loads rows. Spark's workers compute its rows, one by one, before Spark sees them.

    Attributes:
        of: The segments that it reads, or the name of an external table.
        sql: A SELECT in DuckDB's SQL over `SOURCE_ROWS`, row by row.
        schema: Names and types of its columns, as Spark writes them.
    """

    view: str
    of: SparkTable | str
    sql: str
    schema: str


SOURCE_ROWS = "__carnac_source"
"""Name of the given rows in a SELECT of `SparkRows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLoad:
    """A statement whose rows are loaded, as Spark runs it, at one revision.

    Attributes:
        sql: In Spark's SQL; it names nothing but `rows` and `tables`. Its columns are those to be loaded.
        externals: The tables that are files or inline text.
        tables: Small tables, `pyarrow.Table`s by name.
    """

    sql: str
    rows: Sequence[SparkRows]
    externals: Sequence[External]
    tables: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAsked:
    """How a statement is asked of Spark.

    Attributes:
        reason: Why there, in a sentence.
        timeout_ms: Of planning and of each part's cast; None: the engine's own; 0: no limit.
    """

    reason: str
    parameters: Sequence[object] | Mapping[str, object] = ()
    query_id: str = ""
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadAsked:
    """A statement whose rows are to be loaded.

    Attributes:
        within: Folders and URLs below which its files are read; None: anywhere.
        needs_time: Whether there must be a column `__time`.
        inputs: Columns that metrics aggregate, which may be sketches.
    """

    sql: str
    within: Sequence[str] | None
    needs_time: bool
    inputs: frozenset[str]


def late_on_spark(timeout_ms: int) -> TimedOut:
    """Return what is said of a statement that took too long on Spark."""
    return TimedOut(
        f"the query took longer than {timeout_ms} ms on Spark and was stopped; "
        "select a shorter time or fewer rows, or raise query_timeout_ms"
    )
