"""A real server of Spark Connect on this machine, with a local Spark of its own, for as long as a `with` block."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.spark_cluster import HOST, Daemons, wait_for

_STARTED = re.compile(r"SparkConnectServer: Spark Connect server started at: \S+:(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """A running server.

    Attributes:
        url: URL for clients: `sc://127.0.0.1:…`.
        process: The server's JVM; its Python workers are in the same process group.
    """

    url: str
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def run_connect_server(*, cores: int = 2) -> Iterator[ConnectServer]:
    """Start a server; stop it at the end, if it still runs.

    Raises:
        Unavailable: There is no Java, or the server does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="carnac-connect-"))
    environ = {
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "SPARK_DAEMON_MEMORY": "1g",  # the server is a daemon, and a driver
    }
    daemons = Daemons(folder, environ)
    conf = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.ui.enabled": "false",
    }
    options = [f"--conf={key}={value}" for key, value in conf.items()]
    try:
        server = daemons.start(
            "org.apache.spark.deploy.SparkSubmit",
            f"--master=local[{cores}]",
            "--class=org.apache.spark.sql.connect.service.SparkConnectServer",
            *options,
            "spark-internal",
        )
        port = wait_for(_STARTED, server)
        yield ConnectServer(url=f"sc://{HOST}:{port}", process=server.process)
    finally:
        daemons.stop()
        shutil.rmtree(folder, ignore_errors=True)
