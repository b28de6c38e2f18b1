"""Wrong specs: each mistake has its own sentence, with its place and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from carnac.errors import Invalid
from carnac.specs import load_spec
from carnac.specs.compaction.spec import load_compaction
from carnac.specs.load import is_spec_text

GOOD: dict[str, Any] = {"dataSource": "w", "input": "w.json"}

NATIVE: list[tuple[dict[str, Any], str]] = [
    ({"dataSource": ""}, "wrong spec: dataSource: must not be empty"),
    ({"dataSource": 3}, "wrong spec: dataSource: must be text, not 3"),
    (
        {"dataSource": "a/b"},
        "wrong spec: dataSource must not hold '/' or outer spaces, nor be '.' or '..'",
    ),
    (
        {"dataSource": "__query_select"},
        "wrong spec: dataSource __query_select is what a SELECT that runs as a task has for one",
    ),
    ({"mode": "overwrite"}, "wrong spec: mode: 'overwrite' is not one of append, replace"),
    ({"mod": "append"}, "wrong spec: mod: unknown field; did you mean 'mode'?"),
    ({"xyzzy": 1}, "wrong spec: xyzzy: unknown field; remove it"),
    (
        {"queryGranularity": "hour"},
        "wrong spec: queryGranularity: unknown field; it belongs into granularitySpec",
    ),
    (
        {"metrics": [], "metricsSpec": []},
        "wrong spec: metrics: is given under two names; keep one of them",
    ),
    ({"input": []}, "wrong spec: input.paths: must not be empty"),
    (
        {"input": {"type": "local"}},
        "wrong spec: input: type 'local' is not one of files, inline, query, frame",
    ),
    (
        {"input": {"paths": "x", "inputFormat": {"type": "xml"}}},
        "wrong spec: input.inputFormat: type 'xml' is not one of json, csv, tsv, parquet, orc, arrow",
    ),
    (
        {"input": {"paths": "x", "inputFormat": {"type": "csv", "findColumnsFromHeader": False}}},
        "wrong spec: input.inputFormat: give columns, or set findColumnsFromHeader to true",
    ),
    (
        {"input": {"paths": "x", "inputFormat": {"type": "csv", "columns": ["a", "a"]}}},
        "wrong spec: input.inputFormat: columns names a more than once",
    ),
    (
        {"input": {"data": "x", "inputFormat": "parquet"}},
        "wrong spec: input: inline data cannot be parquet; use json, csv or tsv",
    ),
    (
        {
            "input": {
                "paths": "x",
                "inputFormat": {
                    "type": "json",
                    "flattenSpec": {"fields": [{"name": "a", "expr": ".a"}]},
                },
            }
        },
        "wrong spec: input.inputFormat.flattenSpec.fields[0]: field 'a' of type path needs an expr "
        "that starts with $, like $.a.b",
    ),
    (
        {"timestampSpec": {"format": "yyyy-QQ"}},
        "wrong spec: timestampSpec: pattern 'yyyy-QQ' has the letter 'Q', which stands for nothing "
        "that can be read; put text into single quotes",
    ),
    (
        {"timestampSpec": {"missingValue": "yesterday"}},
        "wrong spec: timestampSpec.missingValue: 'yesterday' is not an ISO 8601 date or time; write "
        "it like 2013-01-31 or 2013-01-31T18:30:00Z",
    ),
    (
        {"dimensions": ["a", {"name": "b", "type": "lnog"}]},
        "wrong spec: dimensions.dimensions[1].type: 'lnog' is not one of string, long, float, "
        "double, boolean, json, array<string>, array<long>, array<double>, auto; did you mean 'long'?",
    ),
    ({"dimensions": ["a", "a"]}, "wrong spec: dimensions: dimension a is listed more than once"),
    (
        {"dimensions": ["__time"]},
        "wrong spec: dimensions.dimensions[0]: '__time' is the timestamp; set it with timestampSpec",
    ),
    (
        {"dimensionsSpec": {"dimensions": ["a"], "dimensionExclusions": ["a"]}},
        "wrong spec: dimensionsSpec: a is both in dimensions and in dimensionExclusions",
    ),
    ({"metrics": [{"type": "longSum"}]}, "wrong spec: metrics[0].name: is required"),
    ({"metrics": [{"name": "n"}]}, "wrong spec: metrics[0].type: is required"),
    (
        {"metrics": [{"type": "count", "name": "n", "fieldName": "x"}]},
        "wrong spec: metrics[0]: metric 'n' of type count takes no fieldName; it counts rows",
    ),
    (
        {"metrics": [{"type": "longSum", "name": "n", "lgK": 12}]},
        "wrong spec: metrics[0]: metric 'n' of type longSum takes no lgK",
    ),
    (
        {"metrics": [{"type": "thetaSketch", "name": "n", "size": 1000}]},
        "wrong spec: metrics[0]: size of metric 'n' must be a power of two, not 1000",
    ),
    (
        {"metrics": [{"type": "count", "name": "n"}, {"type": "longSum", "name": "n"}]},
        "wrong spec: metric n is defined more than once",
    ),
    (
        {"dimensions": ["n"], "metrics": [{"type": "count", "name": "n"}]},
        "wrong spec: n is both a dimension and a metric; rename one",
    ),
    (
        {"granularitySpec": {"queryGranularity": "day", "segmentGranularity": "hour"}},
        "wrong spec: granularitySpec: queryGranularity DAY is coarser than segmentGranularity HOUR",
    ),
    (
        {"granularitySpec": {"segmentGranularity": "none"}},
        "wrong spec: granularitySpec: segmentGranularity none would make a time chunk of every millisecond",
    ),
    (
        {"intervals": ["2013-02-01/2013-01-01"]},
        "wrong spec: granularitySpec.intervals[0]: interval '2013-02-01/2013-01-01' must end after it "
        "starts; its end is excluded",
    ),
    (
        {
            "mode": "replace",
            "intervals": ["2013-01-01T00:30/2013-01-02"],
            "granularitySpec": {"queryGranularity": "hour"},
        },
        "wrong spec: interval 2013-01-01T00:30Z/2013-01-02 is not aligned to queryGranularity HOUR",
    ),
    (
        {"replaceScope": "chunks"},
        "wrong spec: replaceScope goes with mode replace; remove it or set mode",
    ),
    (
        {"mode": "replace", "replaceScope": "intervals"},
        "wrong spec: replacing intervals needs granularitySpec.intervals",
    ),
    (
        {"partitionsSpec": {"type": "hashed", "numShards": 2, "targetRowsPerSegment": 5}},
        "wrong spec: partitionsSpec: give numShards or targetRowsPerSegment, not both",
    ),
    (
        {"partitionsSpec": {"type": "round"}},
        "wrong spec: partitionsSpec: type 'round' is not one of dynamic, hashed, range",
    ),
    (
        {"dimensions": ["a"], "partitionsSpec": {"type": "range", "partitionDimensions": ["b"]}},
        "wrong spec: partitionDimensions names b, which is no dimension",
    ),
    (
        {"dimensions": ["a"], "tuningConfig": {"sortBy": ["b"]}},
        "wrong spec: sortBy names b, which is no column",
    ),
    (
        {"tuningConfig": {"maxParseExceptions": "many"}},
        "wrong spec: tuningConfig.maxParseExceptions: must be a whole number, not 'many'",
    ),
    (
        {"tuningConfig": {"maxParseExceptions": -2}},
        "wrong spec: tuningConfig.maxParseExceptions: must be greater than or equal to 0, not -2",
    ),
    ({"writer": "a"}, "wrong spec: writer and batch go together; give both or none"),
    (
        {"transforms": [{"name": "a", "expression": "b"}, {"name": "a", "expression": "c"}]},
        "wrong spec: transforms: transform a is defined more than once",
    ),
    (
        {"transforms": [{"name": "a", "expression": "uper(b)", "type": "druid"}]},
        "wrong spec: transformSpec.transforms[0].expression: expression 'uper(b)': function uper is "
        "not supported; did you mean 'upper'?",
    ),
    (
        {"transformSpec": {"filter": {"type": "selectr", "dimension": "a"}}},
        "wrong spec: transformSpec.filter: there is no filter 'selectr'; did you mean 'selector'?",
    ),
]


@pytest.mark.parametrize(("fields", "message"), NATIVE, ids=[m[12:70] for _, m in NATIVE])
def test_each_mistake_has_its_sentence(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as caught:
        load_spec({**GOOD, **fields})
    assert caught.value.message == message


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        load_spec({"mode": "x", "input": {"paths": "a", "fliter": "b"}})
    assert caught.value.message == (
        "wrong spec, 3 problems: (1) dataSource: is required; "
        "(2) mode: 'x' is not one of append, replace; "
        "(3) input.fliter: unknown field; did you mean 'filter'?"
    )
    assert caught.value.ids["problems"] == [
        {"path": "dataSource", "message": "is required"},
        {"path": "mode", "message": "'x' is not one of append, replace"},
        {"path": "input.fliter", "message": "unknown field; did you mean 'filter'?"},
    ]


def test_a_text_beside_rows_is_a_spec_or_a_name() -> None:
    for name in ("edits", "a:b", "[1]", "a {b}", "cafés - été", "insert"):
        assert not is_spec_text(name)
    for text in (
        '{"dataSource":"w"',
        "dataSource: w",
        "a:\n  b",
        "INSERT INTO a SELECT 1",
        "\ufeff {}",
    ):
        assert is_spec_text(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"dataSource": "w" "input": "x"}',
            "the spec is not valid JSON: line 1, column 20: expecting ',' delimiter",
        ),
        (
            "dataSource: w\ninput: [a",
            "the spec is not valid YAML: line 2, column 10: expected ',' or ']', but got '<stream end>'",
        ),
        (
            "spec.json",
            "a spec is an object with fields, not the text 'spec.json'; to read a file, give its content",
        ),
        ("", "a spec is an object with fields, not an empty text"),
        ("- a\n- b", "a spec is an object with fields, not a list"),
        ("a: \x00", "the spec is not valid YAML: it holds a character that YAML forbids"),
    ],
)
def test_texts_that_are_no_spec(text: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        load_spec(text)
    assert caught.value.message == message


@pytest.mark.parametrize("load", [load_spec, load_compaction])
def test_a_file_that_is_no_spec_is_named(load: Callable[..., object]) -> None:
    with pytest.raises(Invalid, match=r"not the text 'cd x make' of run\.sh$"):
        load("cd x\nmake\n", name="run.sh")
