"""A mistake in the text of a spec is named with its line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from carnac.errors import Invalid
from carnac.specs.compaction.spec import load_compaction
from carnac.specs.ingest.transforms import find_unchecked
from carnac.specs.load import load_spec
from carnac.specs.tasks.spec import load_task_text

YAML = """\
dataSource: edits
input: edits.jsonl
timestampSpec:
  column: time
  formt: iso
dimensions:
  - page
  - name: added
    type: lng
metrics:
  - {type: count, name: n}
  - type: longSum
    name: total
    filter: added > (3
transforms:
  transforms:
    - name: x
      expression: upper(page)
    - name: y
      expression: "'open"
  filter: page =
"""


def message_of(text: str, name: str | None = None) -> str:
    with pytest.raises(Invalid) as caught:
        load_spec(text, name=name)
    return caught.value.message


def test_fields_of_yaml_are_named_with_file_and_line() -> None:
    assert message_of(YAML, "edits.yaml") == (
        "wrong spec edits.yaml, 5 problems:"
        " (1) timestampSpec.formt (line 5): unknown field; did you mean 'format'?;"
        " (2) dimensions.dimensions[1].type (line 9): 'lng' is not one of string, long, float, double, boolean,"
        " json, array<string>, array<long>, array<double>, auto; did you mean 'long'?;"
        " (3) transformSpec.transforms[1].expression (line 20): the quote ' at character 1 does not end;"
        " (4) transformSpec.filter (line 21): it ends where a value should be;"
        " (5) metricsSpec[1].filter (line 14): '(' at character 9 is not closed"
    )


def test_expressions_are_read_where_parts_do_not_go_together() -> None:
    text = 'dataSource: x\ninput: a.csv\nwriter: w\ntransforms: [{name: y, expression: "upper(page"}]\n'
    assert message_of(text) == (
        "wrong spec, 2 problems: (1) line 1: writer and batch go together; give both or none;"
        " (2) transformSpec.transforms[0].expression (line 4): '(' at character 6 is not closed"
    )


def test_expressions_and_filters_are_read_too() -> None:
    text = YAML.replace("  formt: iso\n", "").replace("lng", "long")
    assert message_of(text) == (
        "wrong spec, 3 problems:"
        " (1) transformSpec.transforms[1].expression (line 19): the quote ' at character 1 does not end;"
        " (2) transformSpec.filter (line 20): it ends where a value should be;"
        " (3) metricsSpec[1].filter (line 13): '(' at character 9 is not closed"
    )


def druid(**schema: Any) -> dict[str, Any]:
    return {
        "type": "index_parallel",
        "spec": {
            "dataSchema": {
                "dataSource": "edits",
                "timestampSpec": {"column": "time"},
                "dimensionsSpec": {"dimensions": ["page"]},
                **schema,
            },
            "ioConfig": {
                "type": "index_parallel",
                "inputSource": {"type": "inline", "data": "{}"},
                "inputFormat": {"type": "json"},
            },
        },
    }


def test_druids_specs_of_json_are_named_by_their_own_lines() -> None:
    block = druid(
        transformSpec={
            "transforms": [{"type": "expression", "name": "x", "expression": "concat(a"}]
        }
    )
    text = json.dumps(block, indent="\t")
    message = message_of(text)
    line = next(i for i, one in enumerate(text.splitlines(), 1) if '"expression": "concat' in one)
    assert f"spec.dataSchema.transformSpec.transforms[0].expression (line {line})" in message


def test_a_task_names_the_lines_of_its_text() -> None:
    task = {"type": "index_parallel", "spec": {"dataSource": "e", "input": "a.json", "filtr": 1}}
    text = json.dumps(task, indent=1)
    with pytest.raises(Invalid, match=r"wrong spec t.json: spec\.filtr \(line 6\): unknown field"):
        load_task_text(task, text, name="t.json")


def test_one_line_and_what_is_no_text_have_no_lines() -> None:
    assert message_of('{"dataSource": "e", "input": "a", "x y": 1}') == (
        "wrong spec: x y: unknown field; remove it"
    )


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("a + ", "it ends where a value should be"),
        ("a ==  = b", "'=' at character 7 stands where a value should be"),
        ("concat(a, b))", "')' at character 13 closes nothing"),
        ("`a = 1", "the quote ` at character 1 does not end"),
        ("  ", "it is empty"),
        ("a[1", "'[' at character 2 is not closed"),
        ("if(a, , b)", "',' at character 7 stands where a value should be"),
    ],
)
def test_what_is_no_expression_whoever_reads_it_is_refused(expression: str, says: str) -> None:
    block = {
        "dataSource": "e",
        "input": "a.json",
        "transforms": [{"name": "x", "expression": expression}],
    }
    with pytest.raises(Invalid) as caught:
        load_spec(block)
    assert says in caught.value.message


@pytest.mark.parametrize(
    "expression",
    [
        "transform(array(1, 2), v -> v + 1)",
        "a rlike 'x'",
        "count(*) + 1",
        "a.b",
        "a[0]",
        "'it''s'",
        "r'x\\y'",
        "-- note\n 1",
        "date '2024-01-01'",
        "1 + 2 c",
        "extract(year from t)",
        "CAST(a AS DECIMAL(10, 2))",
        "a IS DISTINCT FROM b",
        "x'1F'",
        "1.5BD",
        "named_struct('a', 1).a",
        "a DIV b",
        "(select 1)",
        "interval 1 day",
        "~a",
        "case when a then b",
        "x NOT RLIKE 'y'",
        "a + uper(page)",
        "upper(page, page)",
    ],
)
def test_what_spark_may_read_is_left_to_spark(expression: str) -> None:
    block = {
        "dataSource": "e",
        "input": "a.json",
        "transforms": [{"name": "x", "expression": expression}],
    }
    (one,) = find_unchecked(load_spec(block))
    assert one.path == "transformSpec.transforms[0].expression"


@pytest.mark.parametrize(
    "expression", ["upper(page)", "a + 1 > `b c` and not c is null", "CASE a WHEN 1 THEN 'x' END"]
)
def test_what_is_read_here_is_checked(expression: str) -> None:
    block = {
        "dataSource": "e",
        "input": "a.json",
        "transforms": [{"name": "x", "expression": expression}],
    }
    assert find_unchecked(load_spec(block)) == []


def test_compaction_specs_have_lines_too() -> None:
    text = "dataSource: edits\ngranularitySpec:\n  segmentGranularity: dya\nslak: 1\n"
    with pytest.raises(
        Invalid, match=r"wrong spec c.yaml, 2 problems: .*line 3.*slak \(line 4\): unknown"
    ):
        load_compaction(text, name="c.yaml")
    text = "dataSource: edits\ntransformSpec:\n  filter: page = 'x\n"
    with pytest.raises(
        Invalid, match=r"transformSpec.filter \(line 3\): the quote ' at character 8"
    ):
        load_compaction(text)
