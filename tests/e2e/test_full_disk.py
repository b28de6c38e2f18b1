"""A disk with no byte left: the store on it is read, and tidied, all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli import ROWS

UNSHARING = (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"])
"""A process that may mount a disk of its own: as root, and as a user where the kernel lets users do so."""
SIZE_BYTES = 8 << 20
SCRIPT = f"""
import contextlib, io, json, os, subprocess, sys
from pathlib import Path

from carnac.cli import main
from tests.e2e.cli import make_store

disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size={SIZE_BYTES}", "tmpfs", disk], check=True)
store = make_store(disk / "store")
orphan = store / "deep-storage/segments/flights/orphan.parquet"
orphan.write_bytes(bytes({SIZE_BYTES // 4}))
os.utime(orphan, (1e9, 1e9))
with contextlib.suppress(OSError), open(disk / "fill", "wb", buffering=0) as fill:
    while fill.write(bytes(4096)):
        pass
found = [os.statvfs(disk).f_bavail]
for args in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*args, "--store", str(store), "--json"])
    found.append([code, json.loads(out.getvalue())])
json.dump(found, sys.stdout)
"""


def find_unsharing(disk: Path) -> list[str]:
    """Return what starts a process that may mount disks of its own; skips where nobody may."""
    for unsharing in UNSHARING:
        allowed = subprocess.run(
            [*unsharing, "mount", "-t", "tmpfs", "tmpfs", str(disk)],
            capture_output=True,
            check=False,
        )
        if allowed.returncode == 0:
            return unsharing
    pytest.skip("this machine lets nobody mount a small disk (unshare --mount)")


def run_on_full_disk(commands: list[list[str]], disk: Path) -> list[tuple[int, dict[str, object]]]:
    """Run command lines on a store of which an orphan fills a quarter of the disk, and nothing the rest."""
    unsharing = find_unsharing(disk)
    done = subprocess.run(
        [*unsharing, sys.executable, "-c", SCRIPT, str(disk)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    free, *found = json.loads(done.stdout)
    assert free == 0
    return [(code, out) for code, out in found]


def test_a_store_on_a_full_disk_is_read_and_makes_room(tmp_path: Path) -> None:
    counting = ["sql", "SELECT count(*) AS n FROM flights"]
    tagging = ["tag", "mine"]
    commands = [counting, ["log"], tagging, ["gc", "--dry-run"], ["gc"], tagging, counting]
    (count, log, refused, planned, collected, tagged, count_after) = run_on_full_disk(
        commands, tmp_path
    )
    assert count[0] == count_after[0] == 0
    assert count[1]["rows"] == count_after[1]["rows"] == [{"n": ROWS}]
    assert (log[0], len(log[1]["commits"])) == (0, 3)
    assert refused[0] == 4
    assert "is full; make room and retry (carnac gc deletes what is garbage)" in str(refused[1])
    assert (planned[0], collected[0], tagged[0]) == (0, 0, 0)
    assert collected[1]["deleted_bytes"] == SIZE_BYTES // 4
