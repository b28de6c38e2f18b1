"""The native form: short and long spellings, defaults that depend on other fields, round trips."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from carnac.core.time.granularity import DAY, HOUR, MONTH, parse_granularity
from carnac.core.time.intervals import Interval, parse_interval
from carnac.specs import IngestSpec, load_spec
from carnac.specs.ingest.inputs import (
    CsvFormat,
    FilesInput,
    FrameInput,
    InlineInput,
    JsonFormat,
    TsvFormat,
    infer_compression,
    infer_format,
)
from carnac.specs.ingest.layout import (
    DynamicPartitions,
    GranularitySpec,
    HashedPartitions,
    RangePartitions,
)
from carnac.specs.ingest.schema import DimensionSpec, DimensionsSpec, MetricSpec, TimestampSpec

MINIMAL = {"dataSource": "w", "input": "w.json"}


def spec_with(**fields: object) -> IngestSpec:
    return load_spec({**MINIMAL, **fields})


def test_a_name_and_a_path_are_enough() -> None:
    spec = load_spec(MINIMAL)
    assert spec.datasource == "w"
    assert spec.mode == "append"
    assert spec.input == FilesInput(paths=("w.json",))
    assert spec.timestamp == TimestampSpec(column="timestamp", format="auto", time_zone="UTC")
    assert spec.dimensions.discovers
    assert spec.granularity.segment_granularity == DAY
    assert spec.rollup == "none"
    assert isinstance(spec.partitions, DynamicPartitions)
    assert spec.partitions.rows_per_segment == 5_000_000


def test_python_names_json_names_and_druid_names_mean_the_same() -> None:
    long = spec_with(
        timestampSpec={"column": "t", "timeZone": "Europe/Paris"},
        dimensionsSpec={"dimensions": ["a"], "dimensionExclusions": ["b"]},
        metricsSpec=[{"type": "longSum", "name": "m", "fieldName": "x"}],
        granularitySpec={"segmentGranularity": "hour"},
        partitionsSpec={"type": "hashed", "partitionDimensions": ["a"]},
        tuningConfig={"maxParseExceptions": 3},
    )
    short = spec_with(
        timestamp={"column": "t", "time_zone": "Europe/Paris"},
        dimensions={"dimensions": ["a"], "exclusions": ["b"]},
        metrics=[{"type": "longSum", "name": "m", "input": "x"}],
        granularity={"segment_granularity": "PT1H"},
        partitions={"type": "hashed", "dimensions": "a"},
        tuning={"max_parse_exceptions": 3},
    )
    assert long == short
    assert long.fingerprint() == short.fingerprint()


def test_yaml_json_and_objects_mean_the_same() -> None:
    text = """
    dataSource: flights
    mode: replace
    intervals: [2013-01-01/2013-02-01]
    input: [a.csv, b.csv]
    timestampSpec: {column: time_hour}
    dimensions: [carrier, {name: distance, type: long}]
    metrics:
      - {type: count, name: flights}
    granularitySpec: {segmentGranularity: month, queryGranularity: hour}
    """
    from_yaml = load_spec(text)
    built = IngestSpec(
        datasource="flights",
        mode="replace",
        input=FilesInput(paths=("a.csv", "b.csv")),
        timestamp=TimestampSpec(column="time_hour"),
        dimensions=DimensionsSpec(
            dimensions=(DimensionSpec(name="carrier"), DimensionSpec(name="distance", type="long"))
        ),
        metrics=(MetricSpec(name="flights", type="count"),),
        granularity=GranularitySpec(
            segment_granularity=MONTH,
            query_granularity=HOUR,
            intervals=(parse_interval("2013-01-01/2013-02-01"),),
        ),
    )
    assert from_yaml == built
    assert load_spec(built.to_json()) == built
    assert load_spec(json.loads(built.to_json())) == built
    assert load_spec(built) is built


def test_specs_are_frozen() -> None:
    spec = load_spec(MINIMAL)
    with pytest.raises(ValidationError, match="frozen"):
        spec.datasource = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "scope"),
    [
        ({"mode": "replace"}, "chunks"),
        ({"mode": "replace", "intervals": ["2013/2014"]}, "intervals"),
        ({"mode": "replace", "intervals": ["2013/2014"], "replaceScope": "chunks"}, "chunks"),
        ({"mode": "append", "intervals": ["2013/2014"]}, None),
    ],
)
def test_replace_takes_whole_intervals_if_they_are_named(
    fields: dict[str, object], scope: object
) -> None:
    assert spec_with(**fields).replace_scope == scope


def test_intervals_are_a_set_in_normal_form() -> None:
    spec = spec_with(intervals=["2014/2015", "2013/2014"])
    assert list(spec.intervals) == [parse_interval("2013/2015")]
    assert not load_spec(MINIMAL).intervals


@pytest.mark.parametrize(
    ("fields", "rollup"),
    [
        ({}, "none"),
        ({"metrics": [{"type": "count", "name": "n"}]}, "best_effort"),
        (
            {"metrics": [{"type": "count", "name": "n"}], "granularitySpec": {"rollup": False}},
            "none",
        ),
        ({"granularitySpec": {"rollup": True}}, "best_effort"),
        (
            {"granularitySpec": {"rollup": True}, "tuningConfig": {"forceGuaranteedRollup": True}},
            "perfect",
        ),
        ({"granularitySpec": {"rollup": True}, "partitionsSpec": "hashed"}, "perfect"),
    ],
)
def test_rollup_follows_metrics_and_partitions(fields: dict[str, object], rollup: str) -> None:
    assert spec_with(**fields).rollup == rollup


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a/*.json", FilesInput(paths=("a/*.json",))),
        (["s3://b/x", "y"], FilesInput(paths=("s3://b/x", "y"))),
        ({"paths": "d", "filter": "*.gz"}, FilesInput(paths=("d",), filter="*.gz")),
        ({"paths": "d", "format": "jsonl"}, FilesInput(paths=("d",), format=JsonFormat())),
        ({"data": "{}"}, InlineInput(data="{}")),
        (
            {"type": "inline", "data": "a", "format": {"type": "csv"}},
            InlineInput(data="a", format=CsvFormat(header=True)),
        ),
        ({"frame": "arrow"}, FrameInput(frame="arrow")),
        ({"type": "frame", "frame": "dataframe"}, FrameInput(frame="dataframe")),
    ],
)
def test_sources_are_recognised_by_what_they_hold(given: object, expected: object) -> None:
    assert spec_with(input=given).input == expected


def test_csv_has_a_header_unless_it_names_its_columns() -> None:
    assert CsvFormat.model_validate({"type": "csv"}).header
    named = CsvFormat.model_validate({"type": "csv", "columns": ["a"], "nullValues": ["NA"]})
    assert not named.header
    assert named.null_values == ("NA",)
    piped = spec_with(input={"paths": "x", "inputFormat": {"type": "delimited", "delimiter": "|"}})
    assert isinstance(piped.input, FilesInput)
    assert piped.input.format == TsvFormat(delimiter="|", header=True)


@pytest.mark.parametrize(
    ("name", "kind", "compression"),
    [
        ("a.json", "json", None),
        ("dir/A.JSONL.GZ", "json", "gzip"),
        ("a.ndjson.zst", "json", "zstd"),
        ("s3://b/a.csv.gz", "csv", "gzip"),
        ("a.tsv", "tsv", None),
        ("a.parquet", "parquet", None),
        ("a.orc", "orc", None),
        ("a.txt", None, None),
    ],
)
def test_file_names_tell_format_and_compression(
    name: str, kind: str | None, compression: str | None
) -> None:
    found = infer_format(name)
    assert (found.type if found else None) == kind
    assert infer_compression(name) == compression


def test_metrics_know_their_kind_and_type() -> None:
    spec = spec_with(
        metrics=[
            {"type": "count", "name": "n"},
            {"type": "floatMax", "name": "top", "fieldName": "v"},
            {"type": "stringLast", "name": "s"},
            {"type": "HLLSketchMerge", "name": "h", "fieldName": "hs", "lgK": 14},
            {"type": "thetaSketch", "name": "t", "fieldName": "u", "isInputThetaSketch": True},
            {"type": "quantilesDoublesSketch", "name": "q", "fieldName": "v", "k": 256},
        ]
    )
    described = [(m.kind, m.value_type, m.input, m.input_is_state) for m in spec.metrics]
    assert described == [
        ("count", "long", None, False),
        ("max", "float", "v", False),
        ("last", "string", "s", False),
        ("hll", "hll", "hs", True),
        ("theta", "theta", "u", True),
        ("quantiles", "quantiles", "v", False),
    ]


def test_dimension_types_in_druids_spellings() -> None:
    spec = spec_with(
        dimensions=[
            {"name": "a", "type": "STRING", "multiValueHandling": "SORTED_SET"},
            {"name": "b", "type": "ARRAY<LONG>"},
            {"name": "c", "type": "auto", "castToType": "ARRAY<STRING>"},
            {"name": "d", "type": "COMPLEX<json>"},
            {"name": "e", "type": "auto"},
        ]
    )
    assert [d.type for d in spec.dimensions.dimensions] == [
        "string",
        "array<long>",
        "array<string>",
        "json",
        "auto",
    ]
    assert spec.dimensions.dimensions[0].multi_value_handling == "sorted_set"


def test_discovery() -> None:
    assert spec_with(dimensions=[]).dimensions.discovers
    assert not spec_with(dimensions=["a"]).dimensions.discovers
    for name in ("useSchemaDiscovery", "includeAllDimensions"):
        assert spec_with(dimensions={"dimensions": ["a"], name: True}).dimensions.discovers


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("MICROS", "micro"),
        ("nanos", "nano"),
        ("ISO", "iso"),
        ("ruby", "ruby"),
        ("yyyy/MM/dd", "yyyy/MM/dd"),
    ],
)
def test_timestamp_formats(text: str, normal: str) -> None:
    timestamp = spec_with(timestampSpec={"format": text}).timestamp
    assert timestamp.format == normal


def test_granularities_with_zone_and_origin_survive_the_round_trip() -> None:
    block = {"type": "period", "period": "P1D", "timeZone": "Europe/Paris"}
    spec = spec_with(granularitySpec={"segmentGranularity": block, "queryGranularity": "PT15M"})
    assert spec.granularity.segment_granularity == parse_granularity(block)
    assert load_spec(spec.to_json()) == spec


def test_range_partitions_and_the_sort_order() -> None:
    spec = spec_with(
        dimensions=["a", "b"],
        partitionsSpec={"type": "single_dim", "partitionDimension": "a", "maxRowsPerSegment": 10},
        tuningConfig={"sortBy": ["b", "__time"]},
    )
    assert spec.partitions == RangePartitions(dimensions=("a",), max_rows_per_segment=10)
    assert (spec.partitions.rows_per_segment, spec.partitions.most_rows_per_segment) == (6, 10)
    assert spec.sort_columns == ("b", "__time")
    assert spec_with(dimensions=["a", "b"]).sort_columns == ("__time", "a", "b")
    assert HashedPartitions(num_shards=3).rows_per_segment == 5_000_000


def test_any_number_of_bad_rows_in_druids_spellings() -> None:
    for value in (-1, 2_147_483_647, None):
        assert (
            spec_with(tuningConfig={"maxParseExceptions": value}).tuning.max_parse_exceptions
            is None
        )
    assert spec_with(tuningConfig={"maxParseExceptions": 0}).tuning.max_parse_exceptions == 0


def test_the_fingerprint_is_of_what_is_done_not_of_who_asks() -> None:
    plain = load_spec(MINIMAL)
    keyed = spec_with(writer="nightly", batch="2013-01-01", context={"priority": 50})
    assert keyed.fingerprint() == plain.fingerprint()
    assert keyed != plain
    assert spec_with(mode="replace").fingerprint() != plain.fingerprint()
    assert len(plain.fingerprint()) == 64


def test_rows_outside_of_intervals_are_for_append_too() -> None:
    spec = spec_with(intervals="2013-01-01/2013-02-01")
    january = parse_interval("2013-01-01/2013-02-01")
    assert spec.granularity.intervals == (Interval(january.start_ms, january.end_ms),)
