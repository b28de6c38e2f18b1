"""Specs like those of Druid's tutorials: each is read, and means what the tutorial shows.

Where the tutorials' data sets are present next to the checkout, the fields that a spec names are
looked up in them too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from carnac.core.time.granularity import MINUTE, NONE, THIRTY_MINUTE
from carnac.specs import IngestSpec, load_spec
from carnac.specs.ingest.inputs import CsvFormat, FilesInput, InlineInput
from carnac.specs.ingest.schema import MetricSpec, TimestampSpec
from carnac.specs.ingest.transforms import read_transforms

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "tutorials"

ISO = {"column": "timestamp", "format": "iso"}


def batch(
    name: str, file: str, schema: dict[str, Any], *, io: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return an index_parallel task over one file of the tutorials."""
    return {
        "type": "index_parallel",
        "spec": {
            "dataSchema": {"dataSource": name, "timestampSpec": ISO, **schema},
            "ioConfig": {
                "type": "index_parallel",
                "inputSource": {"type": "local", "baseDir": "quickstart/tutorial", "filter": file},
                "inputFormat": {"type": "json"},
                **(io or {}),
            },
            "tuningConfig": {
                "type": "index_parallel",
                "maxRowsPerSegment": 5_000_000,
                "maxRowsInMemory": 25_000,
            },
        },
    }


ROLLUP = batch(
    "flows",
    "tutorial-rollup-data.jsonl",
    {
        "dimensionsSpec": {"dimensions": ["srcIP", "dstIP"]},
        "metricsSpec": [
            {"type": "count", "name": "count"},
            {"type": "longSum", "name": "packets", "fieldName": "packets"},
            {"type": "longSum", "name": "bytes", "fieldName": "bytes"},
        ],
        "granularitySpec": {
            "type": "uniform",
            "segmentGranularity": "week",
            "queryGranularity": "minute",
            "intervals": ["2018-01-01/2018-01-03"],
            "rollup": True,
        },
    },
)

UPDATES = {
    "dimensionsSpec": {"dimensions": ["animal"]},
    "metricsSpec": [
        {"type": "count", "name": "count"},
        {"type": "longSum", "name": "number", "fieldName": "number"},
    ],
    "granularitySpec": {
        "segmentGranularity": "week",
        "queryGranularity": "minute",
        "intervals": ["2018-01-01/2018-01-03"],
        "rollup": True,
    },
}

MULTI_VALUE = batch(
    "tags",
    "tutorial-mvd-data.jsonl",
    {
        "dimensionsSpec": {
            "dimensions": [
                "label",
                {"type": "string", "name": "tags", "multiValueHandling": "SORTED_ARRAY"},
            ]
        },
        "granularitySpec": {"rollup": False},
    },
)

ARRAYS = batch(
    "arrays",
    "tutorial-arrays-data.jsonl",
    {
        "dimensionsSpec": {
            "dimensions": [
                {"name": "label", "type": "string"},
                {"name": "arrayString", "type": "auto"},
                {"name": "arrayLong", "type": "auto", "castToType": "ARRAY<LONG>"},
                {"name": "arrayDouble", "type": "auto", "castToType": "ARRAY<DOUBLE>"},
            ]
        },
        "granularitySpec": {"rollup": False},
    },
)

NESTED = batch(
    "shipments",
    "tutorial-nested-data.jsonl",
    {
        "timestampSpec": {"column": "time", "format": "auto"},
        "dimensionsSpec": {
            "dimensions": [
                "product",
                "department",
                {"type": "json", "name": "shipTo"},
                {"type": "json", "name": "details"},
            ]
        },
        "transformSpec": {
            "transforms": [
                {
                    "type": "expression",
                    "name": "price",
                    "expression": "json_value(details, '$.price', 'DOUBLE')",
                }
            ]
        },
        "granularitySpec": {"rollup": False},
    },
)

THETA = {
    "type": "index_parallel",
    "spec": {
        "dataSchema": {
            "dataSource": "shows",
            "timestampSpec": {"column": "date", "format": "auto"},
            "dimensionsSpec": {"dimensions": ["show", "episode"]},
            "metricsSpec": [
                {
                    "type": "thetaSketch",
                    "name": "theta_uid",
                    "fieldName": "uid",
                    "shouldFinalize": False,
                }
            ],
            "granularitySpec": {
                "segmentGranularity": "hour",
                "queryGranularity": "hour",
                "rollup": True,
            },
        },
        "ioConfig": {
            "type": "index_parallel",
            "inputSource": {
                "type": "inline",
                "data": "date,uid,show,episode\n2022-05-19,alice,GoT,S1E1",
            },
            "inputFormat": {"type": "csv", "findColumnsFromHeader": True},
        },
        "tuningConfig": {
            "type": "index_parallel",
            "partitionsSpec": {"type": "hashed"},
            "forceGuaranteedRollup": True,
        },
    },
}

GRANULARITIES = batch(
    "pages",
    "tutorial-granularities-data.jsonl",
    {
        "dimensionsSpec": {"dimensions": ["page", "language"]},
        "granularitySpec": {
            "segmentGranularity": {
                "type": "period",
                "period": "P1D",
                "timeZone": "America/Los_Angeles",
            },
            "queryGranularity": "thirty_minute",
            "rollup": False,
        },
    },
)

WIKIPEDIA = batch(
    "wikipedia",
    "wikiticker-2015-09-12-sampled.json.gz",
    {
        "timestampSpec": {"column": "time", "format": "iso"},
        "dimensionsSpec": {"useSchemaDiscovery": True, "dimensions": []},
        "metricsSpec": [],
        "granularitySpec": {
            "segmentGranularity": "day",
            "queryGranularity": "none",
            "rollup": False,
        },
    },
)

ALL: dict[str, dict[str, Any]] = {
    "rollup": ROLLUP,
    "updates": batch("updates", "tutorial-updates-data.jsonl", UPDATES),
    "multi-value": MULTI_VALUE,
    "arrays": ARRAYS,
    "nested": NESTED,
    "theta": THETA,
    "granularities": GRANULARITIES,
    "wikipedia": WIKIPEDIA,
}


def test_rollup() -> None:
    spec = load_spec(ROLLUP)
    assert spec.rollup == "best_effort"
    assert spec.granularity.query_granularity == MINUTE
    assert spec.metrics[1] == MetricSpec(name="packets", type="longSum", input="packets")
    assert [str(i) for i in spec.intervals] == ["2018-01-01T00:00:00.000Z/2018-01-08T00:00:00.000Z"]
    assert [field.path for field in spec.ignored] == ["spec.tuningConfig.maxRowsInMemory"]


def test_updates_overwrite_and_append() -> None:
    overwrite = load_spec(batch("updates", "tutorial-updates-data2.jsonl", UPDATES))
    assert (overwrite.mode, overwrite.replace_scope) == ("replace", "chunks")
    append = load_spec(
        batch("updates", "tutorial-updates-data3.jsonl", UPDATES, io={"appendToExisting": True})
    )
    assert (append.mode, append.replace_scope) == ("append", None)


def test_multi_value_dimensions() -> None:
    tags = load_spec(MULTI_VALUE).dimensions.dimensions[1]
    assert (tags.type, tags.multi_value_handling) == ("string", "sorted_array")


def test_arrays() -> None:
    types = [dimension.type for dimension in load_spec(ARRAYS).dimensions.dimensions]
    assert types == ["string", "auto", "array<long>", "array<double>"]


def test_nested_columns() -> None:
    spec = load_spec(NESTED)
    assert [d.type for d in spec.dimensions.dimensions] == ["string", "string", "json", "json"]
    compiled = read_transforms(spec)
    assert compiled.made[0] == "price"
    assert compiled.inputs == {"details"}


def test_theta_sketches() -> None:
    spec = load_spec(THETA)
    assert spec.rollup == "perfect"
    assert spec.partitions.type == "hashed"
    assert (spec.metrics[0].kind, spec.metrics[0].input) == ("theta", "uid")
    assert isinstance(spec.input, InlineInput)
    assert spec.input.format == CsvFormat(header=True)


def test_granularities_in_a_zone() -> None:
    spec = load_spec(GRANULARITIES)
    assert str(spec.granularity.segment_granularity.zone) == "America/Los_Angeles"
    assert spec.granularity.query_granularity == THIRTY_MINUTE


def test_wikipedia_with_schema_discovery() -> None:
    spec = load_spec(WIKIPEDIA)
    assert spec.dimensions.use_schema_discovery
    assert spec.dimensions.discovers
    assert spec.granularity.query_granularity == NONE
    assert spec.timestamp == TimestampSpec(column="time", format="iso")


def test_the_tutorial_on_writing_specs_has_every_numeric_type() -> None:
    schema = {
        "timestampSpec": {"column": "ts", "format": "iso"},
        "dimensionsSpec": {
            "dimensions": [
                "srcIP",
                {"name": "srcPort", "type": "long"},
                {"name": "protocol", "type": "string"},
            ]
        },
        "metricsSpec": [
            {"type": "count", "name": "count"},
            {"type": "longSum", "name": "packets", "fieldName": "packets"},
            {"type": "doubleSum", "name": "cost", "fieldName": "cost"},
        ],
        "granularitySpec": {
            "segmentGranularity": "HOUR",
            "queryGranularity": "MINUTE",
            "rollup": True,
        },
    }
    spec = load_spec(batch("flows", "x.json", schema))
    assert [(m.kind, m.value_type) for m in spec.metrics] == [
        ("count", "long"),
        ("sum", "long"),
        ("sum", "double"),
    ]


@pytest.mark.parametrize("name", ALL)
def test_they_survive_the_round_trip(name: str) -> None:
    spec = load_spec(ALL[name])
    assert load_spec(spec.to_json()) == spec


def fields_of(path: Path) -> set[str]:
    """Return the fields of a file's rows."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".csv":
        return set(lines[0].split(","))
    return set().union(*(json.loads(line) for line in lines if line))


def fields_named(spec: IngestSpec) -> set[str]:
    """Return the input fields that a spec names."""
    made = {transform.name for transform in spec.transforms.transforms}
    inputs = {metric.input for metric in spec.metrics if metric.input is not None}
    return ({spec.timestamp.column, *spec.dimensions.names} | inputs) - made


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the tutorials' data sets are not at {DATA}")
@pytest.mark.parametrize("name", [name for name in ALL if name != "wikipedia"])
def test_the_fields_that_they_name_are_in_the_data(name: str) -> None:
    spec = load_spec(ALL[name])
    file = spec.input.filter if isinstance(spec.input, FilesInput) else "tutorial-theta-data.csv"
    assert file is not None
    assert fields_named(spec) <= fields_of(DATA / file)
