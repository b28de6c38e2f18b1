"""Attempts through `spark-submit`: the attempt is the driver program of a Spark application."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from carnac.core.tasks.model import Task
from carnac.core.texts import properties_text
from carnac.errors import Invalid, Unavailable
from carnac.overlord.runners.launch import SETTINGS
from carnac.overlord.runners.process import AttemptCommand, ProcessRunner

DRIVER = Path(__file__).parent / "driver" / "attempt.py"
OWN_PREFIX = "CARNAC_"
HIDDEN_BY_SPARK = rf"(?i)secret|password|token|access[.]?key|{OWN_PREFIX}"
"""Settings whose values Spark shows nowhere: those of its own choice, and our settings where they are among Spark's."""
_ENVIRONMENT_OF_DRIVER = {
    "yarn": "spark.yarn.appMasterEnv.",
    "k8s": "spark.kubernetes.driverEnv.",
}
"""Where the driver runs inside the cluster, its environment is Spark settings with these prefixes."""


class SparkSubmitRunner(ProcessRunner):
    """Port `TaskRunner`: `spark-submit --master … --deploy-mode …`, a child in a session of its own.

    In client mode the driver is part of the child, so the child's state is that of the attempt. In cluster mode (YARN,
    Kubernetes) the child only watches a driver that runs inside the cluster. Stopping the child stops the watching. The
    driver ends by itself at its next sign of life, when it learns that its attempt is over.

    Args:
        master: Master as Spark takes it.
        deploy_mode: `client` or `cluster`.
        prepare_java: Sets the variables by which Spark finds Java.
        more: Other arguments of `ProcessRunner`.

    Raises:
        Invalid: Spark runs no Python driver that way.
        Unavailable: There is no `spark-submit`.
    """

    name = "spark_submit"

    def __init__(
        self,
        command: AttemptCommand,
        *,
        master: str,
        deploy_mode: str = "client",
        prepare_java: Callable[[MutableMapping[str, str]], object],
        environ: Mapping[str, str],
        **more: Any,
    ) -> None:
        super().__init__(command, environ=environ, **more)
        self._master = master
        self._deploy_mode = deploy_mode
        self._kind = master.partition(":")[0]
        self._prepare_java = prepare_java
        find_spark_home(environ)
        if deploy_mode == "cluster" and self._kind not in _ENVIRONMENT_OF_DRIVER:
            raise Invalid(
                f'Spark runs no Python driver inside the cluster of master {master}; use spark_deploy_mode = "client"',
                master=master,
            )

    def _program(
        self, task: Task, conf: Mapping[str, str], environ: dict[str, str], log: Path
    ) -> Sequence[str]:
        spark_home = find_spark_home(self._environ)  # it may have gone since
        environ["SPARK_HOME"] = str(spark_home)
        environ["CARNAC_SPARK_MASTER"] = self._master
        self._prepare_java(environ)
        if self._deploy_mode == "client":
            environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
            environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings = {
            "spark.app.name": f"carnac {task.task_id}",
            "spark.ui.enabled": "false",
            "spark.redaction.regex": HIDDEN_BY_SPARK,
            **conf,
        }
        if self._deploy_mode == "cluster":
            prefix = _ENVIRONMENT_OF_DRIVER[self._kind]
            own = {name: value for name, value in environ.items() if name.startswith(OWN_PREFIX)}
            settings = {prefix + name: value for name, value in own.items()} | settings
        program = [str(spark_home / "bin" / "spark-submit"), "--master", self._master]
        program += ["--deploy-mode", self._deploy_mode]
        written = _write_settings(log.with_name(log.name + SETTINGS), settings)
        return [*program, "--properties-file", written, "--load-spark-defaults", str(DRIVER)]


def _write_settings(path: Path, settings: Mapping[str, str]) -> str:
    """Write settings, secrets too, where this user alone reads them; the launcher of the command removes the file.

    Raises:
        Unavailable: The file cannot be written.
    """
    try:
        path.unlink(missing_ok=True)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(properties_text(settings))
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from error
    return str(path)


def find_spark_home(environ: Mapping[str, str]) -> Path:
    """Return the Spark whose `spark-submit` is used: `SPARK_HOME`, else the one inside the pyspark package.

    Raises:
        Unavailable: There is none.
    """
    named = environ.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark") if not named else None
    home = Path(named) if named else Path(spec.origin).parent if spec and spec.origin else None
    if home is None or not os.access(home / "bin" / "spark-submit", os.X_OK):
        where = f"SPARK_HOME is {named}" if named else "pyspark is not installed"
        raise Unavailable(f"there is no spark-submit: {where}; install pyspark or set SPARK_HOME")
    return home
