"""One attempt at reading a stream, for as long as a task is given.

It begins at the position in the log and keeps none of its own. A publication moves the position in the same
transaction, and only if the position is where the attempt began. So a second attempt under the same name publishes
nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.log.positions import OffsetRange
from carnac.core.streams.partitions import (
    Partition,
    Start,
    find_start,
    group_of,
    parse_position,
    position_texts,
)
from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval
from carnac.core.time.leases import is_over
from carnac.errors import Conflict, Invalid
from carnac.kafka.client import KafkaClient
from carnac.ports import JobProgress, StreamProgress
from carnac.rows.read.inputs import InputFile, ResolvedInput
from carnac.rows.read.message_ranges import MessageRange
from carnac.store.streaming.gathering import Gathered

if TYPE_CHECKING:
    from carnac.ports import Clock, WriteGuard
    from carnac.specs.ingest.spec import IngestSpec
    from carnac.specs.supervisors.kafka import KafkaSupervisor
    from carnac.store.store import Store
    from carnac.store.writing.outcome import WriteOutcome

BATCH_MESSAGES = 250_000
BATCH_BYTES = 64 << 20
"""Most that is published at a time, whatever the period."""
POLL_MESSAGES = 10_000
POLL_MS = 100
"""How long a call waits for a message: as long as a cancelled task goes unnoticed."""
LOOK_MS = 10_000
"""How often partitions that are new are looked for."""
BACKLOG_MESSAGES = 10_000_000
"""Most that Spark reads for one publication."""
PIECE_MESSAGES = 500_000
"""Most that one of its tasks reads of a partition at a time."""
MARKS_MS = 30_000
"""How soon a position moves that has met nothing but marks of transactions."""
FIRST_TRIES_MAX = 10
MESSAGE_BYTES = 100
"""A guess, by which work is shared out."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """Counts of the work of an attempt, by Druid's names."""

    processed: int = 0
    processedBytes: int = 0  # noqa: N815 - Druid's name
    unparseable: int = 0
    thrownAway: int = 0  # noqa: N815 - Druid's name
    nulls: int = 0
    lost: int = 0
    commits: int = 0

    def as_json(self) -> Mapping[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class StreamReading:
    """Reads some partitions of a stream into a store.

    Args:
        group: Number of the task among those of the supervisor, from 0.
        on_progress: Called with the progress; raises if the attempt has no right to go on.
    """

    def __init__(
        self,
        store: Store,
        supervisor: KafkaSupervisor,
        group: int,
        clock: Clock,
        *,
        guard: WriteGuard | None,
        on_progress: Callable[[JobProgress], None],
        message: str,
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._group = group
        self._clock = clock
        self._guard = guard
        self._on_progress = on_progress
        self._message = message
        self._spec = supervisor.load
        self._gathered = Gathered(supervisor.envelope)
        self._starts: dict[Partition, int | None] = {}
        self._began: dict[Partition, int] = {}
        self._published_at_ms = 0
        self.counts = Counts()

    def run(self) -> None:
        """Read until the task's time is over.

        Raises:
            Unavailable: Kafka does not answer.
            Invalid: Messages are gone before they were read, or more of them are unreadable than may be.
            Conflict: Somebody else has moved the position.
            Revoked: The task was cancelled or given up.
        """
        supervisor, began_ms = self._supervisor, self._clock.now_ms()
        self._spec = _within(supervisor, began_ms, began_ms + supervisor.task_ms)
        looked_ms = began_ms
        self._published_at_ms = began_ms - supervisor.publish_ms
        with KafkaClient(supervisor.properties) as client:
            self._look(client)
            self._catch_up(client)
            while not is_over(began_ms, supervisor.task_ms, now_ms := self._clock.now_ms()):
                self._tell()
                if is_over(looked_ms, LOOK_MS, now_ms):
                    self._look(client)
                    self._catch_up(client)
                    looked_ms = self._clock.now_ms()
                self._gathered.add(client.poll(POLL_MESSAGES, self._wait_ms(now_ms) / 1000))
                if self._is_due():
                    self._publish()
            self._publish()

    # ---------------------------------------------------------------------------------- partitions

    def _look(self, client: KafkaClient) -> None:
        """Read the partitions that there are now: new ones from where they begin, the others on from where they are."""
        supervisor = self._supervisor
        found = client.partitions(supervisor.topic, is_pattern=supervisor.is_pattern)
        new = [one for one in found if self._is_mine(one) and one not in self._starts]
        if not new and self._starts:
            return
        position = self._first_position(client, found)
        bounds = client.bounds(new)
        for one in new:
            start = find_start(
                one,
                position.get(one),
                bounds[one],
                resets=supervisor.resets,
                use_earliest=supervisor.use_earliest_offset,
            )
            self._begin(one, start)
        client.assign(self._gathered.reached)

    def _catch_up(self, client: KafkaClient) -> None:
        """Have Spark read what waits, if that is much, in parts of `BACKLOG_MESSAGES`."""
        least, reached = self._supervisor.spark_backlog, self._gathered.reached
        while least is not None and reached:
            bounds = client.bounds(tuple(reached))
            behind = {one: bounds[one].latest - at for one, at in reached.items()}
            if sum(behind.values()) < least:
                return
            self._publish()
            share = -(-BACKLOG_MESSAGES // len(reached))
            ends = {one: at + min(behind[one], share) for one, at in reached.items()}
            _log.info("Spark reads %s messages", sum(ends.values()) - sum(reached.values()))
            found = backlog_input(self._supervisor, reached, ends)
            reached.update(ends)
            self._publish(found)
            client.assign(reached)

    def _begin(self, partition: Partition, start: Start) -> None:
        if start.offset != start.position:
            lost = f", {start.lost} messages before it are gone" if start.lost else ""
            told = _log.warning if lost else _log.info
            told("%s is read from offset %s%s", partition, start.offset, lost)
        self.counts.lost += start.lost
        self._starts[partition] = start.position
        self._began[partition] = start.offset
        self._gathered.reached[partition] = start.offset

    def _first_position(
        self, client: KafkaClient, found: Iterable[Partition]
    ) -> Mapping[Partition, int]:
        """Return the position of the stream. If it has none and begins at the end, that is written down first.

        Else what comes before the first publication would be left out if this process died meanwhile.
        """
        supervisor = self._supervisor
        for _ in range(FIRST_TRIES_MAX):
            position = supervisor.own(
                parse_position(self._store.position(supervisor.supervisor_id))
            )
            if position or supervisor.use_earliest_offset:
                return position
            first = {one: at.latest for one, at in client.bounds(tuple(found)).items()}
            if not first:
                return {}
            moved = OffsetRange(writer=supervisor.supervisor_id, end=position_texts(first))
            try:
                self._store.move_position(moved, message=f"{self._message}: begins at the end")
            except Conflict:
                continue  # another task of the supervisor has
            return first
        raise Conflict(f"the position of '{supervisor.supervisor_id}' is moved again and again")

    def _is_mine(self, partition: Partition) -> bool:
        supervisor = self._supervisor
        group = group_of(partition, supervisor.tasks, is_pattern=supervisor.is_pattern)
        return group == self._group

    # ---------------------------------------------------------------------------------- publishing

    def _wait_ms(self, now_ms: int) -> int:
        if not self._gathered.count:
            return POLL_MS
        due_ms = self._published_at_ms + self._supervisor.publish_ms - now_ms
        return max(0, min(POLL_MS, due_ms))

    def _is_due(self) -> bool:
        gathered, now_ms = self._gathered, self._clock.now_ms()
        if gathered.count >= BATCH_MESSAGES or gathered.size_bytes >= BATCH_BYTES:
            return True
        if gathered.count:
            return is_over(self._published_at_ms, self._supervisor.publish_ms, now_ms)
        return is_over(self._published_at_ms, MARKS_MS, now_ms) and bool(self._moved())

    def _moved(self) -> Mapping[Partition, int]:
        """Return what is read next in the partitions of which something was read that is not published."""
        began = self._began
        return {
            one: offset
            for one, offset in self._gathered.reached.items()
            if offset != (began[one] if self._starts[one] is None else self._starts[one])
        }

    def _publish(self, backlog: ResolvedInput | None = None) -> None:
        """Publish what is gathered (or a backlog, by Spark), with the range of offsets that it is."""
        moved, gathered = self._moved(), self._gathered
        if not moved:
            return
        held = {one: self._starts[one] for one in moved}
        offsets = OffsetRange(
            writer=self._supervisor.supervisor_id,
            start=position_texts({one: at for one, at in held.items() if at is not None}),
            end=position_texts(moved),
        )
        self._count(self._load(offsets, backlog))
        self._starts.update(moved)
        gathered.clear()
        self._published_at_ms = self._clock.now_ms()

    def _load(self, offsets: OffsetRange, backlog: ResolvedInput | None) -> WriteOutcome:
        limit = self._spec.tuning.max_parse_exceptions
        try:
            if backlog is not None:
                return self._store.ingest(
                    self._with_limit(limit),
                    backlog,
                    message=self._message,
                    allow_missing=True,
                    on_progress=lambda _: self._tell(),
                    guard=self._guard,
                    offsets=offsets,
                )
            return self._store.append(
                self._spec.datasource,
                self._gathered.as_input(self._supervisor.format),
                spec=self._with_limit(limit),
                message=self._message,
                allow_missing=True,
                guard=self._guard,
                offsets=offsets,
            )
        except Invalid as error:
            rejected = error.ids.get("rejected")
            if limit is None or not isinstance(rejected, int):
                raise
            raise Invalid(
                f"{self.counts.unparseable + rejected:,} messages could not be read and maxParseExceptions allows "
                f"{limit:,}: the task stops before them; raise it to go on without them (the rejected rows are in "
                f"{error.ids.get('path')})",
                **error.ids,
            ) from None

    def _with_limit(self, limit: int | None) -> IngestSpec:
        """Return the spec with what is left of its limit, which is that of a whole task."""
        if limit is None:
            return self._spec
        left = self._spec.tuning.model_copy(
            update={"max_parse_exceptions": limit - self.counts.unparseable}
        )
        return self._spec.model_copy(update={"tuning": left})

    def _count(self, outcome: WriteOutcome) -> None:
        counts, report = self.counts, outcome.report
        counts.commits += 1
        counts.nulls += self._gathered.nulls
        counts.processedBytes += self._gathered.size_bytes
        if report is not None:
            counts.unparseable += report.rejected.count
            counts.thrownAway += report.rows_filtered
            counts.processed += report.rows_read - report.rejected.count - report.rows_filtered

    def _tell(self) -> None:
        counts = self.counts
        self._on_progress(
            StreamProgress(
                phase="reads", done=0, total=0, rows=counts.processed, counts=counts.as_json()
            )
        )


def backlog_input(
    supervisor: KafkaSupervisor, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> ResolvedInput:
    """Return ranges of partitions as the input of a load, in pieces for many tasks."""
    pieces = [
        MessageRange(
            partition=one,
            start=start,
            end=min(start + PIECE_MESSAGES, ends[one]),
            envelope=supervisor.envelope,
            properties=supervisor.properties,
        )
        for one in sorted(starts)
        for start in range(starts[one], ends[one], PIECE_MESSAGES)
    ]
    files = tuple(
        InputFile(
            url=f"kafka:{one.partition}",
            size_bytes=(one.end - one.start) * MESSAGE_BYTES,
            messages=one,
        )
        for one in pieces
    )
    return ResolvedInput(files=files, format=supervisor.format)


def _within(supervisor: KafkaSupervisor, began_ms: int, ends_ms: int) -> IngestSpec:
    """Return what becomes of messages, with the times of rows that are taken."""
    spec = supervisor.load
    limits = (supervisor.from_ms, supervisor.late_ms, supervisor.early_ms)
    if all(one is None for one in limits):
        return spec
    low, high = supervisor.from_ms or MIN_MS, MAX_MS
    if supervisor.late_ms is not None:
        low = max(MIN_MS, began_ms - supervisor.late_ms)
    if supervisor.early_ms is not None:
        high = min(MAX_MS, ends_ms + supervisor.early_ms)
    taken = spec.granularity.model_copy(update={"intervals": (Interval(low, max(low + 1, high)),)})
    return spec.model_copy(update={"granularity": taken})
