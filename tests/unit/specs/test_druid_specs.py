"""Druid's index_parallel specs: what each part becomes, what is ignored, what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from carnac.core.time.granularity import DAY, MONTH, NONE
from carnac.core.time.intervals import parse_interval
from carnac.errors import Invalid
from carnac.specs import IngestSpec, load_spec
from carnac.specs.ingest.inputs import CsvFormat, FilesInput, FlattenField, InlineInput, JsonFormat
from carnac.specs.ingest.layout import DynamicPartitions, HashedPartitions, RangePartitions


def task(**changes: Any) -> dict[str, Any]:
    """Return a whole task; `changes` go into the part that has such a field's name as a prefix.

    `task(ioConfig={"appendToExisting": True})` merges into that part.
    """
    parts: dict[str, Any] = {
        "dataSchema": {
            "dataSource": "w",
            "timestampSpec": {"column": "time", "format": "iso"},
            "dimensionsSpec": {"dimensions": ["page", {"type": "long", "name": "added"}]},
            "metricsSpec": [{"type": "count", "name": "count"}],
            "granularitySpec": {"segmentGranularity": "day", "queryGranularity": "none"},
        },
        "ioConfig": {
            "type": "index_parallel",
            "inputSource": {"type": "local", "baseDir": "quickstart", "filter": "w*.json.gz"},
            "inputFormat": {"type": "json"},
        },
        "tuningConfig": {"type": "index_parallel"},
    }
    for part, fields in changes.items():
        parts[part] = {**parts[part], **fields}
    return {"type": "index_parallel", "spec": parts}


def message_of(value: dict[str, Any]) -> str:
    with pytest.raises(Invalid) as caught:
        load_spec(value)
    return caught.value.message


def test_the_envelope_may_be_left_out() -> None:
    whole = task()
    bare = load_spec(whole["spec"])
    assert bare == load_spec(whole)
    assert load_spec({**whole, "type": "index"}) == bare
    assert load_spec({**whole["spec"], "type": "index"}) == bare


def test_a_whole_task() -> None:
    spec = load_spec({**task(), "context": {"priority": 60}, "id": "mine"})
    assert spec.datasource == "w"
    assert spec.mode == "replace"
    assert spec.replace_scope == "chunks"
    assert spec.timestamp.column == "time"
    assert spec.dimensions.names == ("page", "added")
    assert spec.granularity.segment_granularity == DAY
    assert spec.granularity.query_granularity == NONE
    assert spec.input == FilesInput(paths=("quickstart",), filter="w*.json.gz", format=JsonFormat())
    assert spec.rollup == "best_effort"
    assert spec.context == {"priority": 60}
    assert [field.path for field in spec.ignored] == ["id"]
    assert load_spec(spec.to_json()) == spec


def test_rollup_is_on_unless_it_is_switched_off() -> None:
    spec = load_spec(task(dataSchema={"metricsSpec": []}))
    assert spec.granularity.rollup is True
    off = load_spec(
        task(dataSchema={"granularitySpec": {"rollup": False, "queryGranularity": None}})
    )
    assert off.rollup == "none"


INTERVALS = {"segmentGranularity": "month", "intervals": ["2013-01-15/2013-02-10"]}


@pytest.mark.parametrize(
    ("io", "granularity", "mode", "scope"),
    [
        ({}, {}, "replace", "chunks"),
        ({}, INTERVALS, "replace", "chunks"),
        ({"dropExisting": True}, INTERVALS, "replace", "intervals"),
        ({"dropExisting": True}, {}, "replace", "chunks"),
        ({"appendToExisting": True}, {}, "append", None),
        ({"appendToExisting": True, "dropExisting": True}, INTERVALS, "append", None),
        ({"appendToExisting": "true"}, {}, "append", None),
        ({"appendToExisting": "false", "dropExisting": "false"}, INTERVALS, "replace", "chunks"),
    ],
)
def test_append_or_replace_as_druid_decides_it(
    io: dict[str, Any], granularity: dict[str, Any], mode: str, scope: str | None
) -> None:
    spec = load_spec(task(ioConfig=io, dataSchema={"granularitySpec": granularity}))
    assert (spec.mode, spec.replace_scope) == (mode, scope)


def test_flags_may_be_texts_as_druid_takes_them() -> None:
    flags = ("forceGuaranteedRollup", "reportParseExceptions", "allowTypeChange", "allowMissing")
    off = load_spec(task(tuningConfig=dict.fromkeys(flags, "false")))
    assert off == load_spec(task(tuningConfig=dict.fromkeys(flags, False)))
    assert (off.partitions, off.tuning.max_parse_exceptions) == (DynamicPartitions(), None)
    on = load_spec(task(tuningConfig=dict.fromkeys(flags, "true")))
    assert (on.tuning.allow_type_change, on.tuning.allow_missing) == (True, True)
    said = message_of(task(ioConfig={"appendToExisting": "no"}))
    assert said == "wrong spec: spec.ioConfig.appendToExisting: must be true or false, not 'no'"


def test_intervals_grow_to_whole_time_chunks() -> None:
    spec = load_spec(task(dataSchema={"granularitySpec": INTERVALS}))
    assert spec.granularity.segment_granularity == MONTH
    assert list(spec.intervals) == [parse_interval("2013-01-01/2013-03-01")]


def test_fields_without_effect_are_listed_with_the_reason() -> None:
    spec = load_spec(
        task(
            tuningConfig={"maxNumConcurrentSubTasks": 2, "indexSpec": {}, "pushTimeout": 0},
            dataSchema={
                "dimensionsSpec": {"dimensions": [{"name": "page", "createBitmapIndex": False}]},
                "metricsSpec": [
                    {
                        "type": "HLLSketchBuild",
                        "name": "u",
                        "fieldName": "user",
                        "round": True,
                        "tgtHllType": "HLL_4",
                    }
                ],
            },
            ioConfig={"inputFormat": {"type": "json", "keepNullColumns": True}},
        )
    )
    assert {(field.path, field.reason) for field in spec.ignored} == {
        ("spec.tuningConfig.maxNumConcurrentSubTasks", "Spark decides how the work is divided"),
        ("spec.tuningConfig.indexSpec", "segments are Parquet files"),
        ("spec.tuningConfig.pushTimeout", "a commit is visible at once"),
        (
            "spec.dataSchema.dimensionsSpec.dimensions[0].createBitmapIndex",
            "segments are Parquet files",
        ),
        ("spec.dataSchema.metricsSpec[0].round", "queries round estimates"),
        (
            "spec.dataSchema.metricsSpec[0].tgtHllType",
            "sketches keep 8 bits per bucket, as Spark writes them",
        ),
        (
            "spec.ioConfig.inputFormat.keepNullColumns",
            "it does not change what JSON lines mean",
        ),
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"type": "local", "files": ["a.json", "b.json"]}, {"paths": ("a.json", "b.json")}),
        ({"type": "s3", "uris": ["s3://b/x.json"]}, {"paths": ("s3://b/x.json",)}),
        (
            {"type": "s3", "prefixes": ["s3://b/d/", "s3://b/p"], "objectGlob": "**.json"},
            {"paths": ("s3://b/d/", "s3://b/p*"), "filter": "*.json"},
        ),
        (
            {"type": "s3", "objects": [{"bucket": "b", "path": "d/x.json"}]},
            {"paths": ("s3://b/d/x.json",)},
        ),
        (
            {
                "type": "combining",
                "delegates": [
                    {"type": "local", "baseDir": "d", "filter": "*.json"},
                    {"type": "local", "baseDir": "e", "filter": "*.json"},
                ],
            },
            {"paths": ("d", "e"), "filter": "*.json"},
        ),
    ],
)
def test_input_sources(source: dict[str, Any], expected: dict[str, Any]) -> None:
    spec = load_spec(task(ioConfig={"inputSource": source}))
    assert spec.input == FilesInput(format=JsonFormat(), **expected)


def test_inline_and_combined_inline_data() -> None:
    one = {"type": "inline", "data": "a,1"}
    csv = {"type": "csv", "columns": ["time", "n"]}
    spec = load_spec(task(ioConfig={"inputSource": one, "inputFormat": csv}))
    assert spec.input == InlineInput(data="a,1", format=CsvFormat(columns=("time", "n")))
    both = {"type": "combining", "delegates": [one, {"type": "inline", "data": "b,2"}]}
    spec = load_spec(task(ioConfig={"inputSource": both, "inputFormat": csv}))
    assert isinstance(spec.input, InlineInput)
    assert spec.input.data == "a,1\nb,2"


def test_flatten_specs_with_roots_paths_and_trees() -> None:
    flatten = {
        "useFieldDiscovery": False,
        "fields": [
            "page",
            {"type": "root", "name": "u", "expr": "user"},
            {"type": "path", "name": "city", "expr": "$.geo.city"},
            {"type": "tree", "name": "zip", "nodes": ["geo", "zip code"]},
        ],
    }
    spec = load_spec(task(ioConfig={"inputFormat": {"type": "json", "flattenSpec": flatten}}))
    assert isinstance(spec.input, FilesInput)
    assert isinstance(spec.input.format, JsonFormat)
    assert spec.input.format.flatten is not None
    assert not spec.input.format.flatten.use_field_discovery
    assert spec.input.format.flatten.fields == (
        FlattenField(type="root", name="page"),
        FlattenField(type="root", name="u", expr="user"),
        FlattenField(name="city", expr="$.geo.city"),
        FlattenField(name="zip", expr="$['geo']['zip code']"),
    )


@pytest.mark.parametrize(
    ("tuning", "expected"),
    [
        ({}, DynamicPartitions()),
        (
            {"maxRowsPerSegment": 9, "maxTotalRows": 20},
            DynamicPartitions(max_rows_per_segment=9, max_total_rows=20),
        ),
        ({"partitionsSpec": {"type": "dynamic", "maxRowsPerSegment": None}}, DynamicPartitions()),
        ({"forceGuaranteedRollup": True}, HashedPartitions()),
        (
            {"forceGuaranteedRollup": True, "maxRowsPerSegment": 9},
            HashedPartitions(target_rows_per_segment=9),
        ),
        ({"forceGuaranteedRollup": True, "numShards": 4}, HashedPartitions(num_shards=4)),
        (
            {
                "partitionsSpec": {
                    "type": "hashed",
                    "partitionDimensions": ["page"],
                    "numShards": -1,
                }
            },
            HashedPartitions(dimensions=("page",)),
        ),
        (
            {"partitionsSpec": {"type": "hashed", "targetPartitionSize": 7}},
            HashedPartitions(target_rows_per_segment=7),
        ),
        (
            {
                "partitionsSpec": {
                    "type": "single_dim",
                    "partitionDimension": "page",
                    "assumeGrouped": True,
                }
            },
            RangePartitions(dimensions=("page",), assume_grouped=True),
        ),
        (
            {
                "partitionsSpec": {
                    "type": "range",
                    "partitionDimensions": ["page", "added"],
                    "maxRowsPerSegment": 7,
                }
            },
            RangePartitions(dimensions=("page", "added"), max_rows_per_segment=7),
        ),
    ],
)
def test_partitions(tuning: dict[str, Any], expected: object) -> None:
    assert load_spec(task(tuningConfig=tuning)).partitions == expected


def test_bad_rows() -> None:
    limits = {"maxParseExceptions": 5, "logParseExceptions": True, "maxSavedParseExceptions": 2}
    tuning = load_spec(task(tuningConfig=limits)).tuning
    assert (tuning.max_parse_exceptions, tuning.log_parse_exceptions) == (5, True)
    assert tuning.max_saved_parse_exceptions == 2
    strict = load_spec(task(tuningConfig={"reportParseExceptions": True}))
    assert strict.tuning.max_parse_exceptions == 0


def test_segments_that_are_not_sorted_by_time_first() -> None:
    dimensions = {
        "dimensions": ["page", {"type": "long", "name": "__time"}, "user"],
        "forceSegmentSortByTime": False,
    }
    spec = load_spec(task(dataSchema={"dimensionsSpec": dimensions}))
    assert spec.sort_columns == ("page", "__time", "user")
    assert spec.dimensions.names == ("page", "user")


def test_transforms_are_druids_expressions() -> None:
    transform_spec = {
        "transforms": [{"type": "expression", "name": "x", "expression": "upper(page)"}],
        "filter": {"type": "selector", "dimension": "x", "value": "A"},
    }
    spec = load_spec(task(dataSchema={"transformSpec": transform_spec}))
    assert [(t.type, t.name) for t in spec.transforms.transforms] == [("druid", "x")]
    assert spec.transforms.filter == transform_spec["filter"]


def test_the_old_parser_and_firehose() -> None:
    old = {
        "type": "index",
        "spec": {
            "dataSchema": {
                "dataSource": "old",
                "parser": {
                    "type": "string",
                    "parseSpec": {
                        "format": "csv",
                        "timestampSpec": {"column": "ts", "format": "auto"},
                        "columns": ["ts", "page"],
                        "dimensionsSpec": {"dimensions": ["page"]},
                    },
                },
                "granularitySpec": {"type": "uniform", "segmentGranularity": "DAY"},
            },
            "ioConfig": {
                "type": "index",
                "firehose": {"type": "local", "baseDir": "d", "filter": "x.csv"},
            },
        },
    }
    spec = load_spec(old)
    assert spec.timestamp.column == "ts"
    assert spec.dimensions.names == ("page",)
    csv = CsvFormat(columns=("ts", "page"))
    assert spec.input == FilesInput(paths=("d",), filter="x.csv", format=csv)


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"dataSchema": {"metricsSpec": [{"type": "hyperUnique", "name": "u", "fieldName": "x"}]}},
        "spec.dataSchema.metricsSpec[0].type: metric type 'hyperUnique' is not supported; use HLLSketchBuild",
    ),
    (
        {"dataSchema": {"metricsSpec": [{"type": "longSum", "name": "u", "expression": "a+b"}]}},
        "spec.dataSchema.metricsSpec[0].expression: is not supported; compute the column in transformSpec",
    ),
    (
        {"dataSchema": {"granularitySpec": {"rolup": True}}},
        "spec.dataSchema.granularitySpec.rolup: unknown field; did you mean 'rollup'?",
    ),
    (
        {"dataSchema": {"granularitySpec": {"type": "arbitrary"}}},
        "spec.dataSchema.granularitySpec.type: 'arbitrary' is not supported; use 'uniform' and a granularity",
    ),
    (
        {"dataSchema": {"dimensionsSpec": {"spatialDimensions": [{"dimName": "c"}]}}},
        "spec.dataSchema.dimensionsSpec.spatialDimensions: is not supported; keep the coordinates as doubles",
    ),
    (
        {"dataSchema": {"dimensionsSpec": {"dimensions": ["page"], "dimensionExclusion": []}}},
        "spec.dataSchema.dimensionsSpec.dimensionExclusion: unknown field; did you mean 'dimensionExclusions'?",
    ),
    (
        {"ioConfig": {"inputSource": {"type": "http", "uris": ["http://x/y"]}}},
        "spec.ioConfig.inputSource.type: input source 'http' is not supported; download the files, "
        "or use s3, local or inline",
    ),
    (
        {
            "ioConfig": {
                "inputSource": {
                    "type": "s3",
                    "uris": ["s3://b/x"],
                    "properties": {"accessKeyId": "k"},
                }
            }
        },
        "spec.ioConfig.inputSource.properties: is not supported here; credentials and endpoints "
        "belong into Carnac's configuration",
    ),
    (
        {"ioConfig": {"inputSource": {"type": "local", "baseDir": "d", "fliter": "*"}}},
        "spec.ioConfig.inputSource.fliter: unknown field; did you mean 'filter'?",
    ),
    (
        {"ioConfig": {"inputFormat": {"type": "regex", "pattern": "x"}}},
        "spec.ioConfig.inputFormat.type: format 'regex' is not supported; read the files with "
        "Spark and hand over the DataFrame",
    ),
    (
        {
            "ioConfig": {
                "inputFormat": {
                    "type": "json",
                    "flattenSpec": {"fields": [{"type": "jq", "name": "a", "expr": ".a"}]},
                }
            }
        },
        "spec.ioConfig.inputFormat.flattenSpec.fields[0].type: 'jq' is not supported; use path",
    ),
    (
        {"ioConfig": {"inputFormat": {"type": "json", "featureSpec": {"ALLOW_COMMENTS": True}}}},
        "spec.ioConfig.inputFormat.featureSpec: is not supported; write standard JSON",
    ),
    (
        {
            "ioConfig": {"appendToExisting": True},
            "tuningConfig": {"partitionsSpec": {"type": "hashed"}},
        },
        "spec.tuningConfig.partitionsSpec: appendToExisting needs dynamic partitions",
    ),
    (
        {"tuningConfig": {"forceGuaranteedRollup": True, "partitionsSpec": {"type": "dynamic"}}},
        "spec.tuningConfig.partitionsSpec: forceGuaranteedRollup needs hashed or range, not dynamic",
    ),
    (
        {"tuningConfig": {"maxRowInMemory": 5}},
        "spec.tuningConfig.maxRowInMemory: unknown field; did you mean 'maxRowsInMemory'?",
    ),
    (
        {"dataSchema": {"timestampSpec": {"colum": "time"}}},
        "spec.dataSchema.timestampSpec.colum: unknown field; did you mean 'column'?",
    ),
    (
        {
            "dataSchema": {
                "transformSpec": {
                    "transforms": [
                        {"type": "expression", "name": "x", "expression": "lookup(a,'b')"}
                    ]
                }
            }
        },
        "spec.dataSchema.transformSpec.transforms[0].expression: expression 'lookup(a,'b')': "
        "function lookup is for queries; it cannot be used while ingesting",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[m[5:60] for _, m in REFUSED])
def test_what_would_change_the_result_is_refused(changes: dict[str, Any], message: str) -> None:
    assert message_of(task(**changes)) == f"wrong spec: {message}"


def test_all_that_is_refused_is_named_at_once() -> None:
    value = copy.deepcopy(task())
    value["spec"]["ioConfig"]["inputSource"] = {"type": "hdfs", "paths": "x"}
    value["spec"]["dataSchema"]["metricsSpec"].append({"type": "variance", "name": "v"})
    value["spec"]["tuningConfg"] = {}
    message = message_of(value)
    assert message.startswith("wrong spec, 3 problems: ")
    for place in ("ioConfig.inputSource.type", "dataSchema.metricsSpec[1].type", "tuningConfg"):
        assert f"spec.{place}: " in message
    assert "did you mean 'tuningConfig'?" in message


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("kill", "a kill task is no ingestion: an overlord takes it (carnac task submit)"),
        (
            "index_hadoop",
            "there are no index_hadoop tasks here: Spark does the work of Hadoop; submit index_parallel",
        ),
        (
            "kafka",
            "there are no kafka tasks here: a supervisor submits them; post its spec to"
            " /druid/indexer/v1/supervisor (carnac supervisor submit)",
        ),
        ("mystery", "task type 'mystery' is not a batch ingestion; use index_parallel"),
    ],
)
def test_other_tasks_are_refused_with_what_to_do_instead(kind: str, said: str) -> None:
    assert message_of({"type": kind, "spec": {}}) == f"wrong spec: type: {said}"


def test_a_druid_spec_and_the_native_spec_are_one_form() -> None:
    druid = load_spec(task())
    assert isinstance(druid, IngestSpec)
    assert load_spec(druid.to_json()).fingerprint() == druid.fingerprint()
