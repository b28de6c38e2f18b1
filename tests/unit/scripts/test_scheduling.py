"""A run of the tests ends, also if one of its processes does not live to see it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.run_tests import SIDE_BY_SIDE
from tests.house.checkout import ROOT

FILES, TESTS = 8, 3
CRASHING = FILES // 2
"""A file that is begun when others are done."""
CONFTEST = """
from tests.conftest import FailuresAtOnce
from tests.scheduling import OneSpark


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(config))


def pytest_xdist_make_scheduler(config, log):
    return OneSpark(config, log)
"""
CRASHES_ONCE = """
import os, pathlib, signal


def test_crashes_once():
    seen = pathlib.Path(__file__).with_name("seen")
    if not seen.exists():
        seen.touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_run_with_a_crashed_process_ends_and_has_run_all_tests(tmp_path: Path) -> None:
    tests = "".join(f"def test_{number}(): pass\n" for number in range(TESTS))
    for number in range(FILES):
        crash = CRASHES_ONCE if number == CRASHING else ""
        (tmp_path / f"test_{number}.py").write_text(tests + crash)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environ = {name: value for name, value in os.environ.items() if "PYTEST" not in name}

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(tmp_path / "pytest.ini"), *SIDE_BY_SIDE],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert f"1 failed, {FILES * TESTS + 1} passed" in done.stdout
    said = f"test_{CRASHING}.py::test_crashes_once failed: worker 'gw"
    assert said in done.stdout[: done.stdout.index("= FAILURES =")]
