"""How a JVM of ours ended: by itself once nobody needs it, or because somebody told it to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkConf

from carnac.errors import Unavailable
from carnac.ports.temporary import own_folder
from carnac.spark.interrupts import Held
from carnac.spark.jvm import TOLD_TO_END, JavaEnded, exit_code_of, open_gateway
from tests.waiting import until

TOLD = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _hears_signals() -> Iterator[None]:
    """Undo what a parent such as nohup makes all of its children deaf to."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in TOLD}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def child(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE)


def lay_submit(home: Path, script: str) -> None:
    """Lay out a Spark whose JVM does what a script says; its second argument is a file in the folder of its start."""
    submit = home / "bin/spark-submit"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\n{script}\n")
    submit.chmod(0o755)


@pytest.mark.parametrize("number", TOLD)
@pytest.mark.parametrize("way", ["kill -{} $$", "exit $((128 + {}))"])
def test_what_a_signal_ended_was_told_to_end(way: str, number: signal.Signals) -> None:
    assert exit_code_of(child(way.format(number.value))) in TOLD_TO_END


@pytest.mark.parametrize(
    ("script", "code"), [("cat", 0), ("cat; exit 3", 3), ("kill -KILL $$", -9)]
)
def test_what_nobody_needs_ends_and_was_not_told_to(script: str, code: int) -> None:
    found = exit_code_of(child(script))
    assert found == code
    assert found not in TOLD_TO_END


def test_where_there_is_none_there_is_no_exit_code() -> None:
    assert exit_code_of(None) is None
    assert None not in TOLD_TO_END


def test_what_a_killed_process_left_of_a_start_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_submit(tmp_path, 'echo "$2"; exit 3')
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    log = tmp_path / "log"
    with pytest.raises(JavaEnded):
        open_gateway(SparkConf(loadDefaults=False), log, Held(None))
    settings = Path(log.read_text().strip())
    assert own_folder("java") in settings.parents


STARTS = """
import sys
from pathlib import Path
from pyspark import SparkConf
from carnac.spark.interrupts import Held
from carnac.spark.jvm import open_gateway
open_gateway(SparkConf(loadDefaults=False), Path(sys.argv[1]), Held(None))
"""
ANOTHER = "from carnac.ports.temporary import own_folder; own_folder('java')"


@pytest.mark.slow
def test_a_jvm_that_outlives_its_killed_owner_keeps_the_folder_of_its_start(tmp_path: Path) -> None:
    scratch, go = tmp_path / "scratch", tmp_path / "go"
    scratch.mkdir()
    os.mkfifo(go)
    lay_submit(tmp_path, f"exec cat {go}")
    environ = {**os.environ, "SPARK_HOME": str(tmp_path), "TMPDIR": str(scratch)}

    def start_another() -> None:
        subprocess.run([sys.executable, "-c", ANOTHER], env=environ, check=True)

    def is_clean() -> bool:
        start_another()
        return list(scratch.iterdir()) == []

    owner = subprocess.Popen([sys.executable, "-c", STARTS, str(tmp_path / "log")], env=environ)
    with go.open("wb"):  # opens once the JVM is there, which ends when it is closed
        owner.kill()
        owner.wait()
        start_another()
        assert len(list(scratch.glob("carnac-java-*/*/settings"))) == 1
    until(is_clean, "the end of the folder, after that of the JVM")


def test_a_jvm_that_never_says_that_it_is_up_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_submit(tmp_path, "exec cat > /dev/null")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match="its Java is not up after 0 s"):
        open_gateway(SparkConf(loadDefaults=False), tmp_path / "log", Held(None), polls_max=1)
