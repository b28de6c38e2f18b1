"""Temporary folders: private, never somebody else's, gone with their process."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from carnac.errors import Unavailable
from carnac.ports.temporary import make_private, own_folder

OWNER = """
import sys
from carnac.ports.temporary import own_folder
folder = own_folder("spill")
(folder / "rows").write_bytes(b"secret")
print(folder, flush=True)
sys.stdin.readline()
"""


def start(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that makes its folder below this one; return it and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=60)


def test_a_folder_is_private_and_ends_with_its_process(tmp_path: Path) -> None:
    process, own = start(tmp_path)
    assert own.parent == tmp_path
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    end(process)
    assert not own.exists()


def test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    killed, left = start(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert (left / "rows").exists()
    first, one = start(tmp_path)
    second, other = start(tmp_path)
    assert not left.exists()
    assert (one / "rows").exists()
    assert (other / "rows").exists()
    end(first)
    end(second)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_takes_for_a_dead_ones_before_it_is_open_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, taken = tempfile.mkdtemp, []

    def make_and_lose(prefix: str) -> str:
        folder = make(prefix=prefix, dir=tmp_path)
        if not taken:
            Path(folder).rmdir()  # as a process does that begins at the same moment
            taken.append(folder)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    folder = own_folder(f"race{tmp_path.name}")
    assert folder.is_dir()
    assert taken != [str(folder)]


def test_leftovers_that_are_links_or_open_to_others_are_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (target / "precious").touch()
    (tmp_path / "carnac-spill-link").symlink_to(target)
    (tmp_path / "carnac-spill-open").mkdir(mode=0o755)
    process, _ = start(tmp_path)
    end(process)
    assert (target / "precious").exists()
    assert (tmp_path / "carnac-spill-open").exists()


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_folder_that_somebody_made_first_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = tmp_path / "carnac-job"
    if kind == "open":
        place.mkdir()
        place.chmod(0o777)
    elif kind == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "theirs")
    else:
        place.touch()
    with pytest.raises(Unavailable, match=r"no temporary folder can be made .*TMPDIR"):
        make_private(place / "merge")


def test_a_private_folder_is_private_and_may_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(2):
        made = make_private(tmp_path / "carnac-job" / "merge")
    assert made.is_dir()
    assert stat.S_IMODE((tmp_path / "carnac-job").stat().st_mode) == 0o700
