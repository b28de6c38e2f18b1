"""A datasource of which compaction leaves rows out: once, and never again, also when the condition's column is gone.

Only rewrites are Spark's; appends and deletions, which are not what this is about, are done in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from carnac.bootstrap.compaction import LocalCompaction, open_compaction, open_local_compaction
from carnac.bootstrap.store import open_store
from carnac.clock import RandomIds, SystemClock
from carnac.config import Settings
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import DeepStorage, RewriteJob
from carnac.spark.session import SparkHolder
from carnac.specs.load import load_spec
from carnac.store import Store
from tests.compactions import is_settled
from tests.support.pipeline import LocalPipeline
from tests.unit.store.events import hour, spec

ROUNDS_MAX = 20
KEEPS_PEOPLE = {
    "dataSource": "events",
    "granularitySpec": {"segmentGranularity": "day"},
    "dimensionsSpec": {"dimensions": [{"type": "long", "name": "id"}]},
    "transformSpec": {"filter": "agent <> 'bot'"},
    "slack": 0,
    "allowLossy": True,
}
NOT_THREE_HOPS = {"type": "not", "field": {"type": "equals", "column": "hops", "matchValue": 3}}
PEOPLE_AND_BOTS = ((1, "ann"), (2, "bot"), (3, None), (4, "bob"))


class RewritesOnSpark(LocalPipeline):
    """A pipeline whose rewrites are Spark's."""

    def __init__(self, storage: DeepStorage, spark: SparkHolder) -> None:
        super().__init__(storage, clock=SystemClock(), ids=RandomIds())
        self._spark = SparkPipeline(
            output_url=storage.url,
            clock=SystemClock(),
            ids=RandomIds(),
            spark=SparkHolder(spark.settings),
        )

    def run_rewrites(self, jobs: Sequence[RewriteJob], **more: Any) -> None:
        self._spark.run_rewrites(jobs, **more)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=str(tmp_path / "store"))


@pytest.fixture
def store(settings: Settings, spark_holder: SparkHolder) -> Iterator[Store]:
    spark_holder.session()  # whoever closes the store must not stop the Spark of the run
    with open_store(
        create=True,
        settings=settings,
        pipeline=lambda storage: RewritesOnSpark(storage, spark_holder),
    ) as store:
        yield store


@pytest.fixture
def compaction(store: Store, settings: Settings) -> Iterator[LocalCompaction]:
    opened = open_local_compaction(store, settings=settings)
    yield opened
    opened.close()


def append(store: Store, *rows: tuple[int, str | None]) -> None:
    store.ingest(spec(), [{"id": one, "t": hour(one % 24), "agent": agent} for one, agent in rows])


def ids(store: Store) -> list[int]:
    return sorted(int(str(row["id"])) for row in store.sql("SELECT id FROM events").rows())


def settle(compaction: LocalCompaction) -> int:
    """Let compaction do what there is to do; return how many chunks were analysed."""
    analysed = 0
    for _ in range(ROUNDS_MAX):
        report = compaction.controller.run_round()
        assert all(one.error is None for end in report.ended for one in end.groups), report.ended
        analysed += report.analysed
        compaction.runner.wait()
        if not report.ended and is_settled(compaction.controller):
            return analysed
    raise AssertionError("compaction does not come to rest")


def test_rows_are_left_out_once_and_their_chunk_is_stable(
    store: Store, compaction: LocalCompaction, settings: Settings
) -> None:
    append(store, *PEOPLE_AND_BOTS[:2])
    append(store, *PEOPLE_AND_BOTS[2:])
    with open_compaction(settings=settings) as service:
        service.put_spec(KEEPS_PEOPLE)
        (reason,) = [one.reason for one in service.plan("events").explain()]
        assert "2 of 2 segments not as asked for" in reason
        settle(compaction)
        assert ids(store) == [1, 4], "a condition that is not true leaves the row out"
        head = store.head().revision
        assert settle(compaction) == 0
        assert not service.plan("events").tasks, "CP-1"
        append(store, (5, "cem"), (6, "bot"))
        settle(compaction)
        assert ids(store) == [1, 4, 5], "what had passed before is not asked for its agent again"
        store.delete("events", where="id = 4")
        left = store.head().revision
        settle(compaction)
        assert (ids(store), store.head().revision) == ([1, 5], left), "what is left has passed"
        assert left == head + 3
        assert not service.plan("events").tasks
    assert list(store.verify()) == []


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("agent <> 'bot' AND coalesce(`from where`, 'nobody') = 'nobody' AND hops IS NULL", [1, 4]),
        ({"type": "or", "fields": [NOT_THREE_HOPS, {"type": "null", "column": "agent"}]}, [3]),
        ({"type": "null", "column": "hops"}, [1, 2, 3, 4]),
        ("hops > 3 OR id = 2", [2]),
    ],
)
def test_a_column_that_no_segment_has_is_null(
    store: Store,
    compaction: LocalCompaction,
    settings: Settings,
    condition: object,
    left: list[int],
) -> None:
    append(store, *PEOPLE_AND_BOTS[:2])
    append(store, *PEOPLE_AND_BOTS[2:])
    with open_compaction(settings=settings) as service:
        service.put_spec({**KEEPS_PEOPLE, "transformSpec": {"filter": condition}})
        settle(compaction)
        assert not service.plan("events").tasks
    assert ids(store) == left
    assert list(store.verify()) == []


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ({"type": "selector", "dimension": "tags", "value": "q"}, [1, 3]),
        ({"type": "not", "field": {"type": "in", "dimension": "tags", "values": ["q"]}}, [2]),
        ({"type": "selector", "dimension": "speed", "value": "10"}, [2]),
        ({"type": "bound", "dimension": "speed", "lower": "9", "ordering": "numeric"}, [2, 3]),
    ],
)
def test_a_filter_of_druid_knows_the_types_of_columns(
    store: Store,
    compaction: LocalCompaction,
    settings: Settings,
    condition: object,
    left: list[int],
) -> None:
    columns = {
        "id": pa.array([1, 2, 3]),
        "t": pa.array([hour(1), hour(2), hour(3)]),
        "tags": pa.array([["p", "q"], ["p"], ["q"]]),
        "speed": pa.array([1.0, 10.0, 11.5]),
    }
    there = load_spec(
        {
            "dataSource": "events",
            "timestampSpec": {"column": "t", "format": "millis"},
            "dimensionsSpec": [
                {"name": "id", "type": "long"},
                {"name": "tags", "type": "array<string>"},
                {"name": "speed", "type": "double"},
            ],
            "granularitySpec": {"segmentGranularity": "day"},
        },
        has_rows=True,
    )
    store.ingest(there, pa.table(columns))
    with open_compaction(settings=settings) as service:
        service.put_spec({**KEEPS_PEOPLE, "transformSpec": {"filter": condition}})
        settle(compaction)
        assert not service.plan("events").tasks
    assert ids(store) == left


def test_a_rewrite_without_a_condition_keeps_what_its_inputs_have_passed(
    store: Store, compaction: LocalCompaction, settings: Settings
) -> None:
    append(store, *PEOPLE_AND_BOTS)
    with open_compaction(settings=settings) as service:
        service.put_spec(KEEPS_PEOPLE)
        settle(compaction)
        report = store.compact_interval("events", target=CompactionTarget())
        assert report.bytes_out
        assert not service.plan("events").tasks
    assert ids(store) == [1, 4]
