"""Late rows for chunks that are being compacted, on real Spark tasks: once under each way of locking.

The problem of "Segment Locking": under classic time-chunk locks a late append takes the lock away from the compaction
of its chunk, whose work is lost, or waits until the compaction has published. The same stream runs against three
datasources of one store that differ in nothing but what the context of their tasks says of locks.
"""

from __future__ import annotations

import json
import os
import random
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.late_data.watch import COMPACT, Episode, Watch, WatchedJobs
from carnac.core.time.intervals import Interval, format_ms, parse_interval
from carnac.ports import Clock, TaskFilter

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.config import Settings
    from carnac.overlord.tasks import TaskService
    from carnac.store import Store

HOUR_MS = 3_600_000
START_MS = parse_interval("2024-03-04/2024-03-05").start_ms
PAGES = ("Alignment", "Cairn", "Cromlech", "Dolmen", "Menhir", "Tumulus")
SEED = 2024
LOOK_PERIOD_MS = 100
FEW_SEGMENTS, MANY_SEGMENTS = 1, 3
"""A chunk with more segments than this is compacted: many while late rows come, few once they have ended."""
APPENDS_MAX = COMPACTIONS_MAX = 2
"""At a time: so a slow machine sees the same thing, for longer."""
SETTLE_MAX_MS = 240_000
RUNNER = "in_process"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockMode:
    """One way of locking, as the context of every task says it."""

    datasource: str
    title: str
    context: Mapping[str, object]
    is_free_of_waits: bool


MODES = (
    LockMode(
        datasource="exclusive",
        title="Exclusive time-chunk locks, the classic way (forceTimeChunkLock: true)",
        context={"forceTimeChunkLock": True},
        is_free_of_waits=False,
    ),
    LockMode(
        datasource="segment",
        title="Segment locks (taskLockType: EXCLUSIVE, forceTimeChunkLock: false)",
        context={"forceTimeChunkLock": False, "taskLockType": "EXCLUSIVE"},
        is_free_of_waits=True,
    ),
    LockMode(
        datasource="default",
        title="Carnac's default: the context says nothing",
        context={},
        is_free_of_waits=True,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The amount of work.

    Attributes:
        chunks: Hours with rows in them before the stream begins.
        segments: Segments of each chunk at that time.
        rows: Rows of each of these segments.
        appends: Number of late appends.
        late_rows: Rows of each append, in three of the chunks.
        period_ms: Least time from one append to the next.
    """

    chunks: int = 6
    segments: int = 4
    rows: int = 100_000
    appends: int = 40
    late_rows: int = 300
    period_ms: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRun:
    """The outcome of the stream under one way of locking.

    Attributes:
        start_ms: When the first append was sent.
        stream_ms: Time from the first append until the last one was sent.
        stable_ms: Time from the first append until no chunk was left to compact; None: the wait for that was given up.
        places: The chunks of each task.
        rows_expected: Rows that were sent; each has an id of its own.
        rows_found: Number of rows that are there, and of their ids.
    """

    mode: LockMode
    start_ms: int
    stream_ms: int
    stable_ms: int | None
    episodes: tuple[Episode, ...]
    places: Mapping[str, tuple[Interval, ...]]
    rows_expected: int
    rows_found: tuple[int, int]

    def of(self, is_compaction: bool) -> list[Episode]:
        """Return the compactions, or the appends."""
        return [one for one in self.episodes if (one.type == COMPACT) is is_compaction]

    @property
    def ends(self) -> Counter[str]:
        """How many compactions ended how."""
        return Counter(one.end for one in self.of(True))

    @property
    def delayed(self) -> int:
        """How many appends waited for somebody else's lock."""
        return sum(one.is_delayed for one in self.of(False))

    @property
    def is_exact(self) -> bool:
        """Whether every row that was sent is there exactly once."""
        return self.rows_found == (self.rows_expected, self.rows_expected)

    @property
    def is_right(self) -> bool:
        """Whether it kept what its way of locking promises."""
        all_finished = all(one.end == "finished" for one in self.episodes)
        is_undisturbed = all_finished and self.delayed == 0 and self.stable_ms is not None
        return self.is_exact and (is_undisturbed or not self.mode.is_free_of_waits)


class LateDataProof:
    """Runs the stream, on one store and one Spark session.

    Args:
        say: Shows a line for each event.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        clock: Clock,
        *,
        scale: Scale,
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings.model_copy(
            update={
                "store": str(folder),
                "deep_storage": None,
                "task_runner": RUNNER,
                "task_slots": APPENDS_MAX + COMPACTIONS_MAX,
                "overlord_period_ms": 50,
            }
        )
        self._clock = clock
        self._scale = scale
        self._say = say
        self._watch = Watch(clock)
        self.chunks = tuple(
            Interval(START_MS + hour * HOUR_MS, START_MS + (hour + 1) * HOUR_MS)
            for hour in range(scale.chunks)
        )

    def run(self) -> list[LateRun]:
        """Run the stream under each way of locking; return what came of it."""
        from carnac.bootstrap.runners import open_runners
        from carnac.bootstrap.store import open_store
        from carnac.bootstrap.tasks import open_loop, open_tasks

        with ExitStack() as stack:
            store = stack.enter_context(open_store(settings=self._settings, create=True))
            runners = open_runners(self._settings, run=self._make_runner(stack, store))
            service = stack.enter_context(open_tasks(settings=self._settings, runners=runners))
            loop = open_loop(settings=self._settings, runners=runners)
            stack.callback(loop.close)
            loop.start()
            return [self._run_mode(mode, store, service) for mode in MODES]

    def _make_runner(self, stack: ExitStack, store: Store) -> Callable[[str, int], object]:
        """Return what runs an attempt in a thread of this process: one store and one Spark serve all."""
        from carnac.bootstrap.store import open_records
        from carnac.overlord.attempt import run_attempt
        from carnac.store.jobs import StoreJobs

        metadata = open_records(settings=self._settings, clock=self._clock)
        stack.callback(metadata.close)
        holder = f"demo@{socket.gethostname()}:{os.getpid()}"
        lockbox = self._watch.lockbox(metadata, holder=holder, lease_ms=self._settings.lease_ttl_ms)

        def run(task_id: str, number: int) -> object:
            owner = f"{task_id}/{number}"
            jobs = StoreJobs(store, find_payload=metadata.task_payload, clock=self._clock)
            return run_attempt(
                metadata,
                lockbox,
                WatchedJobs(jobs, self._watch, owner),
                self._clock,
                holder=holder,
                task_id=task_id,
                number=number,
            )

        return run

    def _run_mode(self, mode: LockMode, store: Store, service: TaskService) -> LateRun:
        self._say(mode.title)
        sent = _Sent(mode, self._scale, self.chunks)
        for number in range(self._scale.segments):
            base = {**sent.spec(), "input": {"frame": "arrow"}}
            store.ingest(base, sent.base_rows(number), message="what was there before")
        start_ms = self._clock.now_ms()
        stream_ms = self._stream(store, service, sent)
        stable_ms = self._settle(store, service, sent, start_ms)
        found = store.sql(
            f'SELECT count(*) AS "rows", count(DISTINCT id) AS ids FROM "{mode.datasource}"'
        ).arrow()
        run = LateRun(
            mode=mode,
            start_ms=start_ms,
            stream_ms=stream_ms,
            stable_ms=stable_ms,
            episodes=tuple(self._watch.episodes(mode.datasource)),
            places=sent.places,
            rows_expected=sent.rows,
            rows_found=(found["rows"][0].as_py(), found["ids"][0].as_py()),
        )
        ends = run.ends
        self._say(
            f"      {len(run.of(False))} appends, {run.delayed} of them delayed; {sum(ends.values())} compactions, "
            f"{ends['revoked']} of them revoked"
        )
        return run

    def _stream(self, store: Store, service: TaskService, sent: _Sent) -> int:
        """Send the late appends, one each period, while chunks are compacted; return how long that took."""
        start_ms = due_ms = self._clock.now_ms()
        for number in range(self._scale.appends):
            while self._clock.now_ms() < due_ms or sent.appending(service) >= APPENDS_MAX:
                self._compact(store, service, sent, MANY_SEGMENTS)
                self._clock.sleep_ms(LOOK_PERIOD_MS)
            sent.submit_append(service, number)
            due_ms = self._clock.now_ms() + self._scale.period_ms
        return self._clock.now_ms() - start_ms

    def _settle(self, store: Store, service: TaskService, sent: _Sent, start_ms: int) -> int | None:
        """Compact until nothing is left to do and nothing runs; return how long that took since the stream began."""
        end_ms = self._clock.now_ms() + SETTLE_MAX_MS
        while self._clock.now_ms() < end_ms:
            is_due = self._compact(store, service, sent, FEW_SEGMENTS)
            if not is_due and not _live(service, sent.mode.datasource):
                return self._clock.now_ms() - start_ms
            self._clock.sleep_ms(LOOK_PERIOD_MS)
        return None

    def _compact(self, store: Store, service: TaskService, sent: _Sent, segments_max: int) -> bool:
        """Submit the compactions that are due; whether a chunk has more segments than it should."""
        segments = Counter(item.entry.chunk for item in store.segments(sent.mode.datasource))
        due = [chunk for chunk in self.chunks if segments[chunk] > segments_max]
        running = sent.compacting(_live(service, sent.mode.datasource))
        for chunk in sorted(set(due) - running, key=lambda one: -segments[one]):
            if len(running) >= COMPACTIONS_MAX:
                break
            sent.submit_compaction(service, chunk)
            running.add(chunk)
        return bool(due)


class _Sent:
    """The rows and tasks that were sent to one datasource."""

    def __init__(self, mode: LockMode, scale: Scale, chunks: tuple[Interval, ...]) -> None:
        self.mode = mode
        self.rows = 0
        self.places: dict[str, tuple[Interval, ...]] = {}
        self._scale = scale
        self._chunks = chunks
        self._random = random.Random(SEED)
        self._compactions = 0

    def spec(self) -> dict[str, object]:
        """Return what all rows have in common."""
        return {
            "dataSource": self.mode.datasource,
            "timestampSpec": {"column": "time", "format": "millis"},
            "dimensions": ["page", {"name": "id", "type": "long"}],
            "granularitySpec": {"segmentGranularity": "hour"},
        }

    def base_rows(self, number: int) -> pa.Table:
        """Return rows of all chunks."""
        import numpy as np
        import pyarrow as pa

        count = self._scale.rows * len(self._chunks)
        made = np.random.default_rng(SEED + number)
        ids = np.arange(self.rows, self.rows + count)
        self.rows += count
        return pa.table(
            {
                "time": START_MS + made.integers(0, len(self._chunks) * HOUR_MS, count),
                "page": made.choice(np.array(PAGES), count),
                "id": ids,
            }
        )

    def submit_append(self, service: TaskService, number: int) -> None:
        """Send rows that are late: of three chunks."""
        chunks = tuple(sorted(self._random.sample(self._chunks, min(3, len(self._chunks)))))
        lines = []
        for index in range(self._scale.late_rows):
            chunk = chunks[index % len(chunks)]
            at_ms = self._random.randrange(chunk.start_ms, chunk.end_ms)
            row = {"time": at_ms, "page": self._random.choice(PAGES), "id": self.rows}
            lines.append(json.dumps(row))
            self.rows += 1
        task_id = f"append-{self.mode.datasource}-{number:03}"
        self.places[task_id] = chunks
        service.submit(
            {
                "type": "index_parallel",
                "id": task_id,
                "spec": {**self.spec(), "input": {"type": "inline", "data": "\n".join(lines)}},
                "context": dict(self.mode.context),
            }
        )

    def submit_compaction(self, service: TaskService, chunk: Interval) -> None:
        """Send a compaction of a whole chunk; when it fails, it is for the next look to decide anew."""
        self._compactions += 1
        task_id = f"compact-{self.mode.datasource}-{self._compactions:03}"
        self.places[task_id] = (chunk,)
        service.submit(
            {
                "type": "compact",
                "id": task_id,
                "dataSource": self.mode.datasource,
                "interval": str(chunk),
                "context": {**self.mode.context, "retries": 0},
            }
        )

    def appending(self, service: TaskService) -> int:
        """Return how many appends are not over."""
        return sum(not one.startswith(COMPACT) for one in _live(service, self.mode.datasource))

    def compacting(self, live: set[str]) -> set[Interval]:
        """Return the chunks that live tasks compact."""
        return {
            chunk
            for task_id in live
            if task_id.startswith(COMPACT)
            for chunk in self.places[task_id]
        }


def _live(service: TaskService, datasource: str) -> set[str]:
    """Return the ids of the tasks that are not over."""
    from carnac.core.tasks.model import TaskState

    states = tuple(state for state in TaskState if not state.is_over)
    return {
        task.task_id
        for task in service.list(TaskFilter(states=states, datasource=datasource), limit=1000)
    }


def lane(chunk: Interval) -> str:
    """Return what a picture calls a chunk."""
    return format_ms(chunk.start_ms)[11:16]
