from __future__ import annotations

import socket
from pathlib import Path

import pytest

from carnac.errors import Unavailable
from carnac.spark.startup import require_master, size_of_log, told_if_slow, why_it_does_not_start
from tests.waiting import PATIENCE_S

PRINTED = {
    "a master that is none": (
        'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or local\n'
        "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1035)\n",
        "Master must either be yarn or local",
    ),
    "no place for scratch files": (
        "26/11/22 10:07:34 INFO SparkEnv: Registering MapOutputTracker\n"
        "26/11/22 10:07:34 ERROR DiskBlockManager: Failed to create any local dir.\n",
        "Failed to create any local dir",
    ),
    "no memory for Java": (
        "Error occurred during initialization of VM\nToo small maximum heap\n",
        "Too small maximum heap",
    ),
    "a size that is none": (
        "Invalid maximum heap size: -Xmxlots\nError: Could not create the Java Virtual Machine.\n",
        "Invalid maximum heap size: -Xmxlots",
    ),
    "a script that finds no program": (
        "/spark/bin/spark-submit: line 27: dirname: command not found\n",
        "dirname: command not found",
    ),
}


@pytest.mark.parametrize(("printed", "reason"), PRINTED.values(), ids=PRINTED)
def test_what_java_printed_is_the_reason(printed: str, reason: str, tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("Error: of a start before\n")
    begins_at = size_of_log(log)
    error = Unavailable("its Java ended with exit code 1")
    assert why_it_does_not_start(error, log, begins_at) == "its Java ended with exit code 1"
    with log.open("a") as lines:
        lines.write(printed)
    assert why_it_does_not_start(error, log, begins_at) == reason


def test_a_java_exception_says_its_last_cause(tmp_path: Path) -> None:
    error = RuntimeError(
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": org.apache.spark.SparkException: Job aborted\n\tat a.b(C.scala:1)\n"
        "Caused by: org.apache.spark.SparkException: [INVALID.MEMORY] Insufficient driver memory: 100 of 471.\n"
    )
    assert why_it_does_not_start(error, tmp_path / "none", 0) == (
        "Insufficient driver memory: 100 of 471"
    )


def test_a_master_that_nobody_listens_at_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        require_master(f"spark://127.0.0.1:{port}")
        require_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    master = f"spark://127.0.0.1:{port}"
    with pytest.raises(Unavailable, match="does not answer: Connection refused"):
        require_master(master)
    for other in ("local[2]", "yarn", "spark://nobody"):
        require_master(other)


def test_a_slow_start_is_told_of_once() -> None:
    said: list[str] = []
    with told_if_slow(said.append, "starting", after_s=0) as told:
        assert told.wait(PATIENCE_S)
    assert said == ["starting"]


def test_a_fast_start_and_one_that_nobody_waits_for_are_silent() -> None:
    said: list[str] = []
    with told_if_slow(said.append, "starting", after_s=PATIENCE_S) as told:
        pass
    with told_if_slow(None, "starting", after_s=0) as nobody:
        pass
    assert said == []
    assert not told.is_set()
    assert not nobody.is_set()
