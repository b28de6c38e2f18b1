from __future__ import annotations

import pytest

from carnac.core.compaction.plan.groups import Partitioning
from carnac.core.compaction.plan.settings import DEFAULT_TARGET_BYTES, CompactionSettings
from carnac.errors import Invalid
from carnac.specs.compaction.spec import CompactionSpec, load_compaction
from scripts.docs.compaction_page import BLOCKS, render

DRUID = {
    "dataSource": "edits",
    "taskPriority": 30,
    "inputSegmentSizeBytes": 1000,
    "skipOffsetFromLatest": "P1D",
    "engine": "native",
    "ioConfig": {"dropExisting": True},
    "tuningConfig": {
        "type": "index_parallel",
        "maxNumConcurrentSubTasks": 4,
        "partitionsSpec": {
            "type": "range",
            "partitionDimensions": ["page"],
            "targetRowsPerSegment": 7,
        },
    },
    "granularitySpec": {"segmentGranularity": "DAY", "queryGranularity": "HOUR", "rollup": True},
    "metricsSpec": [{"type": "count", "name": "n"}],
    "dimensionsSpec": {"dimensions": ["page"]},
    "taskContext": {"a": 1},
    "allowLossy": True,
}


def test_nothing_said_is_the_default() -> None:
    settings = load_compaction('{"dataSource": "edits"}').to_settings()
    assert settings == CompactionSettings()
    assert settings.target.target_bytes == DEFAULT_TARGET_BYTES
    assert settings.skip_offset is None


def test_a_configuration_of_druid_is_read_as_it_is() -> None:
    spec = load_compaction(DRUID)
    settings, target = spec.to_settings(), spec.to_target()
    assert (spec.task_priority, spec.task_context) == (30, {"a": 1})
    assert settings.input_bytes_max == 1000
    assert str(settings.skip_offset) == "P1D"
    assert (target.segment_granularity, target.query_granularity) == ("DAY", "HOUR")
    assert (target.partitioning.kind, target.partitioning.dimensions) == ("range", ("page",))
    assert target.target_rows == 7
    assert target.dimensions == ("page",)
    assert target.metrics is not None
    assert [metric.name for metric in target.metrics] == ["n"]


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        ("page <> 'Main'", "page <> 'Main'"),
        (
            {"type": "not", "field": {"type": "null", "column": "page"}},
            '{"field":{"column":"page","type":"null"},"type":"not"}',
        ),
    ],
)
def test_rows_to_keep_are_a_condition_or_a_filter_of_druid(given: object, condition: str) -> None:
    spec = load_compaction(
        {"dataSource": "edits", "transformSpec": {"filter": given}, "allowLossy": True}
    )
    assert spec.to_target().filter == condition
    assert load_compaction(spec.to_json_dict()) == spec


def test_a_spec_survives_being_written_down() -> None:
    spec = load_compaction(
        {
            **DRUID,
            "ageRules": [{"olderThan": "P7D", "granularitySpec": {"segmentGranularity": "MONTH"}}],
        }
    )
    assert load_compaction(spec.to_json_dict()) == spec
    assert spec.to_settings() == load_compaction(spec.to_json_dict()).to_settings()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"allowLossy": False}, "queryGranularity and dimensionsSpec and metricsSpec may lose"),
        ({"transformSpec": {"filter": "n > 0"}, "allowLossy": False}, "transformSpec.filter may"),
        ({"transformSpec": {"filter": " "}}, "a filter is a condition"),
        ({"transformSpec": {"filter": {"type": "selektor"}}}, "there is no filter 'selektor'"),
        (
            {"transformSpec": {"transforms": [{"name": "a"}]}},
            r"transformSpec\.transforms: are for ingestion",
        ),
        ({"transformSpec": {"virtualColumns": [{"name": "a"}]}}, "condition in Spark SQL"),
        (
            {"transformSpec": {"filter": 3}},
            r"transformSpec\.filter: a filter is a condition .* not 3",
        ),
        ({"type": "reindexCascade", "ruleProvider": {}}, "ageRules"),
        ({"type": "catalog"}, "no catalog"),
        ({"engine": "spork"}, "engine: 'spork' is not known"),
        ({"ioConfig": "x"}, "ioConfig: must be an object"),
        ({"granularitySpec": {"segmentGranularity": "none"}}, "every millisecond"),
        (
            {"granularitySpec": {"segmentGranularity": "hour", "queryGranularity": "day"}},
            "coarser than segmentGranularity HOUR",
        ),
        ({"granularitySpec": {"queryGranularity": "all"}}, "needs a segmentGranularity"),
        ({"granularitySpec": {"intervals": ["2020/2021"]}}, r"intervals: is for ingestion"),
        ({"dimensionsSpec": {"dimensionExclusions": ["page"]}}, "list the dimensions that are"),
        ({"dimensionsSpec": {"useSchemaDiscovery": True}}, "list the dimensions that are kept"),
        (
            {"dimensionsSpec": ["user"]},
            "partitionDimensions names page, which the dimensions leave",
        ),
        ({"tuningConfig": {"sortBy": ["user"]}}, "sortBy names user, which the dimensions leave"),
        ({"tuningConfig": {"sortBy": ["n", "n"]}}, "sortBy names n more than once"),
        (
            {
                "tuningConfig": {
                    "partitionsSpec": {"type": "range", "partitionDimensions": ["__time"]}
                }
            },
            "not by __time",
        ),
        (
            {"metricsSpec": [{"type": "longSum", "name": "page", "fieldName": "a"}]},
            "page is both a dimension and a metric",
        ),
        (
            {"metricsSpec": [{"type": "count", "name": "n"}] * 2},
            "metrics names n more than once",
        ),
        ({"metricsSpec": [{"type": "hyperUnique", "name": "u"}]}, "use HLLSketchBuild"),
        ({"maxWriteAmplification": float("inf")}, "finite"),
        ({"tuningConfig": {"maxRowInMemory": 5}}, r"tuningConfig\.maxRowInMemory: unknown field"),
        ({"skipOffsetFromLatest": "soon"}, "not an ISO 8601 period"),
        ({"slack": -1}, "slack"),
        (
            {"taskContext": {"retries": "many"}},
            "taskContext: 'retries' of a task's context is 'many'",
        ),
        ({"taskContext": {"sparkConf": {"spark.task.cpus": 2}}}, "must be an object of texts"),
        ({"taskPriority": -(10**10)}, "taskPriority: must be greater than or equal to -1000000000"),
        ({"dataSource": "a/b"}, "must not hold '/'"),
        ({"unheard": 1}, "unheard"),
        ({"ageRules": [{"olderThan": "P7D"}]}, "segmentGranularity"),
        (
            {
                "ageRules": [
                    {"olderThan": period, "granularitySpec": {"segmentGranularity": "MONTH"}}
                    for period in ("P7D", "P1D")
                ]
            },
            "youngest to the oldest",
        ),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        load_compaction({**DRUID, **change})


def test_what_druids_api_writes_is_read_with_its_nulls_and_old_names() -> None:
    spec = load_compaction(
        {
            "type": "inline",
            "dataSource": "edits",
            "maxRowsPerSegment": 10,
            "tuningConfig": {"maxRetry": None, "maxTotalRows": -1, "partitionsSpec": None},
            "granularitySpec": {"type": "uniform", "queryGranularity": "NONE", "rollup": None},
            "dimensionsSpec": {"dimensions": [], "spatialDimensions": []},
            "metricsSpec": None,
            "transformSpec": {"filter": None, "transforms": []},
            "projections": None,
            "skipOffsetFromLatest": "P0D",
        }
    )
    assert spec.ignored == ()
    assert spec.skip_offset_from_latest is None
    target = spec.to_target()
    assert (target.target_rows, target.dimensions, target.allow_lossy) == (10, None, False)


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        (
            {"type": "single_dim", "partitionDimension": "a", "maxPartitionSize": 7},
            ("range", ("a",), None, 4),
        ),
        ({"type": "hashed", "maxRowsPerSegment": 7, "numShards": -1}, ("hashed", (), None, 7)),
        ({"type": "dynamic", "maxRowsPerSegment": -1}, ("dynamic", (), None, 5_000_000)),
    ],
)
def test_older_ways_to_say_partitions(
    partitions: dict[str, object], expected: tuple[object, ...]
) -> None:
    target = load_compaction(
        {"dataSource": "edits", "tuningConfig": {"partitionsSpec": partitions}}
    ).to_target()
    there = target.partitioning
    assert (there.kind, there.dimensions, there.buckets, target.target_rows) == expected


def test_old_fields_beside_partitions_say_hashed() -> None:
    tuning = {"numShards": 3, "partitionDimensions": ["a"], "forceGuaranteedRollup": True}
    spec = load_compaction({"dataSource": "edits", "tuningConfig": tuning})
    assert spec.to_target().partitioning == Partitioning(
        kind="hashed", dimensions=("a",), buckets=3
    )
    assert [one.path for one in spec.ignored] == ["tuningConfig.forceGuaranteedRollup"]


def test_the_spec_of_a_compaction_supervisor_is_the_one_inside() -> None:
    block = {"type": "autocompact", "spec": DRUID, "suspended": False}
    assert load_compaction(block) == load_compaction(DRUID)
    with pytest.raises(Invalid, match="suspended"):
        load_compaction({**block, "suspended": True})
    with pytest.raises(Invalid, match="compactionConfigs: is a list"):
        load_compaction({"compactionConfigs": [DRUID]})


def test_what_has_no_effect_is_told_once_with_its_reason() -> None:
    spec = load_compaction(
        {
            **DRUID,
            "dimensionsSpec": [{"name": "page", "type": "long"}],
            "metricsSpec": [
                {"type": "HLLSketchBuild", "name": "u", "fieldName": "a", "tgtHllType": "HLL_4"}
            ],
        }
    )
    assert [one.path for one in spec.ignored] == [
        "engine",
        "ioConfig.dropExisting",
        "metricsSpec[0].tgtHllType",
        "dimensionsSpec.dimensions[0].type",
        "tuningConfig.maxNumConcurrentSubTasks",
    ]
    assert load_compaction(spec.to_json_dict()).ignored == spec.ignored


def test_what_is_said_of_metrics_does_not_matter_where_rows_stay_raw() -> None:
    spec = load_compaction(
        {
            "dataSource": "edits",
            "granularitySpec": {"rollup": False, "queryGranularity": "none"},
            "metricsSpec": [{"type": "count", "name": "n"}],
        }
    )
    assert (spec.to_target().metrics, spec.allow_lossy) == (None, False)


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        (
            "page LIKE 'a%' AND NOT `from where` IS NULL OR lower(user) = 'x'",
            ("from where", "page", "user"),
        ),
        ("day BETWEEN DATE '2020-01-01' AND current_date", ()),
        ("exists(tags, x -> x = 'a')", ()),
        ({"type": "selector", "dimension": "page", "value": None}, ("page",)),
    ],
)
def test_the_columns_that_a_filter_names_are_known(
    condition: object, columns: tuple[str, ...]
) -> None:
    spec = load_compaction(
        {"dataSource": "edits", "transformSpec": {"filter": condition}, "allowLossy": True}
    )
    assert spec.filter_columns() == {spec.to_target().filter: columns}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n- b\n", "an object with fields, not a list"),
        ("", "an object with fields, not an empty text"),
        ('{"dataSource": "a", "dataSource": "b"}', "dataSource is given more than once; keep one"),
        ("dataSource: a\nslack: 1\nslack: 2\n", "slack is given more than once; keep one"),
    ],
)
def test_text_that_is_no_object_or_an_ambiguous_one_is_refused(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        load_compaction(text)


def test_raw_rows_stay_raw_if_rollup_is_false() -> None:
    spec = load_compaction(
        {**DRUID, "granularitySpec": {"segmentGranularity": "DAY", "rollup": False}}
    )
    assert spec.to_target().metrics is None


def test_the_example_on_the_page_is_a_spec() -> None:
    example = render().partition("```yaml\n")[2].partition("```")[0]
    spec = load_compaction(example)
    young, old = spec.to_settings().age_rules
    assert spec.to_target().metrics is None
    assert (young.target.query_granularity, old.target.query_granularity) == ("HOUR", "DAY")
    assert old.target.dimensions == ("page",)


def test_every_field_is_on_the_page() -> None:
    page = render()
    for model, heading in BLOCKS:
        assert f"## {heading}\n" in page
        for name, info in model.model_fields.items():
            assert f"| `{info.serialization_alias or name}` |" in page
            assert info.description
    assert "CompactionSpec" not in page
    assert CompactionSpec.__doc__ is not None
