"""Many writers on one hour, in any order that a seed says: appenders and compactors, as steps of one thread.

Locks are decided by the real `core.locks.machine.decide`, commits by the real `plan_append` and `plan_any`; only the
files and the database are not there. A writer is a generator that yields wherever another process might come between.
Writers may die (and start anew, with the same batch) or be stopped for longer than their lease and wake up late.

    outcome = run_interleaving(7, mode=Mode.DEFAULT, faults=0.02)
    assert outcome.rows == outcome.rows_expected
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TypeAlias

from carnac.core import invariants
from carnac.core.locks import laws as lock_laws
from carnac.core.locks.choice import LockContext, choose_lock, default_priority
from carnac.core.locks.events import (
    BeginPublish,
    EndPublish,
    Granted,
    LockEvent,
    LockReply,
    Lost,
    ReleaseLocks,
    RenewLocks,
    RequestLock,
    Standing,
    Waits,
)
from carnac.core.locks.machine import decide
from carnac.core.locks.model import Lock, LockGranularity, LockState, LockType
from carnac.core.log import laws as log_laws
from carnac.core.log.commits import (
    Change,
    CommitKind,
    ConservationProof,
    Drop,
    LockHeld,
    Publication,
)
from carnac.core.log.entries import Entry
from carnac.core.segments.segment import Segment
from carnac.core.segments.version import IdRanges, id_ranges
from carnac.core.time.intervals import IntervalSet
from carnac.errors import Conflict, Revoked
from tests.support.hour_log import DATASOURCE, HOUR, Hour
from tests.support.log_algebra import plan_commit

LEASE_MS = 60_000
STEP_MAX_MS = 500
BASE_ROWS = (-1, -2, -3)
"""Rows that are there before anybody comes, a segment each."""
STEPS_MAX = 20_000
"""More than any run takes; a run that takes more is stuck."""

Steps: TypeAlias = Iterator[None]
Pick: TypeAlias = Callable[[Sequence[str]], int]
Choose: TypeAlias = Callable[[list[Entry]], list[Entry]]


class Mode(StrEnum):
    """How writers lock."""

    DEFAULT = "default"
    SEGMENT = "segment"
    TIME_CHUNK = "time_chunk"

    @property
    def context(self) -> LockContext:
        """The context of the tasks."""
        if self is Mode.DEFAULT:
            return LockContext()
        if self is Mode.SEGMENT:
            return LockContext(lock_type=LockType.EXCLUSIVE)
        return LockContext(force_time_chunk_lock=True)


@dataclass(slots=True)
class Outcome:
    """Counts of events, and the rows that are visible at the end.

    Attributes:
        rows: Visible rows, each with how often it is visible.
        rows_expected: The rows of all batches, each once.
        files: The rows of each visible segment.
        append_waits: Number of times that an append had to wait.
        append_wait_ms: Time from asking for a lock to having it, for each append.
        wasted: Segments that were written and never published.
    """

    seed: int
    steps: int = 0
    rows: Counter[int] = field(default_factory=Counter)
    rows_expected: Counter[int] = field(default_factory=Counter)
    files: frozenset[tuple[int, ...]] = frozenset()
    append_waits: int = 0
    append_wait_ms: list[int] = field(default_factory=list)
    compaction_wait_ms: list[int] = field(default_factory=list)
    appends_revoked: int = 0
    compactions_started: int = 0
    compactions_finished: int = 0
    compactions_revoked: int = 0
    compactions_in_conflict: int = 0
    compactions_cancelled: int = 0
    late_publishes_refused: int = 0
    wasted: int = 0
    deaths: int = 0


@dataclass(slots=True)
class _Writer:
    """A process.

    Attributes:
        asleep_until_ms: Stopped until then.
        start: Makes its steps from the beginning: after a death, by somebody who goes on with its work.
    """

    name: str
    start: Callable[[str], Steps]
    steps: Steps
    task_id: str
    asleep_until_ms: int = 0
    renewed_at_ms: int = 0


class SameHour:
    """One run.

    Args:
        pick: Says whose turn it is, by the names of those that are not done, in place of the seed.
        choose: Says which of the live entries a compactor takes, in place of the seed.
    """

    def __init__(
        self,
        seed: int,
        *,
        mode: Mode,
        faults: float = 0.0,
        pick: Pick | None = None,
        choose: Choose | None = None,
    ) -> None:
        self._rng = random.Random(seed)
        self._mode = mode
        self._faults = faults
        self._pick = pick or (lambda names: self._rng.randrange(len(names)))
        self._choose = choose or self._sample
        self._written = 0
        self.at_ms = 0
        self.hour = Hour()
        self.outcome = Outcome(seed)

    def run(self, *, appenders: int, batches: int, compactors: int, rounds: int) -> Outcome:
        """Let all writers come to their end, in an order of the seed's own, and return what is there then.

        Raises:
            InvariantError: A law does not hold.
        """
        writers = [
            self._writer(f"a{n}", partial(self._append, number=n, batches=batches))
            for n in range(appenders)
        ] + [
            self._writer(f"c{n}", partial(self._compact, rounds=rounds)) for n in range(compactors)
        ]
        self._begin()
        while writers:
            self.outcome.steps += 1
            invariants.check(
                "LK-4", self.outcome.steps < STEPS_MAX, f"run {self.outcome.seed} is stuck"
            )
            self.at_ms += self._rng.randrange(STEP_MAX_MS)
            writer = writers[self._pick([one.name for one in writers])]
            if not self._step(writer):
                writers.remove(writer)
        self.outcome.rows_expected = Counter((*BASE_ROWS, *range(appenders * batches)))
        return self._finish()

    def _begin(self) -> None:
        """Publish what is there before anybody comes."""
        segments = tuple(self._write((row,)) for row in BASE_ROWS)
        change = Change(datasource=DATASOURCE, adds=segments, segment_granularity="hour")
        base = Publication(kind=CommitKind.APPEND, changes=(change,))
        self.hour.apply(plan_commit(self.hour, base, revision=1, at_ms=0))

    def _writer(self, name: str, start: Callable[[str], Steps]) -> _Writer:
        return _Writer(name=name, start=start, steps=start(name), task_id=name)

    def _step(self, writer: _Writer) -> bool:
        """Let a writer do its next step, or something happen to it; return whether it has more to do."""
        if writer.asleep_until_ms > self.at_ms:
            return True
        if self._faults and self._rng.random() < self._faults:
            if self._rng.random() < 0.5:
                writer.asleep_until_ms = self.at_ms + self._rng.randrange(3 * LEASE_MS)
            else:
                self.outcome.deaths += 1
                writer.task_id += "'"
                writer.steps = writer.start(writer.task_id)
            return True
        if self.at_ms - writer.renewed_at_ms > LEASE_MS // 3:
            writer.renewed_at_ms = self.at_ms
            self._locks(RenewLocks(task_id=writer.task_id))
        return next(writer.steps, self) is not self

    # ------------------------------------------------------------------------------------------- writers

    def _append(self, task: str, *, number: int, batches: int) -> Steps:
        for batch in range(batches):
            key = f"{number}.{batch}"
            rows = (number * batches + batch,)
            while True:
                lock = yield from self._acquire(task, is_append=True, partitions=IdRanges())
                yield
                segment = self._write(rows)
                yield
                if self._publish_append(segment, lock, key):
                    break
                self._locks(ReleaseLocks(task_id=task))
                yield
            yield
            self._locks(ReleaseLocks(task_id=task))

    def _compact(self, task: str, *, rounds: int) -> Steps:
        for _ in range(rounds):
            yield
            inputs = self._choose_inputs()
            if not inputs:
                continue  # one segment or none: nothing to compact
            partitions = id_ranges(entry.partition_id for entry in inputs)
            lock = yield from self._acquire(task, is_append=False, partitions=partitions)
            if any(entry.entry_id not in self.hour.live for entry in inputs):
                self.outcome.compactions_cancelled += 1  # somebody was faster: nothing is wasted
                self._locks(ReleaseLocks(task_id=task))
                continue
            base = self.hour.revision
            self.outcome.compactions_started += 1
            yield
            rows = [row for entry in inputs for row in self.hour.contents[entry.segment_id]]
            segment = self._write(tuple(rows))
            yield
            begun = self._locks(BeginPublish(task_id=task, lock_ids=(lock.lock_id,)))
            yield
            if isinstance(begun, Standing) and begun.locks and begun.locks[0].is_publishing:
                self._publish_rewrite(segment, inputs, lock, base)
                yield
                self._locks(EndPublish(task_id=task, lock_ids=(lock.lock_id,)))
            else:
                self.outcome.compactions_revoked += 1
                self.outcome.wasted += 1
            yield
            self._locks(ReleaseLocks(task_id=task))

    def _acquire(
        self, task: str, *, is_append: bool, partitions: IdRanges
    ) -> Generator[None, None, Lock]:
        """Ask, step after step, until the lock is held."""
        choice = choose_lock(self._mode.context, is_append=is_append)
        is_wide = choice.granularity is LockGranularity.TIME_CHUNK
        request = RequestLock(
            task_id=task,
            group_id=task,
            datasource=DATASOURCE,
            interval=HOUR,
            partitions=None if is_wide else partitions,
            type=choice.type,
            priority=default_priority("stream" if is_append else "compact"),
            timeout_ms=choice.timeout_ms,
            lease_ms=LEASE_MS,
        )
        asked_at_ms = self.at_ms
        while True:
            reply = self._locks(request)
            if isinstance(reply, Granted):
                waits = (
                    self.outcome.append_wait_ms if is_append else self.outcome.compaction_wait_ms
                )
                waits.append(self.at_ms - asked_at_ms)
                return reply.lock
            if isinstance(reply, Lost):
                self._locks(ReleaseLocks(task_id=task))
            elif is_append and isinstance(reply, Waits):
                self.outcome.append_waits += 1
            yield

    # ------------------------------------------------------------------------------------------- the world

    def _choose_inputs(self) -> list[Entry]:
        live = sorted(self.hour.live.values(), key=lambda entry: entry.partition_id)
        return self._choose(live)

    def _sample(self, live: list[Entry]) -> list[Entry]:
        """Return some of them, two at least; none if there are not so many."""
        count = self._rng.randrange(2, len(live) + 1) if len(live) > 1 else 0
        return self._rng.sample(live, count)

    def _write(self, rows: tuple[int, ...]) -> Segment:
        self._written += 1
        segment_id = f"s{self._written}"
        self.hour.contents[segment_id] = rows
        return Segment(
            segment_id=segment_id,
            datasource=DATASOURCE,
            chunk=HOUR,
            path=segment_id,
            size_bytes=1,
            rows=len(rows),
            input_rows=len(rows),
            min_time_ms=HOUR.start_ms,
            max_time_ms=HOUR.end_ms - 1,
            columns=(),
        )

    def _publish_append(self, segment: Segment, lock: Lock, key: str) -> bool:
        """Publish; return False if the lock was lost."""
        if key in self.hour.batches:  # its predecessor died after its commit
            self.outcome.wasted += 1
            return True
        change = Change(datasource=DATASOURCE, adds=(segment,), segment_granularity="hour")
        try:
            self._publish(Publication(kind=CommitKind.APPEND, changes=(change,)), lock)
        except Revoked:
            self.outcome.appends_revoked += 1
            self.outcome.wasted += 1
            return False
        self.hour.batches.add(key)
        return True

    def _publish_rewrite(
        self, segment: Segment, inputs: Sequence[Entry], lock: Lock, base: int
    ) -> None:
        drops = tuple(
            Drop(segment_id=entry.segment_id, expected=IntervalSet((entry.span,)))
            for entry in inputs
        )
        change = Change(
            datasource=DATASOURCE,
            adds=(segment,),
            drops=drops,
            takes_over=lock.granularity is LockGranularity.TIME_CHUNK,
        )
        rows = segment.rows
        proof = ConservationProof(rows_in=rows, rows_out=rows, row_hash_in=1, row_hash_out=1)
        publication = Publication(
            kind=CommitKind.REWRITE, changes=(change,), base_revision=base, proof=proof
        )
        try:
            self._publish(publication, lock)
        except Conflict:
            self.outcome.compactions_in_conflict += 1
            self.outcome.wasted += 1
        except Revoked:
            self.outcome.late_publishes_refused += 1
            self.outcome.wasted += 1
        else:
            self.outcome.compactions_finished += 1

    def _publish(self, publication: Publication, lock: Lock) -> None:
        fence = LockHeld(lock_id=lock.lock_id, fence=lock.fence)
        fenced = Publication(
            kind=publication.kind,
            changes=publication.changes,
            base_revision=publication.base_revision,
            proof=publication.proof,
            requirements=(fence,),
        )
        commit = plan_commit(self.hour, fenced, revision=self.hour.revision + 1, at_ms=self.at_ms)
        held = self.hour.locks_table.get(lock.lock_id)
        invariants.check(
            "LK-6",
            held is not None and held.state is LockState.HELD,
            f"{lock.task_id} published without its lock {lock.lock_id}",
        )
        self.hour.apply(commit)

    def _locks(self, event: LockEvent) -> LockReply:
        decision = decide(self.hour.locks_table, event, at_ms=self.at_ms)
        if decision.is_change:
            self.hour.locks_table.apply(decision)
        return decision.reply

    def _finish(self) -> Outcome:
        lock_laws.check_locks(self.hour.locks_table)
        live = list(self.hour.live.values())
        log_laws.check_entries(DATASOURCE, live)
        outcome = self.outcome
        outcome.files = frozenset(self.hour.contents[entry.segment_id] for entry in live)
        for entry in live:
            outcome.rows.update(self.hour.contents[entry.segment_id])
        return outcome


def run_interleaving(
    seed: int,
    *,
    mode: Mode = Mode.DEFAULT,
    faults: float = 0.0,
    appenders: int = 8,
    batches: int = 1,
    compactors: int = 4,
    rounds: int = 1,
) -> Outcome:
    """Run 8 appenders and 4 compactors on the same hour, in the order that the seed says.

    Args:
        faults: Chance, at each step, that its writer dies (and is started anew) or is stopped for up to three leases.

    Raises:
        InvariantError: A law does not hold; the message names it.
    """
    run = SameHour(seed, mode=mode, faults=faults)
    return run.run(appenders=appenders, batches=batches, compactors=compactors, rounds=rounds)
