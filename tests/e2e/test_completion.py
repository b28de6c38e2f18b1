"""Tab in a shell: the script that `carnac` prints, run by a real bash, and what it costs."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_store
from tests.e2e.test_processes import PROBE, WATCHED
from tests.nightly import by_day

BASH = shutil.which("bash")


@pytest.fixture
def named(store: Path) -> Path:
    """The store, with a tag and a lookup."""
    with open_store(store) as opened:
        opened.tag("good", at=2)
        opened.set_lookup("airports", {"JFK": "New York"})
    return store


@cache
def script() -> str:
    """Return what `carnac --show-completion` prints in bash, whatever shell the tests were started from, or none."""
    line = [sys.executable, "-m", "carnac", "--show-completion", "bash"]
    environ = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    return subprocess.run(
        line, env=environ, capture_output=True, text=True, check=True, timeout=120
    ).stdout


def complete(line: str, store: Path) -> list[str]:
    """Return what bash offers at the end of the line, by the script that `--show-completion` prints."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    folder = store.parent / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / "carnac"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m carnac "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    asked = (
        f'{script()}\nCOMP_WORDS=("$@")\nCOMP_CWORD=$(($# - 1))\n'
        '_carnac_completion carnac "" ""\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        [str(BASH), "--norc", "-c", asked, "bash", *words],
        env={**os.environ, "CARNAC_STORE": str(store), "PATH": f"{folder}:{os.environ['PATH']}"},
        cwd=store.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("line", "offered"),
    by_day(
        [
            ("carnac segm", ["segments"]),
            ("carnac compaction st", ["status"]),
            ("carnac segments ", ["flights"]),
            ("carnac log --datasource fl", ["flights"]),
            ("carnac sql --at ", ["good", "4", "3", "2", "1"]),
            ("carnac show g", ["good"]),
            ("carnac tag ", ["good"]),
            ("carnac lookups remove ", ["airports"]),
            ("carnac sql --format j", ["json", "jsonl"]),
            ("carnac segments --store nowhere fl", []),
            ("carnac sql --store nowhere --at g", []),
        ],
        3,
    ),
)
def test_bash_is_offered_what_the_store_has(named: Path, line: str, offered: list[str]) -> None:
    assert complete(line, named) == offered


@pytest.mark.parametrize(
    "line", ["carnac sql --at ", "carnac drop ", "carnac ingest --datasource "]
)
def test_completion_loads_no_engine_and_no_spark(named: Path, line: str) -> None:
    environ = {
        "_CARNAC_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split())),
        "CARNAC_STORE": str(named),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROBE, ",".join(WATCHED), "[[]]"],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout
    assert done.stderr == "{}\n"
