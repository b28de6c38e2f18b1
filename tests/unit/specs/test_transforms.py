"""Transforms and filter of a spec, as the pipeline gets them."""

from __future__ import annotations

from typing import Any

import pytest

from carnac.errors import Invalid
from carnac.specs import IngestSpec, load_spec
from carnac.specs.ingest.transforms import Transforms, compile_transforms, declared_types, words_of


def spec_with(**fields: Any) -> IngestSpec:
    return load_spec({"dataSource": "w", "input": "w.json", **fields})


def test_spark_sql_is_passed_through() -> None:
    spec = spec_with(
        transformSpec={
            "transforms": [{"name": "page", "expression": "upper(page)"}],
            "filter": "page <> 'A' AND `a b` > 1",
        }
    )
    compiled = compile_transforms(spec)
    assert compiled.columns == (("page", "upper(page)"),)
    assert compiled.filter == "page <> 'A' AND `a b` > 1"
    assert compiled.inputs >= {"page", "a b"}


def test_druids_expressions_take_the_types_of_the_data() -> None:
    spec = spec_with(transforms=[{"name": "half", "expression": "n / 2", "type": "druid"}])
    assert compile_transforms(spec, {"n": "bigint"}).columns == (("half", "(`n` div 2L)"),)
    assert compile_transforms(spec, {"n": "double"}).columns == (("half", "(`n` / 2.0D)"),)


def test_declared_types_count_where_the_data_says_nothing() -> None:
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
    assert compile_transforms(spec).columns[0] == ("half", "(`n` div 2L)")


def test_the_filter_sees_the_transforms_and_their_types() -> None:
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
    compiled = compile_transforms(spec, {"page": "string", "user": "string"})
    assert compiled.filter == "((`len` = 3L) AND (`user` = 'me'))"
    assert compiled.inputs == {"page", "user"}


def test_a_transform_of_the_time_gives_a_timestamp() -> None:
    spec = spec_with(
        transforms=[
            {"name": "__time", "expression": "timestamp_shift(__time, 'PT1H', 1)", "type": "druid"}
        ]
    )
    ((name, sql),) = compile_transforms(spec).columns
    assert name == "__time"
    assert sql == "timestamp_millis(try_cast((unix_millis(`__time`) + 3600000L * 1L) AS BIGINT))"


def test_nothing_to_do_is_false() -> None:
    assert not compile_transforms(spec_with())
    assert compile_transforms(spec_with()) == Transforms()
    assert compile_transforms(spec_with(transformSpec={"filter": {"type": "true"}}))


def test_types_that_only_the_data_shows_can_still_be_wrong() -> None:
    spec = spec_with(transforms=[{"name": "x", "expression": "a - b", "type": "druid"}])
    with pytest.raises(Invalid, match="operator - does not take two texts"):
        compile_transforms(spec, {"a": "string", "b": "string"})


def test_words_that_could_be_columns() -> None:
    sql = "upper(a) || 'b c' || `d e` -- f\n || g.h || \"text\" || i (1)"
    assert words_of(sql) == {"a", "d e", "g", "h"}
