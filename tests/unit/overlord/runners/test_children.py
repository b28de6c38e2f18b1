"""Child processes: they live, die and are found again, whatever becomes of those around them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from carnac.overlord.runners.children import Children
from carnac.overlord.runners.identity import (
    Presence,
    ProcessHandle,
    identify,
    look_with_ps,
    parse_handle,
    presence_of,
)

HOST = "here"
SLEEPS = [
    sys.executable,
    "-I",
    "-S",
    "-c",
    "import sys, time; print('up', flush=True); time.sleep(300)",
]
STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
print("up", flush=True)
while True: time.sleep(300)
"""


@pytest.fixture
def children() -> Iterator[Children]:
    made = Children(host=HOST, grace_ms=60_000)
    yield made
    made.close()


@pytest.fixture
def end() -> Iterator[Callable[[str], int]]:
    """Remember a handle: its process is killed after the test."""
    pids: list[int] = []

    def remember(handle: str) -> int:
        found = parse_handle(handle)
        assert found is not None
        pids.append(found.pid)
        return found.pid

    yield remember
    for pid in pids:
        try:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def until(is_so: Callable[[], bool], *, tries: int = 6_000) -> None:
    """Wait until something is so, 60 s at most."""
    pause = threading.Event()
    for _ in range(tries):
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError("it did not become so within 60 s")


def text_of(log: Path) -> str:
    return log.read_text() if log.exists() else ""


def start(children: Children, log: Path, command: list[str] | None = None) -> str:
    """Start a command and wait until it has said something."""
    handle = str(children.start(command or SLEEPS, dict(os.environ), log))
    until(lambda: text_of(log) != "")
    return handle


def test_a_child_has_a_session_of_its_own_and_its_output_is_in_the_log(
    children: Children, end: Callable[[str], int], tmp_path: Path
) -> None:
    handle = start(children, tmp_path / "log")
    pid = end(handle)
    assert text_of(tmp_path / "log") == "up\n"
    assert os.getsid(pid) == os.getpgid(pid) == pid
    assert children.is_alive(handle) is True
    assert Children(host=HOST).is_alive(handle) is True
    assert Children(host="there").is_alive(handle) is None
    assert children.is_alive("what is this") is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_that_dies_is_noticed_at_once(
    children: Children, tmp_path: Path, number: signal.Signals
) -> None:
    handle = start(children, tmp_path / "log")
    found = parse_handle(handle)
    assert found is not None
    os.kill(found.pid, number)
    until(lambda: children.is_alive(handle) is False)
    assert presence_of(found) is Presence.GONE, "its number is free for others"


def test_a_number_that_was_given_anew_fools_nobody(
    children: Children, end: Callable[[str], int], tmp_path: Path
) -> None:
    handle = start(children, tmp_path / "log")
    pid = end(handle)
    real = parse_handle(handle)
    assert real is not None
    earlier = ProcessHandle(host=HOST, pid=pid, start="a0b1c2d3.1")
    assert children.is_alive(str(earlier)) is False
    children.stop(str(earlier))
    assert children.is_alive(handle) is True, "only the very process is stopped"
    assert presence_of(real) is Presence.RUNNING


def test_stopping_is_asking_first(children: Children, tmp_path: Path) -> None:
    handle = start(children, tmp_path / "log")
    children.stop(handle)
    children.stop(handle)
    until(lambda: children.is_alive(handle) is False)


def test_what_does_not_end_is_killed_after_its_grace(children: Children, tmp_path: Path) -> None:
    handle = start(children, tmp_path / "log", [sys.executable, "-c", STUBBORN])
    children.stop(handle)
    until(lambda: "no" in text_of(tmp_path / "log"))
    assert children.is_alive(handle) is True
    impatient = Children(host=HOST, grace_ms=1)
    impatient.stop(handle)
    until(lambda: children.is_alive(handle) is False)
    impatient.close()


def test_a_child_that_hangs_stopped_ends_too(children: Children, tmp_path: Path) -> None:
    handle = start(children, tmp_path / "log")
    found = parse_handle(handle)
    assert found is not None
    os.kill(found.pid, signal.SIGSTOP)
    assert children.is_alive(handle) is True
    children.stop(handle)
    until(lambda: children.is_alive(handle) is False)


@pytest.mark.slow
def test_the_whole_group_is_ended(tmp_path: Path) -> None:
    children = Children(host=HOST, grace_ms=100)
    code = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', {STUBBORN!r}])"
    log = tmp_path / "log"
    handle = start(children, log, [sys.executable, "-c", code])
    found = parse_handle(handle)
    assert found is not None
    children.stop(handle)
    until(lambda: children.is_alive(handle) is False)
    until(lambda: not _group_is_there(found.pid))
    children.close()


def test_closing_ends_what_was_asked_to_end_and_nothing_else(
    end: Callable[[str], int], tmp_path: Path
) -> None:
    children = Children(host=HOST, grace_ms=3_600_000)
    asked = start(children, tmp_path / "a", [sys.executable, "-c", STUBBORN])
    other = start(children, tmp_path / "b")
    end(other)
    children.stop(asked)
    children.close()
    assert children.is_alive(asked) is False
    assert children.is_alive(other) is True


def test_a_child_outlives_who_started_it(end: Callable[[str], int], tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from carnac.overlord.runners.children import Children\n"
        "handle = Children(host='here').start(sys.argv[2:], dict(os.environ), pathlib.Path(sys.argv[1]))\n"
        "print(handle, flush=True); os.kill(os.getpid(), 9)"
    )
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", code, str(log), *SLEEPS], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    handle = done.stdout.strip()
    end(handle)
    until(lambda: text_of(log) == "up\n")
    heir = Children(host=HOST, grace_ms=5_000)
    assert heir.is_alive(handle) is True
    heir.stop(handle)
    until(lambda: heir.is_alive(handle) is False)
    heir.close()


def test_the_log_is_bounded_and_its_end_is_kept(children: Children, tmp_path: Path) -> None:
    small = Children(host=HOST, log_limit_bytes=20_000)
    code = "for n in range(20_000): print(f'line {n}', flush=n % 100 == 0)"
    log = tmp_path / "log"
    handle = str(small.start([sys.executable, "-c", code], dict(os.environ), log))
    until(lambda: small.is_alive(handle) is False)
    until(lambda: text_of(log).endswith("line 19999\n"))
    both = text_of(tmp_path / "log.1") + text_of(log)
    assert 10_000 <= len(both) <= 20_000
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["log", "log.1"]


def test_a_program_that_is_not_there_says_so_in_the_log(children: Children, tmp_path: Path) -> None:
    handle = start(children, tmp_path / "log", ["/no/such/program"])
    until(lambda: children.is_alive(handle) is False)
    assert (
        text_of(tmp_path / "log") == "/no/such/program cannot be run: No such file or directory\n"
    )


def test_without_proc_a_process_is_known_by_ps(
    children: Children, end: Callable[[str], int], tmp_path: Path
) -> None:
    pid = end(start(children, tmp_path / "log"))
    first, second = look_with_ps(pid), look_with_ps(pid)
    assert first is not None
    assert second is not None
    assert first[1] == second[1], (
        "its start stays the same; it may sleep at one look, and run at the next"
    )
    assert first[0] in "SR"
    assert look_with_ps(2**22 + 1) is None


@pytest.mark.parametrize("text", ["", "here", "here/", "here/x/1", "/1/2", "here/1/"])
def test_what_is_no_handle_is_none(text: str) -> None:
    assert parse_handle(text) is None


def test_a_handle_is_its_text() -> None:
    handle = identify(os.getpid(), HOST)
    assert handle is not None
    assert parse_handle(str(handle)) == handle


def _group_is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
