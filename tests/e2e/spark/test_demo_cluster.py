"""`demo cluster`: real processes, two of them killed, and every answer held against its revision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.nightly("starts a cluster and kills its processes in turn")
def test_no_answer_is_wrong_short_or_missing_while_servers_die(
    run: Run, tmp_path: Path, spark: SparkSession
) -> None:
    assert spark is not None
    done = run("demo", "cluster", "--keep", "out", "--pause", "0.2", "--json")
    said = json.loads(done.out)
    queries = said["queries"]
    assert said["examples"] == []
    assert said["ok"]
    assert queries["asked"] == queries["right"] > 100
    assert said["revisions"] >= 5
    picture = (tmp_path / "out" / "cluster.svg").read_text()
    assert "historical-1 is killed with SIGKILL" in picture
    assert "the coordinator is killed with SIGKILL" in picture
