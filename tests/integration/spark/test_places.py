"""The four rows of the segment locking proposal's table, as tasks on Spark; executors ask over HTTP.

After each job has written, and before its task publishes, a stranger appends to the same chunk: places that were kept
must not be his.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from carnac.bootstrap.store import open_records, open_store
from carnac.bootstrap.tasks import open_tasks, run_task_attempt
from carnac.clock import RandomIds, SystemClock
from carnac.config import Settings
from carnac.core.locks.events import ReleaseLocks
from carnac.core.locks.model import Lock, LockGranularity, LockType
from carnac.core.log.allocation import PendingSegment
from carnac.core.log.commits import Numbered, Reserved
from carnac.core.tasks.events import DispatchTasks
from carnac.core.time.intervals import parse_interval
from carnac.errors import Unavailable
from carnac.jobs.pipeline import SparkPipeline
from carnac.metadata.store import MetadataStore
from carnac.ports import DeepStorage, IdSource, JobResult
from carnac.spark.session import SparkHolder
from tests.locks import wants
from tests.logs import append, segment
from tests.tasks import candidacy

DAY = "2013-01-01/2013-01-02"
SEGMENT, CHUNK = {"taskLockType": "EXCLUSIVE"}, {"forceTimeChunkLock": True}
ROWS = 200


def records_of(settings: Settings) -> MetadataStore:
    return open_records(settings=settings, clock=SystemClock(), ids=RandomIds())


@dataclass
class Seen:
    """What there was between writing and publishing."""

    result: JobResult | None = None
    pending: Sequence[PendingSegment] = ()
    locks: Sequence[Lock] = ()


@dataclass
class World:
    """A store, and how to run a task on it."""

    settings: Settings
    holder: SparkHolder
    seen: Seen = field(default_factory=Seen)
    between: Callable[[Any], None] = lambda _: None

    def make_pipeline(self, root: DeepStorage, ids: IdSource) -> SparkPipeline:
        world = self
        self.holder.session()  # whoever closes the store must not stop the Spark of the run
        borrowed = SparkHolder(self.holder.settings)

        class Watched(SparkPipeline):
            def run_ingest(self, *args: Any, **options: Any) -> JobResult:
                result = super().run_ingest(*args, **options)
                records = records_of(world.settings)
                world.seen = Seen(result, records.pending_segments(), records.locks())
                world.between(records)
                records.close()
                return result

        return Watched(output_url=root.url, clock=SystemClock(), ids=ids, spark=borrowed)

    def run(self, context: Mapping[str, object], **spec: object) -> None:
        """Submit a task and run its one attempt here."""
        block = {
            "datasource": "events",
            "timestamp": {"column": "t"},
            "dimensions": ["d"],
            "granularity": {"segmentGranularity": "day"},
            **spec,
        }
        with open_tasks(settings=self.settings, runners={}) as service:
            task = service.submit({"type": "index_parallel", "spec": block, "context": context})
        records = records_of(self.settings)
        fence = records.lead(candidacy()).fence
        records.change_tasks(
            DispatchTasks(fence=fence, capacity=9, lease_ms=60_000, runner="in_process")
        )
        run_task_attempt(task.task_id, 1, settings=self.settings, pipeline=self.make_pipeline)
        assert records.pending_segments() == (), "what was not used ended with the attempt"
        assert records.locks() == ()
        assert records.check() == ()
        records.close()

    def spots(self) -> dict[str, tuple[str, int, int]]:
        """By segment: chunk, major version and partition id."""
        records = records_of(self.settings)
        found = [item.entry for item in records.visible("events")]
        records.close()
        return {e.segment_id: (str(e.chunk), e.version.major_ms, e.partition_id) for e in found}

    def rows(self) -> int:
        records = records_of(self.settings)
        found = sum(item.segment.input_rows for item in records.visible("events"))
        records.close()
        return found


@pytest.fixture
def world(tmp_path: Path, spark_holder: SparkHolder) -> World:
    settings = Settings(store=str(tmp_path / "store"), spark_master="local[2]")
    open_store(settings=settings, create=True).close()
    return World(settings, spark_holder)


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, object]:
    """Two days of rows in several files, so that several merges write one chunk."""
    folder = tmp_path / "input"
    folder.mkdir()
    for number in range(4):
        lines = [
            json.dumps({"t": f"2013-01-{1 + n % 2:02d}T{n % 24:02d}:00:00Z", "d": f"{number}-{n}"})
            for n in range(ROWS // 4)
        ]
        (folder / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")
    return {
        "input": {"type": "files", "paths": [str(folder)]},
        "metrics": [{"name": "n", "type": "count"}],
    }


def dynamic(rows_in_segment: int) -> dict[str, object]:
    return {"type": "dynamic", "maxRowsPerSegment": rows_in_segment}


def stranger(records: Any) -> None:
    append(records, segment("stranger", DAY))


def took(world: World) -> dict[str, tuple[str, int, int]]:
    """By segment: the place that it was to have."""
    assert world.seen.result is not None
    pending = {one.pending_id: one for one in world.seen.pending}
    found = {}
    for place in world.seen.result.places:
        assert isinstance(place, Reserved)
        one = pending[place.pending_id]
        found[place.segment_id] = (str(one.chunk), one.major_ms, one.partition_id)
    return found


@pytest.mark.spark
class TestSegmentLock:
    def test_best_effort_asks_while_it_writes(self, world: World, rows: dict[str, object]) -> None:
        world.run(SEGMENT, **rows, partitions=dynamic(20))
        assert world.rows() == ROWS
        first = world.spots()
        world.between = stranger
        world.run(SEGMENT, **rows, partitions=dynamic(20))
        places = took(world)
        assert len(places) == len(world.seen.pending) >= 10
        assert len({one.sequence for one in world.seen.pending}) > 2, "each merge has a sequence"
        assert {lock.granularity for lock in world.seen.locks} == {LockGranularity.SEGMENT}
        assert {lock.interval for lock in world.seen.locks} == {
            parse_interval(DAY),
            parse_interval("2013-01-02/2013-01-03"),
        }
        spots = world.spots()
        assert {name: spots[name] for name in places} == places
        numbers = [spot[2] for name, spot in first.items() if spot[0].startswith("2013-01-01")]
        mine = [spot[2] for spot in places.values() if spot[0].startswith("2013-01-01")]
        assert sorted(numbers) + sorted(mine) == list(range(len(numbers) + len(mine)))
        assert spots["stranger"][2] == len(numbers) + len(mine), "the next one after all of them"

    def test_perfect_asks_for_all_before(self, world: World, rows: dict[str, object]) -> None:
        append(records_of(world.settings), segment("old", DAY))
        world.between = stranger
        hashed = {"type": "hashed", "numShards": 3}
        world.run(SEGMENT, **rows, partitions=hashed)
        assert len(world.seen.pending) == 6
        assert len({one.created_at_ms for one in world.seen.pending}) == 1, "in one transaction"
        places, spots = took(world), world.spots()
        assert len(places) == 6
        assert {name: spots[name] for name in places} == places
        assert {spot[2] for spot in spots.values() if spot[0].startswith("2013-01-01")} == {
            0, 1, 2, 3, 4,
        }  # fmt: skip

    def test_a_late_row_for_a_compacted_month(self, world: World, rows: dict[str, object]) -> None:
        month = "2013-01-01/2013-02-01"
        records = records_of(world.settings)
        append(records, segment("m", month, chunk=month), granularity="month")
        records.close()
        world.run(SEGMENT, **rows, partitions=dynamic(20))
        spots = world.spots()
        assert {spot[0] for spot in spots.values()} == {str(parse_interval(month))}
        assert {name: spots[name] for name in took(world)} == took(world)

    def test_a_chunk_that_is_taken_over_meanwhile(
        self, world: World, rows: dict[str, object]
    ) -> None:
        world.run(SEGMENT, **rows, partitions=dynamic(20))

        def compact_into_a_month(records: Any) -> None:
            from tests.logs import replacement

            month = "2013-01-01/2013-02-01"
            records.publish(replacement(records, month, segment("m", month, chunk=month)))

        world.between = compact_into_a_month
        world.run(SEGMENT, **rows, partitions=dynamic(20))
        spots = world.spots()
        assert {spot[0] for spot in spots.values()} == {
            str(parse_interval("2013-01-01/2013-02-01"))
        }
        assert {spot[2] for spot in spots.values()} == set(range(len(spots)))
        assert len(spots) == 1 + len(took(world))


@pytest.mark.spark
class TestTimeChunkLock:
    @pytest.mark.parametrize("partitions", [dynamic(20), {"type": "hashed", "numShards": 3}])
    def test_the_task_numbers_its_own(
        self, world: World, rows: dict[str, object], partitions: dict[str, object]
    ) -> None:
        records = records_of(world.settings)
        append(records, segment("a", DAY), segment("b", DAY))
        records.close()
        world.run(CHUNK, **rows, partitions=partitions)
        assert world.seen.result is not None
        assert world.seen.pending == ()
        (lock,) = world.seen.locks
        assert (lock.type, lock.granularity) == (LockType.EXCLUSIVE, LockGranularity.TIME_CHUNK)
        assert str(lock.interval) == str(parse_interval("2013-01-01/2013-01-03")), "while it writes"
        spots = world.spots()
        for place in world.seen.result.places:
            assert isinstance(place, Numbered)
            assert spots[place.segment_id][2] == place.partition_id
        assert len(world.seen.result.places) == len(spots) - 2
        numbers = [spot[2] for spot in spots.values() if spot[0].startswith("2013-01-01")]
        assert len(set(numbers)) == len(numbers)
        assert min(number for number in numbers if number > 1) == 2

    @pytest.mark.parametrize("context", [CHUNK, {"taskLockType": "SHARED"}], ids=str)
    def test_nothing_is_written_before_the_lock_is_held(
        self, world: World, rows: dict[str, object], context: dict[str, object]
    ) -> None:
        records = records_of(world.settings)
        alone = replace(wants("alone", parse_interval(DAY), priority=90), lease_ms=3_600_000)
        records.change_locks(alone)
        with pytest.raises(Unavailable, match=r"waited 100 ms .* in vain"):
            world.run({**context, "taskLockTimeout": 100, "retries": 0}, **rows)
        assert world.seen.result is None
        records.change_locks(ReleaseLocks(task_id="alone"))
        world.run(context, **rows)
        assert world.rows() == ROWS
        assert [lock.type for lock in world.seen.locks] == [
            LockType[str(context.get("taskLockType", "EXCLUSIVE"))]
        ]
        records.close()

    def test_the_default_takes_its_lock_when_it_publishes(
        self, world: World, rows: dict[str, object]
    ) -> None:
        world.run({}, **rows)
        assert world.rows() == ROWS
        assert world.seen.locks == ()

    def test_a_replacement_begins_at_zero(self, world: World, rows: dict[str, object]) -> None:
        append(records_of(world.settings), segment("a", DAY))
        world.run({}, **rows, partitions=dynamic(1000), mode="replace")
        spots = world.spots()
        assert sorted(spot[2] for spot in spots.values()) == [0, 0]
