"""The identity of a process is its host, process id and start, so another one that gets its id is not taken for it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

PS_TIMEOUT_S = 10
BOOT_DIGITS = 8
_PROC = Path("/proc")
_STATE, _START = 0, 19
"""Fields of `/proc/PID/stat`, counted after the name, which may hold spaces and brackets."""


class Presence(StrEnum):
    """How a process is there."""

    RUNNING = "running"
    ENDED = "ended"
    """It has ended, and its parent has not asked how: its number is not given to another one yet."""
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHandle:
    """A process that can be found again. As text: `host/pid/start`.

    Attributes:
        start: Time of its start, as this machine counts; equal only for the same process of the same boot.
    """

    host: str
    pid: int
    start: str

    def __str__(self) -> str:
        """Return the text that `parse_handle` reads."""
        return f"{self.host}/{self.pid}/{self.start}"


def parse_handle(text: str) -> ProcessHandle | None:
    """Return the handle of a text; None if it is no handle of a process."""
    host, _, rest = text.partition("/")
    pid, _, start = rest.partition("/")
    if not host or not pid.isdigit() or not start:
        return None
    return ProcessHandle(host=host, pid=int(pid), start=start)


def identify(pid: int, host: str) -> ProcessHandle | None:
    """Return the handle of a process of this machine; None if there is none."""
    found = _look(pid)
    return None if found is None else ProcessHandle(host=host, pid=pid, start=found[1])


def presence_of(handle: ProcessHandle) -> Presence:
    """Say whether the very process is there. Only for handles of this machine."""
    found = _look(handle.pid)
    if found is None or found[1] != handle.start:
        return Presence.GONE
    return Presence.ENDED if found[0] in "ZX" else Presence.RUNNING


def _look(pid: int) -> tuple[str, str] | None:
    """Return (state in one letter, start) of a process."""
    return _look_in_proc(pid) if (_PROC / "self" / "stat").exists() else look_with_ps(pid)


def _look_in_proc(pid: int) -> tuple[str, str] | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return fields[_STATE], f"{_boot()}.{fields[_START]}"


def _boot() -> str:
    """Return what tells this boot of the machine from others: starts are counted from it."""
    try:
        text = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return "boot"
    return text[:BOOT_DIGITS]


def look_with_ps(pid: int) -> tuple[str, str] | None:
    """Return the same on a machine without `/proc`, such as macOS; the start is to the second there."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    asked = subprocess.run(  # noqa: S603 - a number, and nothing of anybody's making
        command, capture_output=True, text=True, timeout=PS_TIMEOUT_S, check=False
    )
    state, _, start = asked.stdout.strip().partition(" ")
    return (state[0], "-".join(start.split())) if state and start else None
