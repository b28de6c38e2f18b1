from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from scripts import check, run_tests
from scripts.run_tests import main, summarise

REPORT = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'


def test_the_last_line_counts_what_passed_and_what_was_skipped(tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    report.write_text(REPORT.format(10, 0, 0, 3))
    assert summarise(report, 125.4) == "tests: 7 passed, 3 skipped, 2 min 5 s"
    report.write_text(REPORT.format(10, 1, 2, 3))
    assert summarise(report, 59.6) == "tests: 3 failed, 4 passed, 3 skipped, 1 min 0 s"


def test_a_checkout_where_nothing_can_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "artifacts").write_text("no folder")
    monkeypatch.setattr(run_tests, "REPORT", tmp_path / "artifacts" / "tests.xml")
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("tests: the report cannot be written")


ONE_OF_TWO = """
import os, pathlib
def test_passes(tmp_path):
    (tmp_path / "of_one_that_passed").touch()
    assert pathlib.Path(os.environ["TMPDIR"]) in tmp_path.parents
def test_fails(tmp_path):
    (tmp_path / "of_one_that_failed").touch()
    assert tmp_path is None
"""


@pytest.mark.slow
def test_what_a_failed_test_wrote_in_memory_is_kept_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_two.py").write_text(ONE_OF_TWO)
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(run_tests, "REPORT", tmp_path / "tests.xml")
    monkeypatch.setattr(run_tests, "KEPT", tmp_path / "kept")
    arguments = ["-n", "0", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_two.py")]
    assert run_tests.run_pytest(arguments, tmp_path / "memory") == 1
    kept = [path.name for path in (tmp_path / "kept").rglob("of_one_*")]
    assert kept == ["of_one_that_failed"]
    assert run_tests.run_pytest([*arguments, "-k", "passes"], tmp_path / "memory") == 0
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("is_good", [True, False])
def test_the_check_keeps_what_failed_tests_wrote_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_good: bool
) -> None:
    """The files of an earlier run go in any case."""
    writes = (
        "import os, pathlib; (pathlib.Path(os.environ['TMPDIR']) / 'log.txt').write_text('why')"
    )
    command = [sys.executable, "-c", f"{writes}; raise SystemExit({int(not is_good)})"]
    monkeypatch.setattr(run_tests, "KEPT", tmp_path / "kept")
    monkeypatch.setitem(check.CHECKS, check.TESTS, ["sh", "-c", shlex.join(command)])
    monkeypatch.setattr(check, "folder_in_memory", lambda _: nullcontext(tmp_path / "memory"))
    (tmp_path / "memory").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "older.txt").touch()
    assert check.main([check.TESTS]) == (0 if is_good else 1)
    kept = [path.name for path in (tmp_path / "kept").rglob("*")]
    assert kept == ([] if is_good else ["log.txt"])


@pytest.mark.slow
def test_a_run_without_an_end_is_ended_but_by_night(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(1)"]
    assert run_tests.run_for(command, {}, limit_s=0.2) == run_tests.ENDED
    assert "the run had no end after 0.2 s" in capsys.readouterr().out
    assert run_tests.run_for(command, {"HYPOTHESIS_PROFILE": "nightly"}, limit_s=0.2) == 0
