"""Transforms and filter of a spec, as the pipeline gets them."""

from __future__ import annotations

from typing import Any

import pytest

from carnac.errors import Invalid
from carnac.specs import IngestSpec, load_spec
from carnac.specs.druid.rows import column_of
from carnac.specs.druid.terms.values import TIME
from carnac.specs.ingest.transforms import (
    Transforms,
    compile_columns,
    compile_conditions,
    declared_types,
    read_transforms,
    words_of,
)


def spec_with(**fields: Any) -> IngestSpec:
    return load_spec({"dataSource": "w", "input": "w.json", **fields})


def test_spark_sql_is_passed_through() -> None:
    spec = spec_with(
        transformSpec={
            "transforms": [{"name": "page", "expression": "upper(page)"}],
            "filter": "page <> 'A' AND `a b` > 1",
        }
    )
    assert {name: piece.text for name, piece in compile_columns(spec).items()} == {
        "page": "upper(page)"
    }
    condition, _ = compile_conditions(spec)
    assert condition is not None
    assert (condition.text, condition.kind) == ("page <> 'A' AND `a b` > 1", None)
    assert read_transforms(spec).inputs >= {"page", "a b"}


def test_druids_expressions_take_the_types_of_the_data() -> None:
    spec = spec_with(transforms=[{"name": "half", "expression": "n / 2", "type": "druid"}])
    kinds = [
        compile_columns(spec, {"n": column_of("n", kind)})["half"].kind
        for kind in ("BIGINT", "INTEGER", "DOUBLE", "DECIMAL(10,2)")
    ]
    assert kinds == ["long", "long", "double", "double"]


def test_types_of_fields_are_those_that_the_spec_declares() -> None:
    spec = spec_with(
        dimensions=["s", {"name": "n", "type": "long"}, {"name": "x", "type": "auto"}],
        metrics=[
            {"type": "doubleSum", "name": "total", "fieldName": "price"},
            {"type": "thetaSketch", "name": "u", "fieldName": "user"},
        ],
        transforms=[
            {"name": "half", "expression": "n / 2", "type": "druid"},
            {"name": "s", "expression": "n + 1", "type": "druid"},
        ],
    )
    assert declared_types(spec) == {"n": "long", "price": "double"}


def test_the_filter_sees_the_transforms() -> None:
    spec = spec_with(
        transformSpec={
            "transforms": [{"name": "len", "expression": "strlen(page)", "type": "druid"}],
            "filter": {
                "type": "and",
                "fields": [
                    {"type": "selector", "dimension": "len", "value": "3"},
                    {"type": "selector", "dimension": "user", "value": "me"},
                ],
            },
        }
    )
    found = read_transforms(spec)
    assert (found.made, found.inputs) == (("len",), {"page", "user"})


def test_a_transform_of_the_time_gives_a_timestamp() -> None:
    spec = spec_with(transforms=[{"name": "__time", "expression": "__time + 1", "type": "druid"}])
    assert compile_columns(spec, {"__time": TIME})["__time"].text.startswith("make_timestamptz(")


def test_without_expressions_nothing_is_made_or_read() -> None:
    assert read_transforms(spec_with()) == Transforms()


def test_types_that_only_the_data_shows_can_still_be_wrong() -> None:
    spec = spec_with(transforms=[{"name": "x", "expression": "a - b", "type": "druid"}])
    texts = {name: column_of(name, "VARCHAR") for name in ("a", "b")}
    assert compile_columns(spec)
    with pytest.raises(Invalid, match="operator - does not take two texts"):
        compile_columns(spec, texts)


def test_words_that_could_be_columns() -> None:
    sql = "upper(a) || 'b c' || `d e` -- f\n || g.h || \"text\" || i (1)"
    assert words_of(sql) == {"a", "d e", "g", "h"}
