"""Becomes a command whose output goes to log files of bounded size. A script, run by path with a bare interpreter.

    python -I -S launch.py LOG LIMIT_BYTES PROGRAM ARGUMENT...

The process forks a writer and then *is* the command: same process id, same group, nothing in between that could die and
leave it alone. The writer reads a pipe until the command, and each process that inherited its output, is gone. Then it
removes `LOG.conf`, if there is one: settings, secrets among them, that the command reads. It has a session of its own,
so that a signal that kills the command's group does not cut off its last words. At half the limit the log becomes
`LOG.1` and a new one is begun: the last half at least is always there. A full disk loses lines and stops nobody.
"""

from __future__ import annotations

import contextlib
import os
import sys

CHUNK_BYTES = 1 << 16
SETTINGS = ".conf"
"""The suffix, after the name of its log, of the file with the settings of a command."""
CANNOT_RUN = 127
"""The shell's exit code for a program that is not there."""


def main(arguments: list[str]) -> None:
    """Fork the writer, then become the command."""
    log, limit, *command = arguments
    reading, writing = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:  # nobody's child, so nobody has to wait for it
            os.close(writing)
            os.setsid()
            _write(reading, log, int(limit) // 2)
            with contextlib.suppress(OSError):
                os.unlink(log + SETTINGS)  # noqa: PTH108 - this interpreter loads nothing that it need not
        os._exit(0)
    os.wait()
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.close(reading)
    os.close(writing)
    try:
        os.execvp(command[0], command)  # noqa: S606 - a command of ours, without a shell
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run: {error.strerror}\n".encode())
        os._exit(CANNOT_RUN)


def _write(reading: int, log: str, half: int) -> None:
    """Copy what comes in to the log until there is no more."""
    output, size = _open(log)
    while chunk := os.read(reading, min(CHUNK_BYTES, half)):
        if size and size + len(chunk) > half:
            with contextlib.suppress(OSError):
                os.replace(log, log + ".1")  # noqa: PTH105 - this interpreter loads nothing that it need not
            os.close(output)
            output, size = _open(log)
        with contextlib.suppress(OSError):
            size += os.write(output, chunk)


def _open(log: str) -> tuple[int, int]:
    """Return the log, open at its end, and how long it is; in place of one that cannot be opened, nothing's."""
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    except OSError:
        output = os.open(os.devnull, os.O_WRONLY)
    return output, os.fstat(output).st_size


if __name__ == "__main__":
    main(sys.argv[1:])
