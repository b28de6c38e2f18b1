"""Ingestions that cannot be done: one sentence, and nothing is published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import Run
from tests.e2e.test_mistakes import SPEC, one_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("changes", "lines", "code", "says"),
    [
        ({"input": "missing.jsonl"}, [], 5, "missing.jsonl"),
        (
            {
                "tuningConfig": {"maxParseExceptions": 0},
                "dimensions": [{"name": "n", "type": "long"}],
            },
            ['{"timestamp": "2013-01-01T01:00:00Z", "n": "many"}'],
            2,
            "maxParseExceptions",
        ),
        (
            {"transforms": [{"name": "x", "expression": "no_such_function(n)"}]},
            ['{"timestamp": "2013-01-01T01:00:00Z", "n": 1}'],
            2,
            "no_such_function",
        ),
        (
            {"dimensions": [{"name": "n", "type": "long"}]},
            ['{"timestamp": "2013-01-01T01:00:00Z", "n": "many"}'] * 2,
            9,
            "all 2 rows were rejected: not a long: n (2); nothing was published",
        ),
        (
            {"dimensions": ["Name"]},
            ['{"timestamp": "2013-01-01T01:00:00Z", "name": "a"}'],
            2,
            "no row has the declared column 'Name' (did you mean 'name'?); nothing was published",
        ),
        (
            {"dimensions": ["x", "nam"], "transforms": [{"name": "x", "expression": "name"}]},
            ['{"timestamp": "2013-01-01T01:00:00Z", "name": "a"}'],
            2,
            "no row has the declared column 'nam' (did you mean 'name'?)",
        ),
    ],
    ids=[
        "missing input",
        "type that cannot be coerced",
        "wrong expression",
        "no row that can be read",
        "missing column",
        "missing column beside a transform",
    ],
)
def test_an_ingestion_that_cannot_be_done_publishes_nothing(
    run: Run,
    store: Path,
    tmp_path: Path,
    spark: SparkSession,
    *,
    changes: dict[str, object],
    lines: list[str],
    code: int,
    says: str,
) -> None:
    (tmp_path / "edits.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "spec.json").write_text(json.dumps({**SPEC, **changes}))
    assert spark is not None
    done = run("ingest", "spec.json", "--store", str(store), code=code)
    assert says in one_sentence(done)
    assert done.out == ""
    log = run("log", "--json", "--store", str(store)).json["commits"]
    assert [commit["revision"] for commit in log] == [3, 2, 1]


def test_spark_reads_the_expressions_of_a_spec_where_it_is_asked_to(
    run: Run, tmp_path: Path, spark: SparkSession
) -> None:
    assert spark is not None

    def write(expression: str) -> None:
        transforms = [{"name": "x", "expression": expression}]
        (tmp_path / "spec.json").write_text(json.dumps({**SPEC, "transforms": transforms}))

    write("page rlike 'x' garbage here")
    assert "as far as it was checked" in run("spec", "check", "spec.json").out
    done = run("spec", "check", "spec.json", "--spark", code=2)
    assert "transform 'x' is wrong" in one_sentence(done)
    write("uper(page)")
    done = run("spec", "check", "spec.json")
    assert "function uper; did you mean 'upper'?" in done.err
    assert done.out.endswith("the spec is right, as far as it was checked\n")
    done = run("spec", "check", "spec.json", "--spark", code=2)
    assert "transform 'x' is wrong: Spark has no function uper" in one_sentence(done)
    write("page rlike 'x'")
    assert run("spec", "check", "spec.json", "--spark").out.endswith("the spec is right\n")
