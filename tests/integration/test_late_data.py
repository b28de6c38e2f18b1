"""Late appends into chunks that are being compacted, all of them tasks under locks: nobody waits, nobody loses.

The scenario of `benchmarks.late_data`, kept in order by the controller as a duty of the overlord. An append comes while
each group of a compaction is written and not yet published, so the two are always in each other's way.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carnac.bootstrap.tasks import run_task_attempt
from carnac.core.compaction.control.states import ChunkStatus
from carnac.core.tasks.model import TaskState
from carnac.ports.tasks import TaskFilter
from tests.appending import (
    ROWS_PER_SEGMENT,
    SURPLUS_MAX,
    Ledger,
    check_folding,
    hour_of,
    late_of,
    ledger_of,
)
from tests.unit.overlord.compactor.test_overlord import Cluster
from tests.unit.store.events import HOUR_MS, START_MS, fast_folder, read, spec
from tests.unit.store.test_jobs import InlinePipeline

pytestmark = pytest.mark.slow

CHUNKS, FIRST_APPENDS, LATE_APPENDS, LATE_ROWS = 6, 4, 30, 9
PERIOD_MS = 5_000
NAME = "events"


class LateData(Cluster):
    """A cluster, and the rows that were sent to it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rng = random.Random(2024)
        self.rows: list[tuple[int, int]] = []
        self.late: list[int] = []
        self.late_reported: list[int] = []
        self.ledger: Ledger = Counter()
        self.arrived: Counter[int] = Counter()
        self.left = LATE_APPENDS
        self.service.put_spec(
            {
                "dataSource": NAME,
                "granularitySpec": {"segmentGranularity": "hour"},
                "tuningConfig": {
                    "partitionsSpec": {"type": "dynamic", "maxRowsPerSegment": ROWS_PER_SEGMENT}
                },
            }
        )

    def append(self, times: list[int]) -> None:
        """Append rows by a task, which is done at once."""
        rows = [(len(self.rows) + place, at_ms) for place, at_ms in enumerate(times)]
        block: dict[str, Any] = spec(NAME, granularity="hour").to_json_dict()
        lines = "\n".join(json.dumps({"id": one, "t": at_ms}) for one, at_ms in rows)
        block["input"] = {"type": "inline", "data": lines, "inputFormat": {"type": "json"}}
        task = self.tasks.submit({"type": "index_parallel", "dataSource": NAME, "spec": block})
        assert task.task_id in self.loop.run_round()
        report: Any = run_task_attempt(
            task.task_id,
            1,
            settings=self.settings,
            clock=self.clock,
            pipeline=lambda root, _ids: InlinePipeline(root, clock=self.clock, ids=self.ids),
        )
        newest_ms = max((at_ms for _, at_ms in self.rows), default=None)
        self.late.append(0 if newest_ms is None else sum(at_ms < newest_ms for at_ms in times))
        self.late_reported.append(report["rowStats"]["late"])
        self.ledger += late_of(times, newest_ms)
        self.rows += rows

    def append_late(self) -> None:
        """Append late rows to three of the chunks, while there are any to come."""
        if self.left:
            self.left -= 1
            hours = self.rng.sample(range(CHUNKS), 3)
            times = [
                START_MS + hour * HOUR_MS + self.rng.randrange(HOUR_MS - 60_000)
                for hour in hours
                for _ in range(LATE_ROWS // 3)
            ]
            self.append(times)
            self.arrived.update({START_MS + hour * HOUR_MS for hour in hours})

    def check_counts(self) -> None:
        """Segments per chunk stay within ceil(rows / target) + 2, but for what came while a task was at work."""
        rows = Counter(hour_of(at_ms) for _, at_ms in self.rows)
        for chunk in self.store.chunks(NAME):
            allowed = -(-rows[chunk.interval] // ROWS_PER_SEGMENT) + SURPLUS_MAX
            assert chunk.entries - self.arrived[chunk.interval.start_ms] <= allowed, chunk


@pytest.fixture
def data() -> Iterator[LateData]:
    with fast_folder() as name:
        data = LateData(Path(name))
        yield data
        data.close()


def test_no_append_waits_no_compaction_is_lost_and_all_ends_in_order(data: LateData) -> None:
    for number in range(FIRST_APPENDS):
        data.append(
            [
                START_MS + hour * HOUR_MS + number * 60_000
                for hour in range(CHUNKS)
                for _ in range(9)
            ]
        )
    for _ in range(LATE_APPENDS + 10):
        data.rounds.run_round()
        data.arrived.clear()
        data.run_attempts(between=data.append_late)
        data.check_counts()
        data.clock.advance_ms(PERIOD_MS)
        data.append_late()
    states = data.metadata.compaction_states(NAME)
    assert [(state.status, state.failures) for state in states] == [(ChunkStatus.STABLE, 0)] * 6
    data.arrived.clear()
    data.check_counts()
    assert read(data.store) == Counter(data.rows)
    assert len(data.late) == FIRST_APPENDS + LATE_APPENDS
    assert data.late_reported == data.late
    assert ledger_of(data.store) == data.ledger, "the late ledger is that of the source"
    assert data.ledger.total() == sum(data.late) > 0
    check_folding(data.store)
    check_tasks(data)
    assert list(data.store.verify()) == []
    assert data.metadata.locks() == ()


def check_tasks(data: LateData) -> None:
    """Every task succeeded in its first attempt, and no group of a compaction was given up."""
    tasks = data.tasks.list(TaskFilter(), limit=1_000)
    assert {(task.state, task.attempts) for task in tasks} == {(TaskState.SUCCEEDED, 1)}
    reports = [data.tasks.report(task.task_id) for task in tasks if task.type == "compact"]
    outcomes: Counter[str] = Counter()
    for report in reports:
        counts: Any = (report or {}).get("groupCounts")
        outcomes.update(counts)
    assert outcomes["committed"] > LATE_APPENDS // 4
    assert outcomes.total() == outcomes["committed"]
