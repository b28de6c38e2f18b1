"""The command line: `carnac`, the commands that a person types and the output that they read.

Standard output carries the answer, standard error everything else: notes, progress, errors. With `--json` standard
output is one JSON document. Exit codes are those of `carnac.errors`. The code is 2 also for a wrong command line, 70
for an error inside Carnac, 130 after Ctrl-C, 143 after SIGTERM and 129 after SIGHUP. It is 10 after any of these
signals if something was published, and when the report of what was published cannot be written.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

YOUNG_OBJECTS = 50_000
"""Loading libraries makes many objects and no garbage: looking for some costs a cold command a seventh of its time."""


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line; return its exit code.

    Args:
        args: None: those of the process, which ends with the command line.
    """
    if args is None:
        _open_closed_streams()
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    try:
        from carnac.cli.command_line import run
    except KeyboardInterrupt:  # while it was loaded
        return 130

    if args is not None:
        return run(args, owns_process=False)
    code = run(sys.argv[1:], owns_process=True)
    threads = sys.modules.get("carnac.ports.threads")
    if threads is not None and threads.has_left():
        # Python would tear down what they use: DuckDB's bindings say a page about that, or the process aborts
        atexit._run_exitfuncs()  # noqa: SLF001 - what has to go with the process goes
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)
    return code


def _open_closed_streams() -> None:
    """Put the null device in the place of standard streams that the caller has closed (`>&-`).

    The next files that are opened, such as segments, would else get their numbers, and messages of libraries to
    standard error would land in them.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


__all__ = ["YOUNG_OBJECTS", "main"]
