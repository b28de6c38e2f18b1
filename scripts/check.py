"""Run every check that needs no Spark, server or network, and end with a table of what held.

All checks run, also after one has failed: one look tells everything that is wrong. The tests run beside the others,
which run one after the other, and in several processes that take turns: so all cores have work until the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from scripts.in_memory import folder_in_memory
from scripts.run_tests import KEEPING_FAILED, environ_of_tests, keep

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
FAST_TESTS = "not spark and not sql and not http and not e2e and not slow"
NO_FAST_TESTS_HERE = ("--ignore=tests/e2e", "--ignore-glob=*/spark/*")
"""Folders whose marks say so; to read them took a fifth of a process's start."""
TESTS = "tests"
PROCESSES_MAX = 4
"""Of tests: one for each core, but each takes some hundred MB."""
CHECKS: dict[str, list[str]] = {
    "lint": [f"{BIN}/ruff", "check", "."],
    "format": [f"{BIN}/ruff", "format", "--check", "."],
    "types": [f"{BIN}/mypy"],
    "layers": [f"{BIN}/lint-imports"],
    TESTS: [
        *(sys.executable, "-m", "pytest", "-q", "-p", "tests.turns", "-p", "no:cacheprovider"),
        *("-o", "console_output_style=classic", "-m", FAST_TESTS, *NO_FAST_TESTS_HERE),
        *KEEPING_FAILED,
        f"--processes={min(os.cpu_count() or 1, PROCESSES_MAX)}",
    ],
}
MEMORY_BYTES = 2 << 30
"""Memory that must be free; the fast tests write a tenth of it."""


class Result(NamedTuple):
    """The outcome of a check."""

    is_good: bool
    elapsed_s: float


def run_check(name: str, environ: Mapping[str, str], *, is_beside: bool) -> Result:
    """Run a check; its output is printed at once, or as a whole at the end if another check prints meanwhile."""
    heading = f"── {name}: {' '.join(CHECKS[name][1:])}"
    if not is_beside:
        print(heading, flush=True)
    started = time.monotonic()
    done = subprocess.run(
        CHECKS[name],
        cwd=ROOT,
        env=environ,
        check=False,
        text=True,
        stdout=subprocess.PIPE if is_beside else None,
        stderr=subprocess.STDOUT if is_beside else None,
    )
    result = Result(done.returncode == 0, time.monotonic() - started)
    if is_beside:
        print(f"\n{heading}\n{done.stdout.rstrip()}", flush=True)
    return result


def run_checks(names: list[str], environ: Mapping[str, str]) -> dict[str, Result]:
    """Run the checks: the tests, and beside them the others one after the other."""
    others = [name for name in names if name != TESTS]
    if TESTS not in names or not others:
        return {name: run_check(name, environ, is_beside=False) for name in names}
    with ThreadPoolExecutor(max_workers=1) as beside:
        coming = {name: beside.submit(run_check, name, environ, is_beside=True) for name in others}
        tests = run_check(TESTS, environ, is_beside=False)
        return {name: coming[name].result() if name in coming else tests for name in names}


def main(names: list[str]) -> int:
    """Run the named checks, or all; return 1 if one failed."""
    started = time.monotonic()
    environ = {"HYPOTHESIS_PROFILE": "fast"} | environ_of_tests()
    with folder_in_memory(MEMORY_BYTES) as folder:
        if folder is not None:
            environ["TMPDIR"] = str(folder)
        results = run_checks(names or list(CHECKS), environ)
        if folder is not None and TESTS in results:
            keep(folder, is_good=results[TESTS].is_good)
    print()
    for name, result in results.items():
        print(f"{name:<8} {'ok' if result.is_good else 'FAILED':<8} {result.elapsed_s:6.1f} s")
    print(f"{'together':<17} {time.monotonic() - started:6.1f} s")
    return 0 if all(result.is_good for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
