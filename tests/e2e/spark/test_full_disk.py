"""Disks that fill while Spark jobs write: a sentence each, nothing half done, and with room again all goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.spark.full_disk_script import TEMPORARY
from tests.e2e.test_full_disk import find_unsharing

pytestmark = pytest.mark.nightly("starts Spark once more, on disks of its own")

SCRIPT = "tests.e2e.spark.full_disk_script"
MAKE_ROOM = "is full; make room and run the job again (carnac gc deletes what is garbage)"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script saw, in a process that may mount small disks of its own."""
    folder = tmp_path_factory.mktemp("disks")
    unsharing = find_unsharing(folder)
    done = subprocess.run(
        [*unsharing, sys.executable, "-m", SCRIPT, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout)
    names = (path.name for path in (folder / TEMPORARY).iterdir())
    told["left behind"] = [name for name in names if not name.startswith(("spark-", "blockmgr-"))]
    return told


JOBS = ["in one task", "Spark's plan", "delete", "append", "replace"]


@pytest.mark.parametrize("job", JOBS)
def test_deep_storage_without_room(told: dict[str, Any], job: str) -> None:
    saw = told[job]
    assert saw["errors"], "it failed"
    for error in saw["errors"]:
        assert error.startswith("the disk of "), error
        assert error.endswith(MAKE_ROOM), error
        assert "\n" not in error
    assert saw["new_files"] == [], "nothing half done"
    assert saw["rows"] == told["rows"]


@pytest.mark.parametrize("job", ["in one task", "Spark's plan"])
def test_what_a_compaction_wrote_until_the_disk_was_full_is_reported(
    told: dict[str, Any], job: str
) -> None:
    assert 0 < told[job]["bytes_wasted"] <= told["room_bytes"] * told[job]["groups"]


def test_a_group_without_room_rests_and_says_why(told: dict[str, Any]) -> None:
    saw = told["controller"]
    assert saw["resting"] == saw["chunks"] > 0
    assert all(MAKE_ROOM in reason for reason in saw["reasons"])
    assert saw["bytes_wasted"] > 0
    assert saw["new_files"] == []


def test_with_room_again_what_rested_is_compacted(told: dict[str, Any]) -> None:
    saw = told["with room"]
    assert saw["resting"] == 0
    assert saw["segments"] == saw["chunks"] == told["controller"]["chunks"]
    assert saw["rows"] == told["rows"]
    assert saw["verified"] == []


def test_temporary_folders_are_gone_also_those_of_tasks_that_were_cancelled(
    told: dict[str, Any],
) -> None:
    assert told["left behind"] == []


def test_a_metadata_store_whose_disk_fills_while_a_job_runs(told: dict[str, Any]) -> None:
    saw = told["metadata"]
    assert [one.split(" is full")[0].split("/")[0] for one in saw["errors"]] == [
        "the disk of the metadata store "
    ] * len(saw["errors"])
    assert saw["errors"], "it failed"
    assert saw["new_files"] == []
    assert saw["bytes_wasted"] > 0
    assert saw["rows"] == told["rows"]
