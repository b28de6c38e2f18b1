"""Processes that permission bits bind, whoever runs the tests: root may read and write what nobody may."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_BINDING = """
import ctypes, os, sys
if os.geteuid() == 0:
    drop_capability, may_override_permissions, may_read = 24, 1, 2
    for right in (may_override_permissions, may_read):
        assert ctypes.CDLL(None).prctl(drop_capability, right, 0, 0, 0) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def run_bound(
    args: Sequence[str], *, cwd: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run Python with the arguments; where the bits of a file say that it cannot be read or written, it cannot."""
    return subprocess.run(
        [sys.executable, "-c", _BINDING, *args],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
