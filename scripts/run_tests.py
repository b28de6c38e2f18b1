"""Run the tests and end with one line: how many passed, how many were skipped, how long it took.

Arguments are passed on to pytest: `make test ARGS="tests/unit -k interval"`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

from scripts.in_memory import folder_in_memory

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "artifacts" / "tests.xml"
KEPT = REPORT.with_name("failed-tests")
KEEPING_FAILED = ("-o", "tmp_path_retention_policy=failed")
MEMORY_BYTES = 4 << 30
"""Memory that must be free for all tests to write there; they use less than half of it."""
DAY_S = 3_600
"""How long a run may take, four times its limit, but by night: one that hangs is ended, and says what failed before."""
ENDED = 124
"""The exit code of a run that took longer, as `timeout` has it."""
SIDE_BY_SIDE = (
    *("-n", "auto", "--maxprocesses", "4"),
    *(
        "--dist",
        "loadscope",
        "--no-loadscope-reorder",
    ),  # tests/conftest.py puts what takes long first
)
"""A process for each core, four at most: each may start a database and take some hundred MB. Spark runs in one."""


def summarise(report: Path, elapsed_s: float) -> str:
    """Return the closing line for a JUnit report that pytest has written."""
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 - pytest wrote it
        for name in counts:
            counts[name] += int(suite.get(name, 0))
    bad = counts["failures"] + counts["errors"]
    passed = counts["tests"] - bad - counts["skipped"]
    verdict = f"{bad} failed, " if bad else ""
    minutes, seconds = divmod(round(elapsed_s), 60)
    return (
        f"tests: {verdict}{passed} passed, {counts['skipped']} skipped, {minutes} min {seconds} s"
    )


def environ_of_tests() -> dict[str, str]:
    """Return this process's environment, but that Python keeps what it has compiled, whatever a container says.

    Tests start Python some thousand times, and each would compile the same files.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run_pytest(arguments: list[str], folder: Path | None) -> int:
    """Run pytest with its files in a folder, if one is given; return its exit code.

    The files of tests that passed are removed at once, so that memory holds few; those of a test that failed are kept.
    """
    command = [sys.executable, "-m", "pytest", f"--junit-xml={REPORT}", *SIDE_BY_SIDE]
    environ = environ_of_tests()
    if folder is None:
        return run_for([*command, *arguments], environ)
    command += KEEPING_FAILED
    environ["TMPDIR"] = str(folder)
    code = run_for([*command, *arguments], environ)
    keep(folder, is_good=code == 0)
    return code


def run_for(command: list[str], environ: dict[str, str], limit_s: float = DAY_S) -> int:
    """Run a command; return its exit code, or `ENDED` if it had to be ended because it took too long."""
    is_nightly = environ.get("HYPOTHESIS_PROFILE") == "nightly"
    try:
        return subprocess.run(
            command, cwd=ROOT, check=False, env=environ, timeout=None if is_nightly else limit_s
        ).returncode
    except subprocess.TimeoutExpired:
        print(f"\ntests: the run had no end after {limit_s:g} s and was ended", flush=True)
        return ENDED


def keep(folder: Path, *, is_good: bool) -> None:
    """Keep what tests have left in a folder that will be gone, if one failed; of an earlier run nothing stays."""
    shutil.rmtree(KEPT, ignore_errors=True)
    if is_good:
        return
    with contextlib.suppress(shutil.Error):  # sockets are not copied
        shutil.copytree(folder, KEPT, symlinks=True)
    print(f"tests: the files of tests that failed are in {KEPT}", flush=True)


def main(arguments: list[str]) -> int:
    """Run pytest; return its exit code."""
    started = time.monotonic()
    try:
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.unlink(missing_ok=True)
    except OSError as error:
        print(f"tests: the report cannot be written ({error}); they need a checkout to write in")
        return 2
    with folder_in_memory(MEMORY_BYTES) as folder:
        code = run_pytest(arguments, folder)
    if REPORT.is_file():
        print(summarise(REPORT, time.monotonic() - started), flush=True)
    else:
        print(f"tests: pytest ended with code {code} and wrote no report", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
