"""Statements that are asked over a network, and the facts of their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum

from carnac.core.access import ALL_DATASOURCES, NO_DATASOURCES, DatasourcePatterns
from carnac.ports.queries import KEEP, Keeping


class OnMissing(StrEnum):
    """The outcome of a query whose segments no server can read."""

    ERROR = "error"
    """It fails, and names them."""
    PREVIOUS = "previous"
    """It is answered from the newest revision that can be read as a whole, and says which."""
    PARTIAL = "partial"
    """It is answered without them, and lists the intervals that are missing."""


class Engine(StrEnum):
    """The engine that ran a statement."""

    EMBEDDED = "embedded"
    """In the process that was asked, over the segment files."""
    ONE_ROUND = "one_round"
    """Partial results of historicals, merged by the broker."""
    GATHERED = "gathered"
    """Pruned rows of historicals, and the embedded engine of the broker over them."""
    SPARK = "spark"
    """Spark, over the segment files in deep storage."""


@dataclass(frozen=True, slots=True)
class Client:
    """The client that asks a statement.

    Attributes:
        name: A user, else an address; empty: it is not known. Clients take turns in the queue, and the query log says
            it.
        datasources: Those that exist for it.
    """

    name: str = ""
    datasources: DatasourcePatterns = ALL_DATASOURCES


ANYBODY = Client()
"""The client where nobody asks who it is."""
NOBODY = Client("", NO_DATASOURCES)
"""The client of a statement that nobody asked yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement as it was asked.

    Attributes:
        sql: One SELECT statement, or EXPLAIN of one.
        parameters: Values of its `?`, in order.
        query_id: By which it can be cancelled, and is found in the query log; unique among those that run.
        at: The revision, time or tag to read; None: the revision that the broker plans on.
        timeout_ms: After which it is stopped; None: the store's setting; 0: no limit.
        on_missing: Outcome if segments cannot be read; on Spark only `ERROR`.
        priority: Higher ones leave the queue first; 0 by default.
        lane: Name of a lane of the queue that limits how many of its queries run; None: none.
        keeping: Allowed uses of kept partial results.
        engine: `SPARK`: there; None: the broker decides.
    """

    sql: str
    parameters: Sequence[object] = ()
    query_id: str
    client: Client
    at: int | str | None = None
    timeout_ms: int | None = None
    on_missing: OnMissing = OnMissing.ERROR
    priority: int = 0
    lane: str | None = None
    keeping: Keeping = KEEP
    engine: Engine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The basis of an answer, by which anybody with the log can derive it again.

    Attributes:
        store_id: Id of the store whose log was read; None: the receipt does not name it.
        revision: The one revision that was read.
        statement_digest: SHA-256 of statement and parameters, in hexadecimal.
        segments_digest: SHA-256 of the sorted set of segments with their clips, in hexadecimal.
        rows: Of the answer; None until it was read to its end.
        rows_digest: An order-independent digest of the rows, in hexadecimal; None until it was read to its end.
    """

    store_id: str | None
    revision: int
    statement_digest: str
    segments_digest: str
    rows: int | None = None
    rows_digest: str | None = None


@dataclass(slots=True, kw_only=True)
class Reach:
    """The part that an answer has reached of the segments it needs; final once its batches are exhausted.

    Attributes:
        segments_read: Entries that leaves reported as read.
        is_complete: Everything that is needed was read, and the leaves' reports prove it; False where they do not.
        missing: Intervals that are missing, ISO 8601, by datasource; empty unless `OnMissing.PARTIAL`.
        servers: Ids of the historicals that took part; empty for the embedded engine.
        segments_cold: Of those read, how many a historical had to read from deep storage; 0 for the embedded engine.
        segments_kept: Of those read, of how many partial results were kept from an earlier statement.
    """

    segments_read: int = 0
    is_complete: bool = False
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    servers: Sequence[str] = ()
    segments_cold: int = 0
    segments_kept: int = 0


@dataclass(slots=True, kw_only=True)
class AnswerFacts(Reach):
    """The facts of an answer. Facts known only at the end are set when its batches are exhausted.

    Attributes:
        query_id: Of the statement.
        revision: The one revision that was read.
        segments_expected: Entries that the statement needs after pruning at that revision.
        engine: Engine that ran it.
        why: One sentence: why that engine.
        etag: Changes exactly when the answer could: a digest of statement, segments with clips, columns and lookups,
            without quotes. One of an answer that depends on the time or on chance never comes again.
        receipt: See there.
    """

    query_id: str
    revision: int
    segments_expected: int
    engine: Engine
    why: str
    etag: str
    receipt: Receipt

    def note(self, reach: Reach) -> None:
        """Take over what was reached by now."""
        for one in fields(Reach):
            setattr(self, one.name, getattr(reach, one.name))
