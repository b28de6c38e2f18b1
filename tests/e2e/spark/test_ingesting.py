"""`ingest` and `delete --where` through Spark: what is reported, quarantined and published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DRUID = {
    "type": "index_parallel",
    "spec": {
        "dataSchema": {
            "dataSource": "edits",
            "timestampSpec": {"column": "time", "format": "iso"},
            "dimensionsSpec": {"dimensions": ["page", {"type": "long", "name": "added"}]},
            "granularitySpec": {
                "segmentGranularity": "day",
                "queryGranularity": "none",
                "rollup": False,
            },
        },
        "ioConfig": {
            "type": "index_parallel",
            "inputSource": {"type": "local", "baseDir": "in", "filter": "*.jsonl"},
            "inputFormat": {"type": "json"},
            "appendToExisting": True,
        },
        "tuningConfig": {"type": "index_parallel", "maxRowsInMemory": 1000},
    },
}
GOOD = [
    {"time": "2015-09-12T01:00:00Z", "page": "a", "added": 1},
    {"time": "2015-09-12T02:00:00Z", "page": "b", "added": 2},
    {"time": "2015-09-13T03:00:00Z", "page": "c", "added": 3},
]


@pytest.fixture
def loaded(run: Run, tmp_path: Path, spark: SparkSession) -> Run:
    """Three good rows and two bad ones, ingested by a Druid spec into `events`, as revision 1."""
    assert spark is not None
    (tmp_path / "in").mkdir()
    bad = ['{"time": "noon", "page": "d"}', '{"time": "2015-09-12T04:00:00Z", "page"']
    lines = [json.dumps(row) for row in GOOD] + bad
    (tmp_path / "in" / "edits.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "druid.json").write_text(json.dumps(DRUID))
    run("init", "events")
    return run


def pages(run: Run) -> str:
    rows = run("sql", "SELECT page FROM edits ORDER BY page", "--store", "events", "--json").json
    return "".join(row["page"] for row in rows["rows"])


def test_a_druid_spec_is_ingested_and_everything_is_told(loaded: Run) -> None:
    done = loaded("ingest", "druid.json", "-m", "first", "--store", "events", "--json")
    told = done.json
    assert (told["revision"], told["segments_added"], told["datasource"]) == (1, 2, "edits")
    report = told["report"]
    assert (report["rows_read"], report["rows_written"], report["rejected"]["count"]) == (5, 3, 2)
    assert sum(report["rejected"]["by_reason"].values()) == 2
    assert [item["path"] for item in told["ignored"]] == ["spec.tuningConfig.maxRowsInMemory"]
    assert "tasks" in done.err
    assert pages(loaded) == "abc"
    kept = loaded("quarantine", report["rejected"]["path"], "--store", "events", "--json").json[
        "rows"
    ]
    assert sorted(row["line"] for row in kept) == [4, 5]
    assert all(row["reason"] and row["raw"] for row in kept)
    assert (
        "edits.jsonl" in loaded("quarantine", report["rejected"]["path"], "--store", "events").out
    )


def test_the_report_for_people(loaded: Run) -> None:
    done = loaded("ingest", "druid.json", "--store", "events")
    lines = {
        line.rpartition("  ")[0].strip(): line.rpartition("  ")[2] for line in done.out.splitlines()
    }
    assert lines["rows read"] == "5"
    assert lines["rejected"] == "2"
    assert lines["written"] == "3"
    assert "published revision 1: 2 new segments in edits" in done.out
    assert "maxRowsInMemory has no effect" in done.err
    assert "2 rows rejected; see with: carnac quarantine quarantine/" in done.err


HOURS = """
dataSource: hours
input: [in/edits.jsonl]
timestampSpec: {column: time}
dimensions: [page, {name: twice, type: long}]
metrics: [{name: many, type: count, filter: "added > 2"}]
granularitySpec: {segmentGranularity: day, queryGranularity: hour}
transformSpec:
  transforms: [{name: twice, expression: "EXPRESSION"}]
  filter: "page <> 'b'"
"""


@pytest.mark.nightly("ingests once more")
def test_few_rows_that_need_no_spark_are_told_of_append(loaded: Run, tmp_path: Path) -> None:
    (tmp_path / "hours.yaml").write_text(HOURS.replace("EXPRESSION", "2 * added"))
    done = loaded("ingest", "hours.yaml", "--store", "events")
    [words] = re.findall(r"so few rows need no Spark: carnac (append \S+ .*) would", done.err)
    counted = "SELECT page, twice, sum(many) AS many FROM hours GROUP BY ALL ORDER BY page"
    asked = ("sql", counted, "--store", "events", "--json", "--at")
    by_spark = loaded(*asked, "1").json["rows"]
    assert by_spark == [
        {"page": "a", "twice": 2, "many": 0},
        {"page": "c", "twice": 6, "many": 1},
    ]
    loaded("revert", "1", "--store", "events")
    loaded(*words.split(), "--store", "events")
    assert loaded(*asked, "3").json["rows"] == by_spark


def test_what_only_spark_computes_is_not_told_of_append(loaded: Run, tmp_path: Path) -> None:
    text = HOURS.replace("EXPRESSION", "levenshtein(page, time)")
    (tmp_path / "hours.yaml").write_text(text)
    assert "need no Spark" not in loaded("ingest", "hours.yaml", "--store", "events").err
    refused = loaded(
        "append", "hours", "in/edits.jsonl", "--spec", "hours.yaml", "--store", "events", code=2
    )
    assert "use ingest" in refused.err


def test_mode_input_and_dry_run_from_the_command_line(loaded: Run, tmp_path: Path) -> None:
    loaded("ingest", "druid.json", "--store", "events")
    row = {"time": "2015-09-13T09:00:00Z", "page": "z", "added": 9}
    (tmp_path / "more.jsonl").write_text(json.dumps(row) + "\n")
    plan = loaded(
        "ingest",
        "druid.json",
        "more.jsonl",
        "--replace",
        "--dry-run",
        "--store",
        "events",
        "--json",
    ).json
    assert (plan["mode"], plan["replace_scope"], plan["base_revision"]) == ("replace", "chunks", 1)
    assert pages(loaded) == "abc"
    replaced = loaded(
        "ingest", "druid.json", "more.jsonl", "--replace", "--store", "events", "--json"
    )
    assert (replaced.json["segments_added"], replaced.json["segments_dropped"]) == (1, 1)
    assert pages(loaded) == "abz"
    loaded("ingest", "druid.json", "--input", "more.jsonl", "--append", "--store", "events")
    assert pages(loaded) == "abzz"


def test_rows_that_match_are_deleted_and_come_back(loaded: Run) -> None:
    loaded("ingest", "druid.json", "--store", "events")
    done = loaded(
        "delete",
        "edits",
        "--where",
        "added >= 2",
        "--interval",
        "2015-09-12/P1D",
        "--store",
        "events",
        "--json",
    )
    assert (done.json["revision"], done.json["rows_deleted"]) == (2, 1)
    assert pages(loaded) == "ac"
    none = loaded("delete", "edits", "--where", "page = 'nobody'", "--store", "events")
    assert "nothing was published" in none.out
    loaded("revert", "2", "--store", "events")
    assert pages(loaded) == "abc"
    loaded("delete", "edits", "--where", "no_such_column = 1", "--store", "events", code=2)


def test_a_batch_is_published_once(loaded: Run, tmp_path: Path) -> None:
    spec = {
        "dataSource": "edits",
        "input": "in/edits.jsonl",
        "timestampSpec": {"column": "time"},
        "dimensions": ["page"],
        "writer": "w",
        "batch": "1",
    }
    (tmp_path / "once.json").write_text(json.dumps(spec))
    assert loaded("ingest", "once.json", "--store", "events", "--json").json["is_replay"] is False
    again = loaded("ingest", "once.json", "--store", "events")
    assert "was published before, as revision 1" in again.out
    assert pages(loaded) == "abc"
