"""How a JVM of ours ended: by itself once nobody needs it, or because somebody told it to."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkConf

from carnac.ports.temporary import own_folder
from carnac.spark.interrupts import Held
from carnac.spark.jvm import TOLD_TO_END, JavaEnded, exit_code_of, open_gateway

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
    submit = tmp_path / "bin/spark-submit"
    submit.parent.mkdir()
    submit.write_text('#!/bin/sh\necho "$2"\nexit 3\n')
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    log = tmp_path / "log"
    with pytest.raises(JavaEnded):
        open_gateway(SparkConf(loadDefaults=False), log, Held(None))
    settings = Path(log.read_text().strip())
    assert own_folder("java") in settings.parents
