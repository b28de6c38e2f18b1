"""Late rows on real Spark tasks for chunks that are being compacted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.late_data.__main__ import main
from carnac.core.segments.lateness import LATENESSES
from carnac.core.time.intervals import Interval, parse_interval
from tests.e2e.conftest import Run
from tests.support.lateness import count_late

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_MS = 3_600_000
pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.nightly("runs its experiment once for each kind of locks")
def test_no_append_waits_and_no_compaction_is_lost_but_under_classic_locks(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    assert spark is not None
    assert main(["--keep", "out", "--appends", "3", "--rows", "200", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
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
    for one in said["runs"]:
        late = run("late", one["locks"], "--limit", "0", "--store", "out/store", "--json").json
        found = Counter({(line["chunk"], line["lateness"]): line["rows"] for line in late["lines"]})
        sure, most = late_in_source(run, one["locks"])
        assert sure <= found <= most
        assert late["total"]["rows"] == late["total"]["rows_folded"] > 900
    picture = (tmp_path / "out" / "late-data.svg").read_text()
    assert "all stable" in picture
    segments = json.loads(run("segments", "default", "--store", "out/store", "--json").out)
    chunks = [segment["chunk"] for segment in segments["segments"]]
    assert len(chunks) == len(set(chunks)) == 6
    assert parse_interval(chunks[0]).start_ms == parse_interval("2024-03-04/PT1H").start_ms


Late = Counter[tuple[str, str]]
"""Late rows of each chunk and lateness."""


def late_in_source(run: Run, datasource: str) -> tuple[Late, Late]:
    """Return how many late rows there are for sure, and at most, counted one by one in the order that they were sent.

    Of two late appends at a time, either may be first; the newest row is then that of before, or one of the stream.
    """
    sql = f'SELECT epoch_ms(__time) AS t FROM "{datasource}" ORDER BY id'
    lines = run("sql", sql, "--format", "jsonl", "--store", "out/store").out.splitlines()
    times = [json.loads(line)["t"] for line in lines]
    base, stream = times[:4800], times[4800:]
    sure: Late = Counter()
    for start in range(0, 4800, 1200):
        sure += late_of(base[start : start + 1200], max(base[:start], default=None))
    first, last = (late_of(stream, newest_ms) for newest_ms in (max(base), max(times)))
    assert (last - first).total() < 9, "it hardly matters"
    return sure + (first & last), sure + (first | last)


def late_of(times: list[int], newest_ms: int | None) -> Late:
    found: Late = Counter()
    for at_ms in times:
        start_ms = at_ms // HOUR_MS * HOUR_MS
        counts = count_late([at_ms], newest_ms)
        for lateness, count in zip(LATENESSES, counts, strict=True):
            found[str(Interval(start_ms, start_ms + HOUR_MS)), str(lateness)] += count
    return +found


def test_a_folder_of_somebody_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    assert main(["--keep", str(tmp_path / "mine")]) == 2
    assert "mine holds files that are not the demo's" in capsys.readouterr().err
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
