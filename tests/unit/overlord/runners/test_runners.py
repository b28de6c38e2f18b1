"""Runners: what they start, with which environment, and what they know of it afterwards."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import MutableMapping
from pathlib import Path

import pytest

from carnac.errors import Invalid, Unavailable
from carnac.overlord.runners import InProcessRunner, ProcessRunner, SparkSubmitRunner
from carnac.overlord.runners.submit import DRIVER
from tests.unit.overlord.runners.tasks import a_task, an_attempt
from tests.unit.overlord.runners.test_children import until

HOST = "here"
ECHO = "import os, sys; print(sys.argv[1:], {k: v for k, v in os.environ.items() if k[:7] == 'CARNAC_'})"


class Echo(ProcessRunner):
    """Runs, in place of carnac, a program that says how it was called."""

    def _program(
        self, task: object, conf: object, environ: MutableMapping[str, str], log: Path
    ) -> list[str]:
        return [sys.executable, "-c", ECHO]


def echo(tmp_path: Path, **spark_conf: str) -> Echo:
    return Echo(
        lambda task_id, number: ["task", "attempt", task_id, "--attempt", str(number)],
        environ={**os.environ, "CARNAC_STORE": "there"},
        spark_conf=spark_conf,
        logs=tmp_path / "logs",
        host=HOST,
    )


def test_a_child_gets_its_attempt_the_settings_and_the_spark_settings_of_the_task(
    tmp_path: Path,
) -> None:
    runner = echo(tmp_path, a="1", b="2")
    attempt = an_attempt(number=3)
    handle = runner.start(a_task(sparkConf={"b": "3"}), attempt)
    until(lambda: runner.is_alive(handle) is False)
    until(lambda: bool(runner.read_log(attempt)))
    said = runner.read_log(attempt) or ""
    assert said.startswith("['task', 'attempt', 'task-1', '--attempt', '3']")
    assert "'CARNAC_STORE': 'there'" in said
    assert f"'CARNAC_SPARK_CONF': {json.dumps({'a': '1', 'b': '3'})!r}" in said
    assert runner.read_log(attempt, tail_bytes=3) == said[-3:]
    assert runner.read_log(an_attempt(number=1)) is None
    runner.forget(attempt)
    runner.forget(attempt)
    assert runner.read_log(attempt) is None
    assert list((tmp_path / "logs").iterdir()) == []


@pytest.mark.parametrize("task_id", ["../../etc/passwd", "a/b", "..", "é 日:01"])
def test_no_id_leads_out_of_the_folder_of_logs(tmp_path: Path, task_id: str) -> None:
    runner = echo(tmp_path)
    attempt = an_attempt(task_id)
    handle = runner.start(a_task(task_id), attempt)
    until(lambda: runner.is_alive(handle) is False)
    until(lambda: bool(runner.read_log(attempt)))
    logs = list(tmp_path.rglob("*.log"))
    assert [path.parent.parent for path in logs] == [tmp_path / "logs"]


@pytest.mark.parametrize("conf", [["a"], {"a": 1}, "a=1"])
def test_spark_settings_that_are_no_texts_can_never_be_started(
    tmp_path: Path, conf: object
) -> None:
    with pytest.raises(Invalid, match="'sparkConf' of a task's context must be"):
        echo(tmp_path).start(a_task(sparkConf=conf), an_attempt())


def test_a_folder_of_logs_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    with pytest.raises(Unavailable, match="the log of attempt 1 of task task-1 has no place"):
        echo(tmp_path).start(a_task(), an_attempt())


# ---------------------------------------------------------------------------------------- spark-submit


def submitter(tmp_path: Path, master: str, deploy_mode: str = "client") -> SparkSubmitRunner:
    """A runner whose spark-submit prints its arguments, one a line, and its environment."""
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@"; env | grep -E "^(CARNAC|PYSPARK|JAVA|SPARK)_"\n'
        'stat -c "mode %a" "$6"; cat "$6"\n'
    )
    program.chmod(0o755)
    return SparkSubmitRunner(
        lambda task_id, number: ["task", "attempt", task_id, "--attempt", str(number)],
        master=master,
        deploy_mode=deploy_mode,
        prepare_java=lambda environ: environ.update(JAVA_HOME="/java"),
        environ={
            "PATH": os.environ["PATH"],
            "SPARK_HOME": str(tmp_path / "spark"),
            "CARNAC_STORE": "postgresql://u:secret@h/db",
        },
        spark_conf={"spark.executor.memory": "8g"},
        logs=tmp_path / "logs",
        host=HOST,
    )


def said_by(runner: SparkSubmitRunner) -> list[str]:
    """Start an attempt; return its log once it is whole: the file of settings, its sixth line, is gone then."""
    attempt = an_attempt()
    handle = runner.start(a_task(sparkConf={"spark.cores.max": "4"}), attempt)

    def said() -> list[str]:
        return (runner.read_log(attempt) or "").splitlines()

    until(lambda: runner.is_alive(handle) is False)
    until(lambda: len(said()) > 6 and not Path(said()[5]).exists())
    return said()


def test_in_client_mode_the_driver_is_here_and_has_our_python(tmp_path: Path) -> None:
    said = said_by(submitter(tmp_path, "spark://head:7077"))
    assert said[:4] == ["--master", "spark://head:7077", "--deploy-mode", "client"]
    end = said.index(str(DRIVER))
    assert said[4:end] == ["--properties-file", said[5], "--load-spark-defaults"]
    assert {line for line in said if line.startswith("spark.")} == {
        "spark.redaction.regex=(?i)secret|password|token|access[.]?key|CARNAC_",
        "spark.app.name=carnac task-1",
        "spark.ui.enabled=false",
        "spark.executor.memory=8g",
        "spark.cores.max=4",
    }
    assert said[end + 1 : end + 6] == ["task", "attempt", "task-1", "--attempt", "1"]
    environ = said[end + 6 :]
    assert "CARNAC_SPARK_MASTER=spark://head:7077" in environ
    assert f"PYSPARK_DRIVER_PYTHON={sys.executable}" in environ
    assert "JAVA_HOME=/java" in environ
    assert "mode 600" in said
    until(lambda: not Path(said[5]).exists())


@pytest.mark.parametrize(
    ("master", "prefix"),
    [("yarn", "spark.yarn.appMasterEnv."), ("k8s://https://h:6443", "spark.kubernetes.driverEnv.")],
)
def test_inside_a_cluster_the_driver_gets_its_settings_through_spark(
    tmp_path: Path, master: str, prefix: str
) -> None:
    said = said_by(submitter(tmp_path, master, "cluster"))
    assert said[:4] == ["--master", master, "--deploy-mode", "cluster"]
    assert not [line for line in said[: said.index(str(DRIVER))] if "secret" in line]
    assert f"{prefix}CARNAC_STORE=postgresql://u:secret@h/db" in said
    assert f"{prefix}CARNAC_SPARK_MASTER={master}" in said
    assert not [line for line in said if line.startswith("PYSPARK_DRIVER_PYTHON=")]


@pytest.mark.parametrize("master", ["spark://head:7077", "local[2]"])
def test_spark_runs_no_python_driver_inside_a_standalone_cluster(
    tmp_path: Path, master: str
) -> None:
    with pytest.raises(Invalid, match="no Python driver inside the cluster"):
        submitter(tmp_path, master, "cluster")


def test_without_spark_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"there is no spark-submit: SPARK_HOME is /no/such"):
        SparkSubmitRunner(
            lambda *_: [],
            master="yarn",
            prepare_java=lambda *_: None,
            environ={"SPARK_HOME": "/no/such"},
            spark_conf={},
            logs=tmp_path,
            host=HOST,
        )


# ------------------------------------------------------------------------------------------ in process


def test_a_thread_runs_the_attempt_and_what_it_logs_is_its_log() -> None:
    go, ran = threading.Event(), []

    def run(task_id: str, number: int) -> None:
        logging.getLogger("carnac.attempt").warning("at work on %s", task_id)
        assert go.wait(20)
        ran.append((task_id, number))

    runner = InProcessRunner(run, host=HOST, pid=os.getpid())
    attempt, other = an_attempt(runner="in_process"), an_attempt("task-2", runner="in_process")
    handle = runner.start(a_task(), attempt)
    assert runner.is_alive(handle) is True
    runner.stop(handle)
    assert runner.is_alive(handle) is True, "a thread ends by itself"
    until(lambda: bool(runner.read_log(attempt)))
    go.set()
    until(lambda: runner.is_alive(handle) is False)
    assert ran == [("task-1", 1)]
    assert (runner.read_log(attempt) or "").endswith("carnac.attempt: at work on task-1\n")
    assert runner.read_log(attempt, tail_bytes=5) == "sk-1\n"
    assert runner.read_log(other) is None
    runner.forget(attempt)
    assert runner.read_log(attempt) is None
    runner.close()


def test_a_thread_that_fails_says_so_in_its_log() -> None:
    def run(task_id: str, number: int) -> None:
        raise Unavailable("the database does not answer") if number == 1 else KeyError("bug")

    runner = InProcessRunner(run, host=HOST, pid=os.getpid())
    first, second = an_attempt(number=1), an_attempt(number=2)
    handles = [runner.start(a_task(), attempt) for attempt in (first, second)]
    until(lambda: not any(runner.is_alive(handle) for handle in handles))
    assert "the database does not answer" in (runner.read_log(first) or "")
    assert "ended with a bug" in (runner.read_log(second) or "")
    assert "KeyError" in (runner.read_log(second) or "")
    runner.close()


def test_a_thread_of_another_process_is_gone_when_that_is() -> None:
    runner = InProcessRunner(lambda *_: None, host=HOST, pid=os.getpid())
    here = runner.start(a_task(), an_attempt())
    until(lambda: runner.is_alive(here) is False)
    assert runner.is_alive(f"{HOST}/{os.getpid()}/earlier.1#task-1/1") is False
    assert runner.is_alive("there/1/x#task-1/1") is None
    assert runner.is_alive("nonsense") is None
    runner.close()
