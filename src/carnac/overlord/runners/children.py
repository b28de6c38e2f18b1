"""Processes of their own: started so that they outlive us, found again by handle, stopped with a period of grace."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from carnac.core.ids import bears_mark
from carnac.errors import Invalid, Unavailable
from carnac.overlord.runners.identity import (
    Presence,
    ProcessHandle,
    identify,
    parse_handle,
    presence_of,
)

FOLDER = "carnac-"
"""The prefix of all scratch folders' names."""
LAUNCHER = Path(__file__).with_name("launch.py")
POLL_MS = 50
KILLS_MAX = 100
"""A process that does not end for so many signals hangs in the kernel; the next call tries again."""
DEFAULT_LOG_LIMIT_BYTES = 16 << 20
DEFAULT_GRACE_MS = 10_000


class Children:
    """Starts commands and stops them. Safe for many threads.

    A child has a session of its own, so the end of this process, or of its terminal, does not end it.

    Args:
        host: This machine's name.
        grace_ms: Time that a child that was asked to end may take before it is killed.
    """

    def __init__(
        self,
        *,
        host: str,
        grace_ms: int = DEFAULT_GRACE_MS,
        log_limit_bytes: int = DEFAULT_LOG_LIMIT_BYTES,
    ) -> None:
        self._host = host
        self._grace_ms = grace_ms
        self._log_limit_bytes = log_limit_bytes
        self._mutex = threading.Lock()
        self._ours: set[ProcessHandle] = set()
        self._enders: dict[ProcessHandle, threading.Thread] = {}
        self._closing = threading.Event()

    def start(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> ProcessHandle:
        """Start a command; its output goes to `log`.

        Raises:
            Invalid: No process takes such arguments or such an environment.
            Unavailable: The machine has no room for another process, or its Python is not there.
        """
        launch = [sys.executable, "-I", "-S", str(LAUNCHER), str(log), str(self._log_limit_bytes)]
        with self._mutex:
            try:
                pid = os.posix_spawn(
                    sys.executable,
                    [*launch, *command],
                    environ,
                    file_actions=[
                        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                    ],
                    setsid=True,
                )
            except ValueError as error:  # a NUL, or a character that has no bytes
                raise Invalid(f"no process takes its arguments: {error}") from error
            except OSError as error:
                kind = Invalid if error.errno == errno.E2BIG else Unavailable
                raise kind(f"no process can be started: {error.strerror}") from error
            handle = identify(pid, self._host)
            if handle is None:  # nobody has asked how it ended, so it is there
                raise Unavailable(f"process {pid} cannot be found")
            self._ours.add(handle)
        return handle

    def is_alive(self, handle: str) -> bool | None:
        """Say whether a child is there; None for one of another host, or a text that is no handle."""
        found = parse_handle(handle)
        if found is None or found.host != self._host:
            return None
        presence = presence_of(found)
        if presence is Presence.ENDED:
            self._reap(found)
        return presence is Presence.RUNNING

    def stop(self, handle: str) -> None:
        """Ask a child to end, and see to it that it does; returns at once."""
        found = parse_handle(handle)
        if found is None or found.host != self._host:
            return
        with self._mutex:
            if found in self._enders or presence_of(found) is not Presence.RUNNING:
                return
            ender = threading.Thread(
                target=self._end, args=(found,), name="carnac-stop", daemon=True
            )
            self._enders[found] = ender
        _signal(found, signal.SIGTERM)
        _signal(found, signal.SIGCONT)  # one that was stopped (SIGSTOP) hears it too
        ender.start()

    def close(self) -> None:
        """Kill what was asked to end and has not yet; all others go on. Idempotent."""
        self._closing.set()
        with self._mutex:
            enders = list(self._enders.values())
        for ender in enders:
            if ender.is_alive():
                ender.join()
        for handle in list(self._ours):
            self._reap(handle)

    def _end(self, handle: ProcessHandle) -> None:
        """Wait until a child has ended; kill it, and what is left of its group, when its grace is over."""
        waited_ms = kills = 0
        pause = threading.Event()
        while presence_of(handle) is Presence.RUNNING and kills < KILLS_MAX:
            if waited_ms < self._grace_ms and not self._closing.is_set():
                waited_ms += POLL_MS
                self._closing.wait(POLL_MS / 1000)
            else:
                kills += 1
                _signal(handle, signal.SIGKILL)
                pause.wait(POLL_MS / 1000)
        _signal(handle, signal.SIGKILL)
        with self._mutex:
            self._enders.pop(handle, None)
        self._reap(handle)

    def _reap(self, handle: ProcessHandle) -> None:
        """Ask how one of our children ended, if it has: only then its number is free for others."""
        with self._mutex:
            if handle not in self._ours or handle in self._enders:
                return
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(handle.pid, os.WNOHANG)[0] == 0:
                    return
            self._ours.discard(handle)


def _signal(handle: ProcessHandle, number: signal.Signals) -> None:
    """Send a signal to the child's group, as long as it is known to be the child's."""
    if presence_of(handle) is not Presence.GONE:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(handle.pid, number)


def remove_scratch(mark: str) -> int:
    """Remove the scratch folders of an attempt; return how many there were."""
    is_its = bears_mark(mark)
    root, count = Path(tempfile.gettempdir()), 0
    for folder in root.glob(f"{FOLDER}*"):
        if is_its(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
            count += 1
    return count
