"""Damaged segment files, from the command line: named, with the exit code of damage, and nobody else's business."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from carnac.errors import Corrupt
from tests.e2e.conftest import Run
from tests.unit.store.damage import flip_magic, truncate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DAYS = (12, 13, 14)


@pytest.fixture
def damaged(run: Run, tmp_path: Path, spark: SparkSession) -> Run:
    """Three days of three segments each. A file of the second day ends early, one of the third cannot be opened."""
    assert spark is not None
    run("init", "events")
    lines = [
        json.dumps({"time": f"2015-09-{day}T0{hour}:00:00Z", "page": "a", "added": hour})
        for day in DAYS
        for hour in range(9)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    spec = {
        "dataSource": "edits",
        "timestampSpec": {"column": "time", "format": "iso"},
        "dimensions": ["page", {"name": "added", "type": "long"}],
        "granularitySpec": {"segmentGranularity": "day"},
        "partitions": {"type": "dynamic", "maxRowsPerSegment": 3},
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    run("ingest", "spec.json", "rows.jsonl", "--store", "events")
    _, second, third = (segments_of(run, day)[0] for day in DAYS)
    truncate(place_of(tmp_path, second))
    lost = place_of(tmp_path, third)
    lost.unlink()
    lost.mkdir()
    return run


def segments_of(run: Run, day: int) -> list[dict[str, Any]]:
    found = run("segments", "edits", "--store", "events", "--json").json["segments"]
    return [one for one in found if one["chunk"].startswith(f"2015-09-{day}")]


def place_of(folder: Path, segment: dict[str, Any]) -> Path:
    return folder / "events" / "deep-storage" / segment["path"]


@pytest.mark.nightly("runs each way of rewriting over damaged files; each is tested alone by day")
def test_damage_is_named_and_stays_where_it_is(damaged: Run, tmp_path: Path) -> None:
    first, second, third = (segments_of(damaged, day)[0] for day in DAYS)
    _a_deletion_reads_no_flipped_bit(damaged, first, place_of(tmp_path, first))
    name, lost = second["segment_id"], third["segment_id"]

    done = damaged("compact", "edits", "--store", "events", "--json", code=Corrupt.exit_code)
    groups = done.json["groups"]
    assert [one["outcome"] for one in groups] == ["committed", "failed", "failed"]
    assert f"segment {name} of edits is damaged (has " in groups[1]["error"]
    assert f"segment {lost} of edits is damaged (is not there)" in groups[2]["error"]
    assert len(segments_of(damaged, DAYS[0])) == 1

    (tmp_path / "auto.json").write_text('{"dataSource": "edits"}')
    damaged("compaction", "set", "auto.json", "--store", "events")
    done = damaged(
        "compact", "--auto", "--until-stable", "--store", "events", code=Corrupt.exit_code
    )
    assert "2 time chunks failed and will be tried again later" in done.out
    assert f"segment {name} of edits is damaged (has " in done.err
    told = damaged("compact", "edits", "--explain", "--store", "events").out
    assert f"segment {name} of edits is damaged" in told


def _a_deletion_reads_no_flipped_bit(run: Run, segment: dict[str, Any], place: Path) -> None:
    good, head = place.read_bytes(), run("log", "--store", "events", "--json").json
    flip_magic(place)
    where = ["--where", "added = 1", "--interval", "2015-09-12/P1D"]
    refused = run("delete", "edits", *where, "--store", "events", code=Corrupt.exit_code)
    assert f"file {segment['path']} of segment {segment['segment_id']} of edits" in refused.err
    assert "is damaged (its bytes are not those that were written); run 'verify'" in refused.err
    assert run("log", "--store", "events", "--json").json == head
    place.write_bytes(good)
