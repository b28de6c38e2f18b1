"""Following a datasource: micro-batches of the rows that commits bring.

An offset is a revision, with the time of its commit (after a restore of the metadata another commit has the number)
and the datasource that is followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from carnac.bootstrap.apart import StoreApart, open_apart
from carnac.core.log.feed import Fed, feed_of
from carnac.core.segments.schema import unite_types
from carnac.core.time.leases import is_over
from carnac.errors import CarnacError, DiskFull, Invalid, NotFound, ReadOnly, Revoked
from carnac.ports import Lease, LeaseKind, SegmentInput
from carnac.spark_format.failures import in_one_sentence
from carnac.spark_format.reading import Pinned, read_partition, share_out

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from carnac.core.log.commits import Commit
    from carnac.spark_format.options import Options

Changes: TypeAlias = Literal["refuse", "skip", "added"]
"""Treatment of commits that take rows back: they end the query, are left out, or only their new rows count."""
BEFORE = -1
"""The offset before the first batch, which is all that is there."""
IDLE_REVISIONS = 100
"""After so many commits that bring nothing, the offset moves on, so that history behind it can be trimmed."""
PAGE = 500
RENEWALS = 3
"""Of a lease, in the time that it lasts."""
Offset: TypeAlias = Mapping[str, Any]


class FollowingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gives the rows that were there, then those that each commit brought.

    Spark asks it in one process for as long as the query runs, which opens the store and holds a lease on where the
    query is; tasks get a copy that knows the files alone.
    """

    def __init__(self, pinned: Pinned, schema: StructType, options: Options) -> None:
        self._pinned = pinned
        self._schema = schema
        self._starting = starting_of(options)
        self._changes = changes_of(options)
        self._rows_max = options.number("maxRowsPerTrigger")
        self._target: int | None = None
        self._open: StoreApart | None = None
        self._lease: Lease | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave the store where it is open."""
        return self.__dict__ | {"_open": None, "_lease": None}

    # calls of Spark

    @in_one_sentence
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins."""
        head = self._store().metadata.head().revision
        if self._starting is None:
            return self._offset(BEFORE)
        if self._starting == "latest":
            return self._offset(head)
        if self._starting > head + 1:
            raise NotFound(
                f"there is no revision {self._starting} yet; the newest is {head}", revision=head
            )
        return self._offset(self._starting - 1)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch."""
        return ReadAllAvailable() if self._rows_max is None else ReadMaxRows(self._rows_max)

    @in_one_sentence
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take note of where the query ends."""
        self._target = self._store().metadata.head().revision

    @in_one_sentence
    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends.

        Raises:
            Invalid: The next commit takes rows back, and nobody has said what becomes of such.
            NotFound: Commits after the start are not kept any more, or a restore took the start away.
        """
        metadata = self._store().metadata
        self._require_there(start)
        head = metadata.head().revision if self._target is None else self._target
        begin = start["revision"]
        if begin == BEFORE:
            self._hold(head)
            return self._offset(head)
        self._hold(begin)
        if begin >= head:
            return dict(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        rows, seen = 0, begin
        for commit, fed in self._fed(begin, head):
            if fed.is_change and self._changes == "refuse":
                if not rows:
                    raise self._refusal(commit)
                break
            if rows and most is not None and rows + fed.rows > most:
                break
            rows, seen = rows + fed.rows, commit.revision
            if most is None and rows and self._changes != "refuse":
                seen = head
                break
        has_moved = rows or seen - begin >= IDLE_REVISIONS
        return self._offset(seen) if has_moved else dict(start)

    @in_one_sentence
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the segments of a batch, always the same."""
        first, last = start["revision"], end["revision"]
        if first == last:
            return []
        self._require_there(end)
        self._hold(last if first == BEFORE else first)
        if first == BEFORE:
            found = self._store().metadata.visible(self._pinned.datasource, revision=last)
            inputs = [SegmentInput(segment=one.segment, visible=one.entry.visible) for one in found]
        else:
            inputs = []
            for commit, fed in self._fed(first, last):
                if fed.is_change and self._changes == "refuse":
                    raise self._refusal(commit)
                inputs += [SegmentInput(segment=one, visible=shown) for one, shown in fed.new]
        self._require_types(inputs)
        return share_out(inputs)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, in a task."""
        return read_partition(self._pinned, self._schema, partition)

    @in_one_sentence
    def commit(self, end: Offset) -> None:
        """Let go of what is behind a batch that is done."""
        self._hold(end["revision"])

    def stop(self) -> None:
        """Release the lease, and close the store."""
        opened, self._open = self._open, None
        lease, self._lease = self._lease, None
        if opened is not None:
            with suppress(CarnacError):  # it ends by itself
                if lease is not None:
                    opened.metadata.release_lease(lease.lease_id)
            opened.metadata.close()

    # how it is answered

    def _store(self) -> StoreApart:
        if self._open is None:
            self._open = open_apart(self._pinned.store)
            if self._pinned.lease_id is not None:  # of the schema; the query has its own
                with suppress(CarnacError):
                    self._open.metadata.release_lease(self._pinned.lease_id)
        return self._open

    def _offset(self, revision: int) -> dict[str, Any]:
        found: dict[str, Any] = {"datasource": self._pinned.datasource, "revision": revision}
        if revision > BEFORE:
            with suppress(NotFound):  # a stream may start before the oldest one that is kept
                found["at_ms"] = self._store().metadata.resolve(revision).at_ms
        return found

    def _require_there(self, offset: Offset) -> None:
        """Refuse an offset of commits that are gone, and that of another stream.

        Raises:
            NotFound: The metadata was restored to an earlier time.
            Invalid: It says how far another datasource was followed.
        """
        followed = offset.get("datasource", self._pinned.datasource)
        if followed != self._pinned.datasource:
            raise Invalid(
                f"this stream has followed {followed} so far, and would miss the rows that"
                f" {self._pinned.datasource} has already; follow that with a checkpoint, or a writer, of its own",
                datasource=followed,
            )
        revision, metadata = offset["revision"], self._store().metadata
        is_there = revision <= metadata.head().revision
        if is_there and "at_ms" in offset:
            with suppress(NotFound):  # trimmed, which is told where it matters
                is_there = metadata.resolve(revision).at_ms == offset["at_ms"]
        if not is_there:
            raise NotFound(
                f"the metadata of the store was restored to a time before revision {revision}, to which this stream"
                f" of {self._pinned.datasource} has come; begin again with a new checkpoint",
                revision=revision,
            )

    def _hold(self, revision: int) -> None:
        """Keep a revision and later ones readable.

        Raises:
            NotFound: It is not kept any more.
        """
        lease, ttl_ms, opened = self._lease, self._pinned.lease_ms, self._store()
        if lease is not None and revision <= lease.revision <= revision + 1:
            if not is_over(lease.heartbeat_at_ms, ttl_ms // RENEWALS, opened.clock.now_ms()):
                return
            revision = lease.revision
        with suppress(ReadOnly, DiskFull):
            if lease is not None:
                with suppress(Revoked):
                    self._lease = opened.metadata.renew_lease(
                        lease.lease_id, ttl_ms=ttl_ms, revision=revision
                    )
                    return
            self._lease = self._acquire(opened, revision, ttl_ms)

    def _acquire(self, opened: StoreApart, revision: int, ttl_ms: int) -> Lease:
        """Take a lease on a revision, or on the next one, from which later commits are read."""
        for held in (revision, revision + 1):
            with suppress(NotFound):
                return opened.metadata.acquire_lease(
                    LeaseKind.READER, holder=opened.holder, ttl_ms=ttl_ms, revision=held
                )
        raise self._missed(revision)

    def _fed(self, after: int, last: int) -> Iterator[tuple[Commit, Fed]]:
        """Yield the commits after a revision up to another one, with what they bring."""
        metadata = self._store().metadata
        while after < last:
            try:
                page = metadata.changes(after=after, limit=min(PAGE, last - after))
            except NotFound:
                raise self._missed(after) from None
            for commit in page:
                fed = feed_of(commit, self._pinned.datasource)
                is_kept = self._changes == "added" or not fed.is_change
                yield commit, fed if is_kept or self._changes == "refuse" else Fed()
            if not page:
                return
            after = page[-1].revision

    def _refusal(self, commit: Commit) -> Invalid:
        return Invalid(
            f"revision {commit.revision} ({commit.kind}) takes back rows of {self._pinned.datasource}, which a stream"
            " of new rows cannot say; set option changes to skip, to leave such commits out, or to added, to take the"
            " rows of replacements as new ones",
            revision=commit.revision,
        )

    def _missed(self, revision: int) -> NotFound:
        return NotFound(
            f"commits after revision {revision} are not kept any more, so this stream would miss rows of"
            f" {self._pinned.datasource}; begin again with a new checkpoint, and keep history for longer than a query"
            " is away (retention_age_ms)",
            revision=revision,
        )

    def _require_types(self, inputs: Sequence[SegmentInput]) -> None:
        """Refuse segments with a column that is of a wider type than when the query began."""
        for name, kind in self._pinned.columns.items():
            for one in inputs:
                own = next((c.type for c in one.segment.columns if c.name == name), kind)
                wider = unite_types(name, kind, own)
                if wider is not kind:
                    raise Invalid(
                        f"column '{name}' of {self._pinned.datasource} is {wider} now, and was {kind} when the query"
                        " began; make the DataFrame again and start it from the same checkpoint",
                        column=name,
                    )


def starting_of(options: Options) -> int | Literal["latest"] | None:
    """Return the first revision whose rows a new query gives; None: all that is there, first.

    Raises:
        Invalid: It is no revision.
    """
    text = options.text("startingRevision")
    if text is None:
        return None
    return "latest" if text.lower() == "latest" else options.number("startingRevision")


def changes_of(options: Options) -> Changes:
    """Return what becomes of commits that take rows back.

    Raises:
        Invalid: It is nothing of that kind.
    """
    text = (options.text("changes") or "refuse").lower()
    for known in get_args(Changes):
        if text == known:
            return known  # type: ignore[no-any-return]
    *others, last = get_args(Changes)
    raise Invalid(f"option changes is {', '.join(others)} or {last}, not '{text}'")
