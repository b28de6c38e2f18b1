"""Druid's `filtered` aggregators, and metrics with a filter in Carnac's own form."""

from __future__ import annotations

from typing import Any

import pytest

from carnac.errors import Invalid
from carnac.specs.compaction.spec import load_compaction
from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.ingest.transforms import read_transforms
from carnac.specs.load import load_spec
from carnac.specs.tasks.spec import load_task

IS_A = {"type": "selector", "dimension": "d", "value": "a"}
IS_B = {"type": "selector", "dimension": "e", "value": "b"}
COUNT = {"type": "count", "name": "n"}


def druid(*metrics: dict[str, Any]) -> IngestSpec:
    return load_spec(
        {
            "type": "index_parallel",
            "spec": {
                "dataSchema": {
                    "dataSource": "events",
                    "timestampSpec": {"column": "t"},
                    "dimensionsSpec": {"dimensions": ["d"]},
                    "metricsSpec": list(metrics),
                    "granularitySpec": {"segmentGranularity": "day"},
                },
                "ioConfig": {
                    "inputSource": {"type": "inline", "data": "{}"},
                    "inputFormat": {"type": "json"},
                },
            },
        }
    )


def filtered(condition: object, aggregator: object, **more: object) -> dict[str, Any]:
    return {"type": "filtered", "filter": condition, "aggregator": aggregator, **more}


def test_the_wrapper_becomes_the_filter_of_the_metric_inside() -> None:
    (metric,) = druid(filtered(IS_A, COUNT)).metrics
    assert (metric.name, metric.type, metric.input, metric.filter) == ("n", "count", None, IS_A)


def test_its_own_name_counts_and_the_input_stays() -> None:
    sums = {"type": "longSum", "name": "x"}
    (metric,) = druid(filtered(IS_A, sums, name="of_a")).metrics
    assert (metric.name, metric.input) == ("of_a", "x")
    (metric,) = druid(filtered(IS_A, {**sums, "fieldName": "y"}, name="")).metrics
    assert (metric.name, metric.input) == ("x", "y")


def test_wrappers_in_one_another_are_all_heeded() -> None:
    spec = druid(filtered(IS_A, filtered(IS_B, COUNT)))
    assert spec.metrics[0].filter == {"type": "and", "fields": [IS_A, IS_B]}
    compiled = read_transforms(spec)
    assert compiled.filtered == ("n",)
    assert compiled.inputs == {"d", "e"}
    assert spec.has_expressions


def test_a_spec_with_filters_is_the_same_after_json() -> None:
    spec = druid(filtered(IS_A, COUNT))
    assert load_spec(spec.to_json()).metrics == spec.metrics
    assert load_spec(spec.to_json()).fingerprint() == spec.fingerprint()
    assert spec.fingerprint() != druid(filtered(IS_B, COUNT)).fingerprint()


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        (filtered(IS_A, None), "metricsSpec[0].aggregator: is required, as an object"),
        (filtered("d = 'a'", COUNT), "metricsSpec[0].filter: is required, as an object"),
        (filtered({"type": "odd"}, COUNT), "metricsSpec[0].filter: there is no filter 'odd'"),
        (
            filtered(IS_A, COUNT, colour=1),
            "metricsSpec[0].colour: is no field of a filtered metric",
        ),
        (
            filtered(IS_A, {"type": "longAny", "name": "a"}),
            "'longAny' is not supported; use longFirst",
        ),
        (filtered(IS_A, {"type": "odd", "name": "a"}), "metricsSpec[0].type: 'odd'"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(metric: dict[str, Any], says: str) -> None:
    with pytest.raises(Invalid) as caught:
        druid(metric)
    assert says in caught.value.message


def test_compaction_takes_no_filter() -> None:
    compaction = {
        "dataSource": "events",
        "metricsSpec": [{**COUNT, "filter": "d = 'a'"}],
        "allowLossy": True,
    }
    with pytest.raises(Invalid, match="metric n has a filter, which is for ingestion"):
        load_compaction(compaction)
    task = {
        "type": "compact",
        "dataSource": "events",
        "ioConfig": {
            "type": "compact",
            "inputSpec": {"type": "interval", "interval": "2013-01-01/2014-01-01"},
        },
        "metricsSpec": [filtered(IS_A, COUNT)],
        "context": {"allowLossy": True},
    }
    with pytest.raises(
        Invalid, match="metric n has a filter, which is for ingestion: compaction merges"
    ):
        load_task(task)
