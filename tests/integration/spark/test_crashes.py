"""Workers that die, and storage that cannot be written: every row once or one sentence, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.errors import Invalid, Unavailable
from carnac.jobs.context import STAGING_FOLDER
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import ChunkLayout, JobProgress
from carnac.spark.progress import Phase
from carnac.spark.session import SparkHolder
from carnac.spark.tasks import Attempt, run_tasks
from tests.integration.spark.conftest import MakeSpec
from tests.integration.spark.rows import files_below, rows_of

pytestmark = pytest.mark.spark

DAY = ChunkLayout(segment_granularity="day")
FILES, ROWS_PER_FILE = 8, 30_000


def python_workers() -> list[int]:
    """Return the process ids of Spark's Python workers below this process: forks of Spark's daemon."""
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        pid = int(entry.name)
        parents[pid] = int(stat[1])
        if b"pyspark.worker" in command:  # what every daemon is told to fork
            daemons.add(pid)
    mine = {pid for pid in daemons if _descends(pid, parents)}
    return sorted(pid for pid in mine if parents[pid] in daemons)


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == os.getpid():
            return True
        pid = parents[pid]
    return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
def test_workers_killed_in_both_passes_lose_and_double_no_row(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for index in range(FILES):
        with (folder / f"{index}.json").open("w") as file:
            for row in range(ROWS_PER_FILE):
                at_ms = 1_704_067_200_000 + row * 20_000
                number = index * ROWS_PER_FILE + row
                file.write(json.dumps({"t": at_ms, "d": f"x{row % 7}", "n": number}) + "\n")
    killed: dict[str, list[int]] = {}

    def kill_once(progress: JobProgress) -> None:
        if progress.phase in killed or not progress.rows or progress.done == progress.total:
            return
        killed[progress.phase] = python_workers()
        for pid in killed[progress.phase]:
            os.kill(pid, signal.SIGKILL)

    spec = make_spec(input={"type": "files", "paths": [str(folder)]})
    result = pipeline.run_ingest(spec, DAY, on_progress=kill_once)
    assert killed["read"]
    total = FILES * ROWS_PER_FILE
    assert rows_of(deep_storage, result.segments, "n") == Counter((n,) for n in range(total))
    assert result.report.rows_read == total
    assert files_below(deep_storage) == sorted(segment.path for segment in result.segments)


def test_deep_storage_that_cannot_be_written_is_one_sentence(
    spark_holder: SparkHolder, make_spec: MakeSpec, tmp_path: Path
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    pipeline = SparkPipeline(
        output_url=in_the_way.as_uri(), clock=SystemClock(), ids=RandomIds(), spark=spark_holder
    )
    spec = make_spec(json.dumps({"t": "2024-01-01", "d": "a", "n": 1}) + "\n")
    with pytest.raises(Unavailable) as caught:
        pipeline.run_ingest(spec, DAY)
    assert "\n" not in caught.value.message
    assert in_the_way.read_text() == "not a folder"


def test_an_error_of_ours_comes_home_as_it_was(spark_holder: SparkHolder) -> None:
    def fail(number: int, attempt: Attempt) -> int:
        if number == 1:
            raise Invalid("one is no good", number=number)
        return number

    with pytest.raises(Invalid, match=r"^one is no good$") as caught:
        run_tasks(
            spark_holder, fail, [0, 1, 2], phase=Phase(name="x", total=3), clock=SystemClock()
        )
    assert caught.value.ids == {"number": 1}


def test_what_may_pass_is_tried_again(spark_holder: SparkHolder, tmp_path: Path) -> None:
    marker = str(tmp_path / "tried")

    def fail_once(number: int, attempt: Attempt) -> int:
        if number == 1 and not os.path.exists(marker):  # noqa: PTH110 - runs in a worker, bare
            open(marker, "w").close()  # noqa: PTH123
            raise Unavailable("come back later")
        return number * 10

    found = run_tasks(
        spark_holder, fail_once, [0, 1, 2], phase=Phase(name="x", total=3), clock=SystemClock()
    )
    assert found == [0, 10, 20]


def test_what_does_not_pass_is_raised_as_it_was(spark_holder: SparkHolder) -> None:
    def full(number: int, attempt: Attempt) -> int:
        raise OSError(28, "No space left on device", "/some/where")

    with pytest.raises(Unavailable, match=r"^the disk is full \(/some/where\)"):
        run_tasks(spark_holder, full, [0], phase=Phase(name="x", total=1), clock=SystemClock())


def test_a_staging_folder_that_takes_no_rows_is_one_sentence(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    deep_storage.mkdir(parents=True, exist_ok=True)
    (deep_storage / STAGING_FOLDER).write_text("in the way")
    spec = make_spec(input={"type": "frame", "frame": "arrow"})
    with pytest.raises(Unavailable, match=f"^reading or writing failed .*{STAGING_FOLDER}"):
        pipeline.run_ingest(spec, DAY, rows=pa.table({"t": [0], "d": ["a"]}))
    assert files_below(deep_storage) == [STAGING_FOLDER]
