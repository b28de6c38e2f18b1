"""Run every check that needs no Spark, server or network, and end with a table of what held.

All checks run, also after one has failed: one look tells everything that is wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from run_tests import SIDE_BY_SIDE

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
FAST_TESTS = "not spark and not sql and not http and not e2e and not slow"
CHECKS: dict[str, list[str]] = {
    "lint": [f"{BIN}/ruff", "check", "."],
    "format": [f"{BIN}/ruff", "format", "--check", "."],
    "types": [f"{BIN}/mypy"],
    "layers": [f"{BIN}/lint-imports"],
    "tests": [sys.executable, "-m", "pytest", "-q", *SIDE_BY_SIDE, "-m", FAST_TESTS],
}


def main(names: list[str]) -> int:
    """Run the named checks, or all; return 1 if one failed."""
    rows: list[tuple[str, bool, float]] = []
    for name in names or CHECKS:
        print(f"── {name}: {' '.join(CHECKS[name][1:])}", flush=True)
        started = time.monotonic()
        environ = {"HYPOTHESIS_PROFILE": "fast"} | os.environ
        code = subprocess.run(CHECKS[name], cwd=ROOT, env=environ, check=False).returncode
        rows.append((name, code == 0, time.monotonic() - started))
    print()
    for name, is_good, elapsed_s in rows:
        print(f"{name:<8} {'ok' if is_good else 'FAILED':<8} {elapsed_s:6.1f} s")
    return 0 if all(is_good for _, is_good, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
