from __future__ import annotations

import pickle
from typing import Any

import pytest

from carnac.core.quoting import quote
from carnac.core.segments.segment import ColumnType, MetricKind
from carnac.errors import Invalid
from carnac.rows.normalise.shape import RowShape, part_columns, row_shape
from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.load import load_spec

LONG, STRING = ColumnType.LONG, ColumnType.STRING


def spec(**more: Any) -> IngestSpec:
    return IngestSpec.model_validate({"dataSource": "events", "input": "a.json", **more})


def shape_of(**more: Any) -> RowShape:
    return row_shape(spec(**more))


METRICS = [
    {"type": "count", "name": "rows"},
    {"type": "longSum", "name": "bytes", "fieldName": "size"},
    {"type": "stringLast", "name": "state", "fieldName": "s", "timeColumn": "seen"},
    {"type": "doubleFirst", "name": "price", "timeColumn": "__time"},
    {"type": "HLLSketchBuild", "name": "users", "fieldName": "user", "lgK": 10},
    {"type": "thetaSketch", "name": "items", "fieldName": "item", "size": 4096},
    {"type": "quantilesDoublesSketchMerge", "name": "q", "fieldName": "q0", "k": 256},
]


def test_dimensions_and_metrics_of_a_spec() -> None:
    shape = shape_of(
        dimensionsSpec=[
            "size",
            {"name": "n", "type": "long"},
            {"name": "tags", "type": "array<string>"},
        ],
        metricsSpec=METRICS,
        granularitySpec={"queryGranularity": "hour"},
    )
    assert shape.is_rollup
    assert shape.query_granularity == "HOUR"
    assert shape.sort_columns == ("__time", "size", "n", "tags")
    assert shape.dimension_names == ("size", "n", "tags")
    assert [(c.name, c.field, c.type) for c in shape.input_columns] == [
        ("__in_bytes", "size", LONG),
        ("__in_state", "s", STRING),
        ("__at_state", "seen", LONG),
        ("__in_price", "price", ColumnType.DOUBLE),
        ("__in_users", "user", STRING),
        ("__in_items", "item", STRING),
        ("__in_q", "q0", ColumnType.QUANTILES),
    ]
    assert [name for name, _ in shape.segment_columns] == [
        "size",
        "n",
        "tags",
        "rows",
        "bytes",
        "state",
        "__at_state",
        "price",
        "__at_price",
        "users",
        "items",
        "q",
    ]
    assert [dict(m.params) for m in shape.metrics] == [
        {},
        {},
        {"max_bytes": 1024},
        {},
        {"lg_k": 10},
        {"lg_k": 12},
        {"k": 256},
    ]
    assert [m.is_state for m in shape.metrics] == [False] * 6 + [True]
    assert pickle.loads(pickle.dumps(shape)) == shape


def test_parts_hold_lists_in_place_of_sketches_and_count_rows() -> None:
    shape = shape_of(dimensionsSpec=["a"], metricsSpec=METRICS)
    assert dict(part_columns(shape)) == {
        "__time": "TIMESTAMP WITH TIME ZONE",
        "a": "VARCHAR",
        "rows": "BIGINT",
        "bytes": "BIGINT",
        "state": "VARCHAR",
        "__at_state": "BIGINT",
        "price": "DOUBLE",
        "__at_price": "BIGINT",
        "users": "VARCHAR[]",
        "items": "VARCHAR[]",
        "q": "BLOB[]",
        "__rows": "BIGINT",
    }


def test_without_rollup_nothing_is_hidden_in_segments() -> None:
    shape = shape_of(dimensionsSpec=["a"], metricsSpec=METRICS, granularitySpec={"rollup": False})
    assert shape.rollup_spec(is_perfect=True) is None
    assert not [name for name, _ in shape.segment_columns if name.startswith("__")]


def test_rollup_is_written_down() -> None:
    shape = shape_of(dimensionsSpec=["a"], metricsSpec=METRICS[:2])
    rollup = shape.rollup_spec(is_perfect=False)
    assert rollup is not None
    assert (rollup.dimensions, rollup.is_perfect, rollup.query_granularity) == (
        ("a",),
        False,
        "NONE",
    )
    assert [metric.kind for metric in rollup.metrics] == [MetricKind.COUNT, MetricKind.SUM]


def test_a_spec_that_comes_again_has_its_own_shape_whatever_came_between() -> None:
    one, other = spec(dimensionsSpec={"dimensions": ["a"]}), spec(dimensionsSpec={"dimensions": []})
    alone = row_shape(one)
    assert row_shape(one) is alone, "it is not made anew"
    assert row_shape(one, (("a", ColumnType.STRING_ARRAY),)) != alone
    assert row_shape(other) != alone
    assert row_shape(one) == alone


def test_discovered_columns_follow_and_types_are_what_was_shown() -> None:
    listed = {
        "dimensions": ["a", "b", {"name": "c", "type": "auto"}, {"name": "d", "type": "auto"}],
        "includeAllDimensions": True,
    }
    shown = (("z", ColumnType.DOUBLE), ("b", ColumnType.STRING_ARRAY), ("c", LONG), ("y", STRING))
    shape = row_shape(spec(dimensionsSpec=listed), shown)
    assert [(d.name, d.type) for d in shape.dimensions] == [
        ("a", STRING),
        ("b", ColumnType.STRING_ARRAY),
        ("c", LONG),
        ("d", STRING),
        ("z", ColumnType.DOUBLE),
        ("y", STRING),
    ]
    assert shape.sort_columns == ("__time", "a", "b", "c", "d", "z", "y")


def test_names_that_would_meet_are_refused() -> None:
    with pytest.raises(Invalid, match="column n would be there more than once"):
        row_shape(spec(metricsSpec=[{"type": "count", "name": "n"}]), (("n", STRING),))
    for name in ("__in_x", "__at_x", "__rows"):
        with pytest.raises(Invalid, match=f"{name} has a name that is reserved"):
            shape_of(dimensionsSpec=[name])


def test_names_are_quoted() -> None:
    assert quote('a"b') == '"a""b"'


def test_names_that_differ_in_case_alone_are_one_name() -> None:
    spec = load_spec({"dataSource": "x", "input": "x.json", "dimensions": ["page", "Page"]})
    with pytest.raises(Invalid, match="column Page, page would be there more than once"):
        row_shape(spec)
