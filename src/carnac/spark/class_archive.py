"""An archive of the Java classes that Spark loads, with which it starts faster on this machine.

To start Spark and to run a first job, Java finds some ten thousand classes in Spark's jars, reads and verifies them. It
can write what it has loaded to a file when it ends, and map that file into memory the next time (class data sharing,
JEP 350). The file belongs to one Java and one PySpark; Java looks for itself whether it fits, and starts without it if
not. So a missing, old or damaged archive costs time and nothing else.

`carnac prepare` makes one (docs/decisions/0020-class-archive.md). Only Spark in local mode uses it: elsewhere the
driver's Java is not ours to set up.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from carnac.errors import Unavailable
from carnac.spark.java import JAVA_OPTIONS, JavaRuntime, with_option
from carnac.spark.jvm import exit_code_of

END_TIMEOUT_S = 180
_WRITE = "-XX:ArchiveClassesAtExit"


def archive_path(java: JavaRuntime, environ: Mapping[str, str]) -> Path:
    """Return where the archive for a Java and this PySpark is, or would be.

    It is in `XDG_CACHE_HOME`, else in `.cache` in the home directory. Clearing that costs nothing but time.
    """
    caches = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~") / ".cache")
    spark = version("pyspark")
    spec = importlib.util.find_spec("pyspark")
    origin = spec.origin if spec is not None else None
    home = java.jdk_home or java.home
    whose = "\n".join([java.version, str(home), spark, str(origin)])
    digest = hashlib.sha256(whose.encode()).hexdigest()[:12]
    name = f"spark-{spark}-java-{java.version}-{digest}.jsa"
    return caches.expanduser() / "carnac" / name


def use_archive(
    config: Mapping[str, str], java: JavaRuntime, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return Spark's settings with the archive, if there is one; options that are set already go before it.

    A process that writes an archive does not use one, as Java cannot add to an archive.
    """
    path = archive_path(java, environ)
    if _WRITE in config.get(JAVA_OPTIONS, "") or not path.is_file():
        return dict(config)
    return with_option(config, f"-XX:SharedArchiveFile={path}")


def write_archive(config: Mapping[str, str], path: Path) -> dict[str, str]:
    """Return Spark's settings with which Java writes an archive when it ends."""
    return with_option(config, f"{_WRITE}={path}")


def end_java() -> None:
    """End the Java of this process's Spark, which is stopped, and wait until it is gone.

    Raises:
        Unavailable: It is still there after three minutes.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark has no public word for it
    if gateway is None:
        return
    process = gateway.proc
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    if exit_code_of(process, END_TIMEOUT_S) is None:
        process.kill()
        raise Unavailable(
            f"Java did not end within {END_TIMEOUT_S} s; try again when the machine is less busy"
        )
