"""Specs of tasks: what is read, Druid's as they are, and what is wrong with one, all in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from carnac.core.compaction.plan.groups import CompactionTarget, Partitioning
from carnac.core.time.intervals import parse_interval
from carnac.errors import Invalid
from carnac.specs.tasks.spec import CompactTask, DeleteTask, IngestTask, KillTask, load_task

MONTH = "2015-09-01/2015-10-01"
DRUID_COMPACT: dict[str, Any] = {
    "type": "compact",
    "id": "mine",
    "dataSource": "wikipedia",
    "ioConfig": {
        "type": "compact",
        "inputSpec": {"type": "interval", "interval": MONTH},
        "dropExisting": False,
    },
    "granularitySpec": {"segmentGranularity": "DAY", "queryGranularity": None, "rollup": None},
    "tuningConfig": {
        "type": "index_parallel",
        "maxRowsInMemory": 10,
        "partitionsSpec": {
            "type": "range",
            "partitionDimensions": ["page"],
            "targetRowsPerSegment": 1000,
        },
    },
    "context": {"priority": 30},
}

GROUP = {"id": "g", "dataSource": "wikipedia", "kind": "major", "interval": [0, 86_400_000]}


def compact(**more: Any) -> CompactTask:
    task = load_task({"type": "compact", "dataSource": "wikipedia", **more})
    assert isinstance(task, CompactTask)
    return task


class TestCompact:
    def test_druids_task_as_it_is(self) -> None:
        task = load_task(DRUID_COMPACT)
        assert isinstance(task, CompactTask)
        assert (task.task_id, task.datasource) == ("mine", "wikipedia")
        assert task.interval == parse_interval(MONTH)
        assert task.context == {"priority": 30}
        assert task.compaction_target() == CompactionTarget(
            target_rows=1000,
            partitioning=Partitioning(kind="range", dimensions=("page",)),
            segment_granularity="DAY",
        )
        assert {one.path for one in task.ignored} == {
            "ioConfig.dropExisting", "tuningConfig.maxRowsInMemory",
        }  # fmt: skip

    def test_the_older_fields_of_the_tutorials(self) -> None:
        task = compact(
            interval=MONTH, segmentGranularity="MONTH", tuningConfig={"maxRowsPerSegment": 500}
        )
        assert task.interval == parse_interval(MONTH)
        assert task.compaction_target() == CompactionTarget(
            target_rows=500, segment_granularity="MONTH"
        )

    def test_segments_in_either_place(self) -> None:
        inside = {"inputSpec": {"type": "segments", "segments": ["a", "b"]}}
        assert compact(ioConfig=inside).segments == ("a", "b")
        assert compact(segments=["a", "b"]).segments == ("a", "b")

    def test_nothing_said_keeps_everything(self) -> None:
        task = compact()
        assert (task.interval, task.segments) == (None, None)
        assert task.compaction_target() == CompactionTarget()

    def test_who_names_metrics_wants_to_lose_detail(self) -> None:
        task = compact(
            granularitySpec={"queryGranularity": "HOUR", "rollup": True},
            dimensionsSpec={"dimensions": ["page", {"type": "long", "name": "user"}]},
            metricsSpec=[{"type": "longSum", "name": "added", "fieldName": "delta"}],
        )
        target = task.compaction_target()
        assert target.allow_lossy
        assert target.query_granularity == "HOUR"
        assert target.dimensions == ("page", "user")
        assert target.metrics is not None
        assert [(one.name, one.input, str(one.kind)) for one in target.metrics] == [
            ("added", "delta", "sum")
        ]

    @pytest.mark.parametrize(
        ("target", "said"),
        [
            ({"targetRows": 0}, "targetRows must be at least 1, not 0"),
            ({"targetBytes": -1}, "targetBytes must be at least 1"),
            ({"partitioning": {"type": "range"}}, "partitioning by range needs a dimension"),
            ({"partitioning": {"type": "hashed", "buckets": 0}}, "buckets must be at least 1"),
            (
                {"partitioning": {"buckets": 2}},
                "buckets are of hashed partitioning, not of dynamic",
            ),
            ({"segmentGranularity": "fortnight"}, "'fortnight' is not a granularity"),
            ({"segmentGranularity": "none"}, "a time chunk of every millisecond"),
            ({"segmentGranularity": "day", "queryGranularity": "month"}, "MONTH is coarser than"),
            ({"sortBy": ["page", "page"]}, "sortBy names page more than once"),
            ({"dimensions": ["page", "page"]}, "dimensions names page more than once"),
            ({"dimensions": ["__time"]}, "__time is no dimension; every row keeps it"),
            ({"filter": "n >"}, "it ends where a value should be"),
            ({"filter": " "}, "a filter is a condition about a row, or left out"),
            ({"filter": "{n > 1"}, "the filter is not valid JSON"),
        ],
        ids=str,
    )
    def test_a_target_that_no_rows_can_have_is_refused_before_it_runs(
        self, target: dict[str, object], said: str
    ) -> None:
        with pytest.raises(Invalid, match=said):
            compact(target=target)

    def test_a_filter_is_taken_as_in_the_compaction_spec(self) -> None:
        spec = compact(transformSpec={"filter": {"type": "null", "column": "page"}})
        target = spec.compaction_target()
        assert (target.filter, target.allow_lossy) == ('{"column":"page","type":"null"}', True)
        with pytest.raises(Invalid, match=r"transformSpec\.filter: there is no filter 'nul'"):
            compact(transformSpec={"filter": {"type": "nul", "column": "page"}})

    def test_what_would_change_the_rows_is_refused_with_everything_else_at_once(self) -> None:
        with pytest.raises(Invalid) as caught:
            compact(transformSpec={"transforms": [{"name": "a"}]}, bogus=1, metricSpec=[])
        assert "3 problems" in caught.value.message
        for part in ("transformSpec.transforms: are for ingestion", "bogus", "metricSpec"):
            assert part in caught.value.message

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ({"interval": MONTH, "groups": []}, "not several"),
            ({"segments": ["a"], "groups": []}, "not several"),
            ({"groups": [{"id": "g"}]}, "compaction group"),
            ({"groups": [GROUP, GROUP]}, "two compaction groups share an id"),
            ({"groups": [{**GROUP, "dataSource": "w"}]}, "group is about w, not wikipedia"),
            ({"target": {"rows": 1}}, "has no field rows"),
            ({"segmentGranularity": "fortnight"}, "segmentGranularity"),
            ({"ioConfig": {"inputSpec": {"type": "all"}}}, "use interval or segments"),
        ],
        ids=lambda one: str(one)[:30],
    )
    def test_mistakes(self, more: dict[str, Any], said: str) -> None:
        with pytest.raises(Invalid, match=said):
            compact(**more)


class TestIngest:
    def test_druids_task_keeps_its_id_context_and_dependencies(self) -> None:
        task = load_task(
            {
                "type": "index_parallel",
                "id": "mine",
                "groupId": "ours",
                "dependencies": ["other"],
                "context": {"priority": 7},
                "spec": {
                    "dataSchema": {"dataSource": "w", "granularitySpec": {"rollup": False}},
                    "ioConfig": {
                        "type": "index_parallel",
                        "inputSource": {"type": "inline", "data": "{}"},
                        "inputFormat": {"type": "json"},
                        "appendToExisting": True,
                    },
                    "tuningConfig": {"type": "index_parallel", "maxNumConcurrentSubTasks": 2},
                },
            }
        )
        assert isinstance(task, IngestTask)
        assert (task.task_id, task.group_id, task.dependencies) == ("mine", "ours", ("other",))
        assert (task.datasource, task.spec.mode) == ("w", "append")
        assert task.context == {"priority": 7}

    def test_our_own_spec(self) -> None:
        task = load_task({"type": "index_parallel", "spec": {"dataSource": "w", "input": "a.json"}})
        assert isinstance(task, IngestTask)
        assert task.spec.mode == "append"

    def test_a_replace_task_never_appends(self) -> None:
        with pytest.raises(Invalid, match="a replace task cannot append"):
            load_task({"type": "replace", "spec": {"dataSource": "w", "input": "a.json"}})
        task = load_task(
            {"type": "replace", "spec": {"dataSource": "w", "input": "a.json", "mode": "replace"}}
        )
        assert isinstance(task, IngestTask)

    def test_what_is_wrong_with_the_spec_is_said(self) -> None:
        with pytest.raises(Invalid, match="bad: unknown field"):
            load_task(
                {"type": "index_parallel", "spec": {"dataSource": "w", "input": "a", "bad": 1}}
            )


class TestOthers:
    def test_a_deletion_says_what(self) -> None:
        task = load_task({"type": "delete", "dataSource": "w", "where": "x > 1"})
        assert isinstance(task, DeleteTask)
        with pytest.raises(Invalid, match="say what to delete"):
            load_task({"type": "delete", "dataSource": "w"})

    def test_druids_kill(self) -> None:
        task = load_task({"type": "kill", "dataSource": "w", "interval": MONTH, "limit": 5})
        assert isinstance(task, KillTask)
        assert [one.path for one in task.ignored] == ["limit"]

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ({"type": "compakt", "dataSource": "w"}, "did you mean 'compact'"),
            ({"dataSource": "w"}, "type: is required"),
            ({"type": 7}, "task type '7' is not known"),
            ({"type": "noop"}, "there are no noop tasks here: .*carnac doctor"),
            ({"type": "archive", "dataSource": "w"}, "there are no archive tasks here: .*kill"),
            ({"type": "drop", "dataSource": "w"}, "there are no drop tasks here: .*carnac drop"),
            (
                {"type": "kafka", "spec": {}},
                "there are no kafka tasks here: a supervisor submits them",
            ),
            ({"type": "index_kafka"}, "post its spec to /druid/indexer/v1/supervisor"),
            ({"type": "index_kinesis"}, "Structured Streaming appends each batch once"),
            ({"type": "index_hadoop"}, "submit index_parallel"),
            ({"type": "clean"}, "dataSource"),
            ({"type": "clean", "dataSource": "w", "id": "a/b"}, "must not hold '/'"),
            ({"type": "clean", "dataSource": "w", "id": ".."}, "nor be '.' or '..'"),
            (
                {"type": "index", "spec": {"dataSource": "w", "input": "a.json"}, "context": [1]},
                "context: must be",
            ),
            ({"type": "kill", "dataSource": "w", "interval": "soon"}, "interval"),
        ],
        ids=str,
    )
    def test_mistakes(self, value: dict[str, Any], said: str) -> None:
        with pytest.raises(Invalid, match=said):
            load_task(value)

    def test_a_task_read_is_written_as_one_that_reads_the_same(self) -> None:
        for value in (
            DRUID_COMPACT,
            {"type": "delete", "dataSource": "w", "interval": MONTH, "where": "x"},
            {"type": "clean", "dataSource": "w"},
        ):
            task = load_task(value)
            again = {key: one for key, one in task.to_json_dict().items() if key != "ignored"}
            assert load_task(again).to_json_dict() == again
