"""`demo locks` on real Spark tasks: late rows for chunks that are being compacted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from carnac.core.intervals import parse_interval
from tests.e2e.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_no_append_waits_and_no_compaction_is_lost_but_under_classic_locks(
    run: Run, tmp_path: Path, spark: SparkSession
) -> None:
    assert spark is not None
    small = ("--appends", "3", "--rows", "200")
    done = run("demo", "locks", "--keep", "out", *small, "--json")
    said = json.loads(done.out)
    assert said["ok"]
    assert [one["locks"] for one in said["runs"]] == ["exclusive", "segment", "default"]
    for one in said["runs"]:
        assert one["rows"] == {"sent": 5700, "found": 5700, "distinct": 5700}
        assert one["compactions"]["finished"] >= 6
        assert one["stableAfterMs"] > 0
    for one in said["runs"][1:]:
        assert one["appends"]["sent"] == 3
        assert one["appends"]["delayed"] == 0
        assert one["compactions"]["started"] == one["compactions"]["finished"]
        assert one["compactions"]["bytesWasted"] == 0
    picture = (tmp_path / "out" / "late-data.svg").read_text()
    assert "all stable" in picture
    segments = json.loads(run("segments", "default", "--store", "out/store", "--json").out)
    chunks = [segment["chunk"] for segment in segments["segments"]]
    assert len(chunks) == len(set(chunks)) == 6
    assert parse_interval(chunks[0]).start_ms == parse_interval("2024-03-04/PT1H").start_ms


def test_a_folder_of_somebody_else_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    done = run("demo", "locks", "--keep", "mine", code=2)
    assert "mine holds files that are not the demo's" in done.err
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
