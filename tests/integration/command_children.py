"""What a child process does that is a command line, from the moment on when its modules are loaded."""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from carnac.cli import main


def run_command(told: Connection, args: list[str], environ: dict[str, str], cwd: Path) -> None:
    """Say that it begins, then be `carnac` in a folder; what it says goes into the files out and err there."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream.fileno())
    sys.argv = ["carnac", *args]
    told.send_bytes(b"")
    sys.exit(main())
