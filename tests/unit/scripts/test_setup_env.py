from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import venv
from pathlib import Path

import pytest

from scripts import setup_env
from scripts.setup_env import (
    PipProgress,
    Progress,
    SetupError,
    alone,
    count_pins,
    run_logged,
    works,
)
from tests.waiting import until

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
        (
            ["WARNING: Retrying (Retry(total=4)) after connection broken by …"],
            "0 of 3 packages: the package index does not answer, trying again",
        ),
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
def test_a_package_index_that_does_not_answer_is_one_clear_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup_env, "LOG", tmp_path / "setup.log")
    index = f"http://127.0.0.1:{unused_port()}/simple"
    command = [sys.executable, "-m", "pip", "download", "--isolated", "--retries=1"]
    lines: list[str] = []
    with pytest.raises(SetupError) as refused:
        run_logged(
            [*command, "--no-deps", "-i", index, f"--dest={tmp_path}", "a==1"],
            lines.append,
            lambda: None,
        )
    assert str(refused.value).startswith("the package index cannot be reached")
    assert "WARNING" not in str(refused.value)
    assert any(line.startswith("WARNING: Retrying") for line in lines)


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_of_two_set_ups_of_a_checkout_one_waits_for_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from scripts.setup_env import Progress, alone\n"
        "with alone(Progress(), Path(sys.argv[2])): print('the other one', flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(ROOT), str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "the other one\n"
        waiting = threading.Thread(target=enter_and_leave, args=(tmp_path,))
        waiting.start()
        until(lambda: "another set-up is at work" in capsys.readouterr().out, "who waits")
        assert waiting.is_alive()
        other.communicate("go on\n", timeout=30)
        waiting.join(30)
    assert not waiting.is_alive()


def enter_and_leave(folder: Path) -> None:
    with alone(Progress(), folder):
        pass


@pytest.mark.nightly("makes an environment with pip in it")
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
