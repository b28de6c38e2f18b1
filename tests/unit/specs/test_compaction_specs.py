from __future__ import annotations

import pytest

from carnac.core.compaction.settings import DEFAULT_TARGET_BYTES, CompactionSettings
from carnac.errors import Invalid
from carnac.specs.compaction import CompactionSpec, load_compaction
from carnac.specs.compaction_reference import BLOCKS, render

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
        ({"type": "not", "field": {"type": "null", "column": "page"}}, "(NOT (`page` IS NULL))"),
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
        ({"transformSpec": {"filter": {"type": "selektor"}}}, "filter type 'selektor'"),
        ({"transformSpec": {"transforms": []}}, "transforms"),
        ({"skipOffsetFromLatest": "soon"}, "not an ISO 8601 period"),
        ({"slack": -1}, "slack"),
        (
            {"taskContext": {"retries": "many"}},
            "taskContext: 'retries' of a task's context is 'many'",
        ),
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


def test_text_that_is_no_object_is_refused() -> None:
    with pytest.raises(Invalid, match="object"):
        load_compaction("- a\n- b\n")


def test_raw_rows_stay_raw_if_rollup_is_false() -> None:
    spec = load_compaction(
        {**DRUID, "granularitySpec": {"segmentGranularity": "DAY", "rollup": False}}
    )
    assert spec.to_target().metrics is None


def test_every_field_is_on_the_page() -> None:
    page = render()
    for model, heading in BLOCKS:
        assert f"## {heading}\n" in page
        for name, info in model.model_fields.items():
            assert f"| `{info.serialization_alias or name}` |" in page
            assert info.description
    assert "CompactionSpec" not in page
    assert CompactionSpec.__doc__ is not None
