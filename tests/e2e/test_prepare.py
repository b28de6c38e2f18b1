"""`carnac prepare`: the archive of Java classes is made, used, and does no harm when it is damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.class_archive import CACHES, prepare_once
from tests.e2e.cli import run_process

pytestmark = pytest.mark.e2e

EVENT = '{"time": "2024-03-04T09:00:00Z", "n": 1}\n'
SPEC = {
    "dataSource": "events",
    "input": "events.jsonl",
    "timestampSpec": {"column": "time", "format": "iso"},
    "dimensions": [{"name": "n", "type": "long"}],
    "granularitySpec": {"segmentGranularity": "day"},
}


@pytest.mark.nightly("starts Spark twice more")
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)  # it may be the one that makes the archive, which waits for a disk
def test_is_used_once_it_is_there_and_passed_over_when_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "events.jsonl").write_text(EVENT)
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    assert run_process(["init"], cwd=tmp_path).code == 0

    made = prepare_once(is_patient=True)
    assert made is not None
    assert made.code == 0, made.err
    archive = Path(made.json["path"])
    assert archive.is_relative_to(os.environ[CACHES])
    assert archive.stat().st_size == made.json["size_bytes"] > 10_000_000
    # beside logs of Spark, and the mark that a slow start told somebody of it
    kept = [path for path in archive.parent.iterdir() if path.is_file()]
    assert [path for path in kept if path.suffix != ".told"] == [archive]
    assert str(archive) in run_process(["doctor"], cwd=tmp_path).out

    # Java ends at once if it is to have an archive and cannot use the one that it is given.
    is_required = json.dumps({"spark.driver.extraJavaOptions": "-Xshare:on"})
    monkeypatch.setenv("CARNAC_SPARK_CONF", is_required)
    assert run_process(["ingest", "spec.json"], cwd=tmp_path).code == 0

    monkeypatch.setenv(CACHES, str(tmp_path / "my cache"))
    assert "carnac prepare" in run_process(["doctor"], cwd=tmp_path).out
    damaged = tmp_path / "my cache" / "carnac" / archive.name
    damaged.parent.mkdir(parents=True)
    damaged.touch()
    os.truncate(damaged, archive.stat().st_size)  # nothing but zeros
    refused = run_process(["ingest", "spec.json"], cwd=tmp_path)
    assert refused.code != 0
    assert "Spark does not start" in refused.err

    monkeypatch.delenv("CARNAC_SPARK_CONF")
    assert run_process(["ingest", "spec.json"], cwd=tmp_path).code == 0


def test_there_is_nothing_to_prepare_for_a_spark_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARNAC_SPARK_MASTER", "spark://there:7077")
    refused = run_process(["prepare"], cwd=tmp_path)
    assert refused.code == 2
    assert refused.err == (
        "error: Spark runs at spark://there:7077, not on this machine: there is nothing to prepare\n"
    )


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    refused = run_process(["prepare"], cwd=tmp_path)
    assert refused.code == 4
    assert "cannot be written" in refused.err
    assert "XDG_CACHE_HOME" in refused.err
    assert len(refused.err.splitlines()) == 1
