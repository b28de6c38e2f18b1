"""Leaf requests dealt out to historicals, asked again of others when one fails, and counted once.

The rows of a leaf count when its report is whole, and not before: a leaf that dies in the middle leaves nothing. A
segment that one server cannot read is asked of the others, one by one; when none is left it is missing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from carnac.broker.parts import Part
from carnac.core.answers.laws import Read
from carnac.core.answers.replicas import plan_reads
from carnac.errors import (
    Cancelled,
    CarnacError,
    Corrupt,
    DiskFull,
    Invalid,
    NotFound,
    TimedOut,
    Unavailable,
)
from carnac.ports.loops import reason_of, safely
from carnac.ports.queries import KEPT_ROWS_MIN, READ_ALL
from carnac.ports.threads import DaemonThreads

if TYPE_CHECKING:
    from carnac.broker.cluster import Cluster, Member
    from carnac.ports.distributed import Distribution
    from carnac.ports.queries import LeafReport, LeafRequest, LeafSlice

LOOK_S = 0.1
"""Between two looks whether servers that are asked still live."""
CHUNK_BYTES = 64 << 20
"""Size of the files that one request of a scan covers."""
SLICES_AT_ONCE = 50_000
"""Segments of one request. A server refuses a request that has twice as many."""
COLUMNS_AT_ONCE = 500_000
"""Columns of the segments of one request, with 500 bytes for each at most: their records are sent along."""
AHEAD_MAX = 16
"""Requests that are on their way, or whose rows wait to be taken."""
PATIENCE_ROUNDS = 10
"""How often servers that did not answer are asked again, `LOOK_S` apart, before a query is given up."""

_log = logging.getLogger(__name__)
_threads = DaemonThreads("leaf")
"""Daemons: a server that hangs does not keep this process from ending."""
_FINAL = (Invalid, TimedOut, DiskFull)
"""Errors that another server would give as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """A slice that no server can read.

    Attributes:
        reason: Error of the last server that was asked.
    """

    view: str
    slice: LeafSlice
    reason: CarnacError


@dataclass(eq=False, slots=True)
class _Task:
    """A request to a server.

    Attributes:
        leaf_id: Id by which it is stopped, as a server that came back may have been asked again for the same query.
    """

    request: LeafRequest
    member: Member
    part: Part
    leaf_id: str
    error: BaseException | None = None
    is_dropped: bool = False


@dataclass(eq=False, slots=True)
class _Waiting:
    """A slice that nobody has read yet.

    Attributes:
        refused: Servers that cannot read it.
        failed: Those that did not answer; one that was started anew is another one.
    """

    view: str
    slice: LeafSlice
    refused: set[str] = field(default_factory=set)
    failed: set[Member] = field(default_factory=set)
    error: CarnacError | None = None

    def tried(self, members: Mapping[str, Member]) -> set[str]:
        """Return the ids of servers that are not asked again."""
        failed = {
            one.record.server_id for one in self.failed if members.get(one.record.server_id) is one
        }
        return self.refused | failed


class Scatter:
    """One statement's requests, until all are answered. `stop` is for any thread, the rest for one.

    Args:
        part_bytes: Bytes that are asked of one server before another one is asked.
        is_kept: Whether the answer is kept at the broker.

    Attributes:
        reads: Reads that leaves have reported, for the proof.
        lacks: Slices that no server can read.
        cold, kept: Segments that leaves read from deep storage, and that they had partial results of.
        servers: Ids of those whose rows count.
        is_whole: There is one part, and it is the answer of the statement.
    """

    def __init__(
        self, plan: Distribution, cluster: Cluster, *, part_bytes: int, is_kept: bool
    ) -> None:
        self.reads: list[Read] = []
        self.lacks: list[Lack] = []
        self.cold = 0
        self.kept = 0
        self.servers: set[str] = set()
        self.is_whole = False
        self._plan, self._part_bytes, self._is_kept = plan, part_bytes, is_kept
        self._cluster = cluster
        self._requests = {one.view: one for one in plan.leaves}
        self._waiting: dict[tuple[str, str], _Waiting] = {
            (one.view, piece.segment.segment_id): _Waiting(one.view, piece)
            for one in plan.leaves
            for piece in one.slices
        }
        self._open: dict[tuple[str, str], _Waiting] = dict(self._waiting)
        self._asked: set[_Task] = set()
        self._done: SimpleQueue[_Task] = SimpleQueue()
        self._queue: list[tuple[Member, LeafRequest]] = []
        self._is_first = True
        self._whole: LeafRequest | None = None
        self._is_stopped = threading.Event()
        self._lock = threading.Lock()
        self._rows = 0
        self._size_bytes = 0
        self._patience = PATIENCE_ROUNDS

    def parts(self) -> Iterator[tuple[str, Part]]:
        """Yield the view and the rows of each request, once its leaf has reported; the taker of a part closes it.

        Raises:
            Invalid: A server says that the statement is wrong; more rows have come than may.
            Cancelled, TimedOut: A server says so, or `stop` was called.
        """
        try:
            while self._open or self._queue or self._asked:
                self._require_going()
                self._deal()
                if not self._asked:
                    continue
                task = self._next_done()
                if task is not None and self._settle(task):
                    yield task.request.view, task.part
                self._drop_dead()
        finally:
            self.close()

    def stop(self) -> None:
        """Let `parts` end, and the leaves too. From any thread; returns at once. Idempotent."""
        self._is_stopped.set()
        with self._lock:
            tasks = list(self._asked)
        for task in tasks:
            self._drop(task)

    def close(self) -> None:
        """Stop what still runs, and forget its rows. Idempotent."""
        self._is_stopped.set()
        with self._lock:
            tasks, self._asked = list(self._asked), set()
        for task in tasks:
            self._drop(task)

    def _require_going(self) -> None:
        if self._is_stopped.is_set():
            raise Cancelled("the query was cancelled")

    # -------------------------------------------------------------------------------------- servers to be asked

    def _deal(self) -> None:
        """Find somebody to ask for what is open, and ask as many as may be asked at once."""
        members = self._cluster.members()
        if self._open:
            left = [one for view in self._requests for one in self._deal_view(view, members)]
            self._give_up(left, members)
        while self._queue and len(self._asked) < AHEAD_MAX:
            member, request = self._queue.pop(0)
            if not self._cluster.is_there(member):
                error = Unavailable(f"historical {member.record.server_id} is gone")
                self._reopen(request, None, error)
                continue
            self._ask(member, request)

    def _deal_view(self, view: str, members: Mapping[str, Member]) -> list[_Waiting]:
        """Find somebody to ask for what is open of a request; return that for which there is nobody."""
        found = {
            one.slice.segment.segment_id: one
            for (name, _), one in self._open.items()
            if name == view
        }
        if not found:
            return []
        wanted = frozenset(found)
        assignment = plan_reads(
            {key: one.slice.segment.size_bytes for key, one in found.items()},
            [member.view(wanted) for member in members.values()],
            {key: one.tried(members) for key, one in found.items()},
            part_bytes=self._part_bytes,
        )
        is_one, self._is_first = len(assignment.parts) == 1 and self._is_first, False
        if is_one and self._asks_whole([one.slice for one in found.values()], assignment.left):
            self._queue_whole(members[next(iter(assignment.parts))], self._requests[view])
            return []
        for server_id, ids in assignment.parts.items():
            for segment_id in ids:
                del self._open[view, segment_id]
            for chunk in self._chunks([found[segment_id].slice for segment_id in ids]):
                request = replace(self._requests[view], slices=tuple(chunk), skips_missing=True)
                self._queue.append((members[server_id], request))
        return [found[segment_id] for segment_id in assignment.left]

    def _asks_whole(self, slices: Sequence[LeafSlice], left: Sequence[str]) -> bool:
        """Whether one server that has all slices is asked for the whole statement, and no partial results.

        Those are worth it where some of many segments change, and reading the others costs much.
        """
        if self._plan.whole_sql is None or left:
            return False
        if _is_too_much(len(slices), sum(len(one.segment.columns) for one in slices)):
            return False
        keeping = self._plan.leaves[0].keeping
        if not (keeping.use or keeping.populate):
            return True
        size_bytes = sum(one.segment.size_bytes for one in slices)
        if self._is_kept and (len(slices) == 1 or size_bytes <= self._part_bytes):
            return True
        return sum(one.segment.rows for one in slices) < KEPT_ROWS_MIN

    def _queue_whole(self, member: Member, request: LeafRequest) -> None:
        """Ask one server for the whole statement: nothing is left to merge. If that fails, parts are asked for."""
        self._open.clear()
        sql = self._plan.whole_sql or ""
        self._whole = replace(request, sql=sql, skips_missing=True, keeping=READ_ALL)
        self._queue.append((member, self._whole))

    def _give_up(self, left: Sequence[_Waiting], members: Mapping[str, Member]) -> None:
        """Note what nobody can read; a silent server is asked again for a while, since servers come back."""
        own = self._cluster.own() if left else None
        later = [one for one in left if one.failed or not members]
        if later and self._patience and (members or own is None):
            self._patience -= 1
            self._cluster.loop.wake()  # in its thread: the database may hang
            self._is_stopped.wait(LOOK_S)
            for one in later:
                one.failed.intersection_update({own})
            kept = set(later)
            left = [one for one in left if one not in kept]
        if own is not None:
            left = self._read_here(left, own)
        for one in left:
            del self._open[one.view, one.slice.segment.segment_id]
            reason = one.error or Unavailable(
                "no historical is alive; start one, or ask again later"
            )
            self.lacks.append(Lack(view=one.view, slice=one.slice, reason=reason))

    def _read_here(self, left: Sequence[_Waiting], own: Member) -> list[_Waiting]:
        """Have this process read from deep storage what it has not tried yet; return the rest."""
        pieces: dict[str, list[LeafSlice]] = {}
        rest: list[_Waiting] = []
        for one in left:
            if own in one.failed or own.record.server_id in one.refused:
                rest.append(one)
                continue
            del self._open[one.view, one.slice.segment.segment_id]
            pieces.setdefault(one.view, []).append(one.slice)
        for view, slices in pieces.items():
            for chunk in self._chunks(slices):
                request = replace(self._requests[view], slices=tuple(chunk), skips_missing=True)
                self._queue.append((own, request))
        return rest

    def _chunks(self, pieces: Sequence[LeafSlice]) -> Iterator[Sequence[LeafSlice]]:
        """Yield what is asked for at once: no more than can be sent, and of a scan what is soon read."""
        chunk: list[LeafSlice] = []
        size = columns = 0
        for piece in pieces:
            segment = piece.segment
            size, columns = size + segment.size_bytes, columns + len(segment.columns)
            is_long = self._plan.is_union and size > CHUNK_BYTES
            if chunk and (is_long or _is_too_much(len(chunk) + 1, columns)):
                yield chunk
                chunk, size, columns = [], segment.size_bytes, len(segment.columns)
            chunk.append(piece)
        yield chunk

    def _reopen(self, request: LeafRequest, member: Member | None, error: CarnacError) -> None:
        """Look for somebody else to ask.

        Args:
            member: The server that did not answer; None: nobody was asked.
        """
        for piece in request.slices:
            one = self._waiting[request.view, piece.segment.segment_id]
            if member is not None:
                one.failed.add(member)
            one.error = error
            self._open[request.view, piece.segment.segment_id] = one

    def _refuse(self, view: str, segment_id: str, member: Member, error: CarnacError) -> None:
        """Look for somebody else to ask for a segment that a server cannot read."""
        one = self._waiting[view, segment_id]
        one.refused.add(member.record.server_id)
        one.error = error
        self._open[view, segment_id] = one

    # ---------------------------------------------------------------------------------------------- asking

    def _ask(self, member: Member, request: LeafRequest) -> None:
        leaf_id = f"{request.query_id}/{next(self._cluster.leaf_numbers)}"
        task = _Task(request, member, Part(may_spill=self._plan.is_union), leaf_id)
        with self._lock:
            self._asked.add(task)
        member.begin()

        def run() -> None:
            try:
                self._run(task)
            except BaseException as error:
                task.error = error
            finally:
                member.end()
                self._done.put(task)

        _threads.run(run)

    def _next_done(self) -> _Task | None:
        """Return a request that is over; None: none is, for now."""
        try:
            task = self._done.get(timeout=LOOK_S)
        except Empty:
            return None
        with self._lock:
            if task not in self._asked:
                return None  # it was given up before
            self._asked.discard(task)
        return task

    def _run(self, task: _Task) -> None:
        batches, report = task.member.server.run(replace(task.request, query_id=task.leaf_id))
        try:
            for batch in batches:
                if task.is_dropped or self._is_stopped.is_set():
                    raise Cancelled("the query was cancelled")
                task.part.add(batch)
                self._count(batch.num_rows, batch.nbytes)  # type: ignore[attr-defined]
            task.part.finish(report)
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()
            if task.is_dropped:
                self._forget(task)

    def _count(self, rows: int, size_bytes: int) -> None:
        with self._lock:
            self._rows += rows
            self._size_bytes += size_bytes
            total = self._rows, self._size_bytes
        if self._plan.limit is not None:
            self._plan.limit.check(*total)

    def _settle(self, task: _Task) -> bool:
        """Take in what became of a request; return whether its rows count."""
        error = task.error
        report = task.part.report
        if error is None and (report is None or not report.is_whole):
            error = Unavailable(
                f"historical {task.member.record.server_id} has not reported what it read"
            )
        if error is None and report is not None:
            return self._accept(task, report)
        self._forget(task)
        is_ours = isinstance(error, Cancelled) and self._is_stopped.is_set()  # else its server's
        if is_ours or isinstance(error, _FINAL) or not isinstance(error, Exception):
            raise error or Unavailable("a request came to nothing")
        told = error if isinstance(error, CarnacError) else Unavailable(reason_of(error))
        server_id = task.member.record.server_id
        _log.debug("historical %s is not asked again for this query: %s", server_id, told.message)
        if not isinstance(told, Corrupt | NotFound):
            task.member.is_suspect = True
        self._reopen(task.request, task.member, told)
        return False

    def _accept(self, task: _Task, report: LeafReport) -> bool:
        missing = report.missing
        slices = tuple(report.slices)
        asked = {(one.segment.segment_id, one.clip) for one in task.request.slices}
        wanted = {one for one in asked if one[0] not in missing}
        if set(slices) != wanted or len(slices) != len(wanted):
            self._forget(task)
            error = Unavailable(
                f"historical {task.member.record.server_id} has reported other segments than it was asked for; "
                "do all servers run this version of Carnac?"
            )
            self._reopen(task.request, task.member, error)
            return False
        self.is_whole = task.request is self._whole and not missing
        is_taken = self.is_whole or task.request is not self._whole
        if is_taken:
            self.reads.append(Read(view=task.request.view, slices=slices, is_whole=True))
            self.servers.add(task.member.record.server_id)
            self.cold += report.cold
            self.kept += report.kept
        else:  # its rows have another form than those of parts
            self._forget(task)
            self._reopen(task.request, None, Unavailable("a server lacks a part of its segments"))
        for segment_id, reason in missing.items():
            kind = Corrupt if segment_id in report.damaged else Unavailable
            self._refuse(task.request.view, segment_id, task.member, kind(reason))
        return is_taken

    def _forget(self, task: _Task) -> None:
        with self._lock:
            self._rows -= task.part.rows
            self._size_bytes -= task.part.size_bytes
        task.part.close()

    def _drop_dead(self) -> None:
        """Ask others for what servers were asked that do not live any more, or are silent while others are not."""
        cluster = self._cluster
        others_speak = cluster.reads_itself or any(
            not one.is_silent for one in cluster.known().values()
        )
        for task in list(self._asked):
            member = task.member
            if cluster.is_there(member) and not (member.is_silent and others_speak):
                continue
            with self._lock:
                self._asked.discard(task)
            self._drop(task)
            error = Unavailable(f"historical {member.record.server_id} does not answer any more")
            self._reopen(task.request, member, error)

    def _drop(self, task: _Task) -> None:
        """Let nothing of a request count any more, and stop its leaf in the background."""
        if task.is_dropped:
            return
        task.is_dropped = True
        _threads.run(
            lambda: safely(
                _log, "stopping a leaf statement", lambda: task.member.server.cancel(task.leaf_id)
            )
        )


def _is_too_much(slices: int, columns: int) -> bool:
    """Whether a request would have more segments, or more columns of segments, than can be sent."""
    return slices > SLICES_AT_ONCE or columns > COLUMNS_AT_ONCE
