from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from scripts import setup_env
from scripts.setup_env import PipProgress, SetupError, count_pins, run_logged, works

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["Collecting duckdb==2.0.0"], "1 of 3 packages: duckdb 2.0.0"),
        (
            ["Collecting a==1", "  Downloading pyspark-4.3.0.tar.gz (455.9 MB)"],
            "1 of 3 packages: downloading pyspark-4.3.0 (455.9 MB)",
        ),
        (
            ["  Downloading numpy-2.4.6-cp311-cp311-manylinux.whl (16.9 MB)"],
            "0 of 3 packages: downloading numpy-2.4.6 (16.9 MB)",
        ),
        (["Requirement already satisfied: rich==15"] * 9, "3 of 3 packages: rich==15 is here"),
        (["Building wheels for collected packages: pyspark"], "0 of 3 packages: building pyspark"),
        (["  Running setup.py install for pyspark: started"], "0 of 3 packages: building pyspark"),
        (["Installing collected packages: a, b"], "0 of 3 packages: unpacking into .venv"),
    ],
)
def test_pip_says_how_far_it_is(lines: list[str], shown: str) -> None:
    progress = PipProgress(3)
    for line in lines:
        progress.feed(line)
    assert str(progress) == shown


def test_pins_are_counted_without_their_hashes(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(
        "a==1 \\\n    --hash=sha256:00\n    # via b\nb[c]==2 ; python_version > '3' \\\n"
    )
    assert count_pins(lock) == 2


def test_a_failed_command_shows_the_end_of_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup_env, "LOG", tmp_path / "setup.log")
    seen: list[str] = []
    command = [sys.executable, "-c", "print('one'); print('two'); raise SystemExit(3)"]
    with pytest.raises(SetupError, match=r"(?s)this failed: .*    one\n    two\n.*setup\.log"):
        run_logged(command, seen.append, lambda: None)
    assert seen == ["one", "two"]
    assert (tmp_path / "setup.log").read_text().endswith("one\ntwo\n")


@pytest.mark.slow
def test_an_environment_that_was_moved_does_not_work(tmp_path: Path) -> None:
    made, moved = tmp_path / "made", tmp_path / "moved"
    assert not works(made)
    venv.EnvBuilder(with_pip=True).create(made)
    assert works(made)
    made.rename(moved)
    assert not works(moved)


def test_a_python_that_is_not_there_is_one_clear_sentence() -> None:
    environ = {"PATH": os.environ["PATH"], "PYTHON": "/no/such/python"}
    command = ["sh", str(ROOT / "scripts" / "python.sh"), "-c", ""]
    result = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "needs Python 3.11 or newer" in result.stderr
    assert "PYTHON=/no/such/python" in result.stderr


def test_a_fitting_python_is_found() -> None:
    environ = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [
        "sh",
        str(ROOT / "scripts" / "python.sh"),
        "-c",
        "import sys; print(sys.version_info[:2])",
    ]
    result = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert eval(result.stdout) >= (3, 11)
