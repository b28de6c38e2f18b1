"""Set up .venv in the checkout: pinned dependencies, Carnac itself, and a Java for Spark.

Runs on a bare Python 3.11: nothing but the standard library. Packages and Java that are there are
kept, so a second run takes a fraction of a second.

Usage: python scripts/setup_env.py {demo,dev}
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOG = VENV / "setup.log"
GROUPS = {"demo": ("demo", "dev"), "dev": ("dev",)}  # dev satisfies both: it holds all of demo
HEARTBEAT_S = 10.0
SILENCE_S = 0.5
ERROR_TAIL_LINES = 25
NO_ANSWER = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError"
    r"|Network is unreachable|Temporary failure in name resolution"
)
NO_INDEX = (
    "the package index cannot be reached, and set-up needs it once; pip's own settings choose another one, or a folder"
    " of wheels (PIP_INDEX_URL, PIP_FIND_LINKS); the next run goes on where this one stopped"
)


class SetupError(Exception):
    """Something outside Carnac stands in the way; the message says what."""


class Progress:
    """Prints what is being done: one changing line on a terminal, few lines elsewhere."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.is_terminal = sys.stdout.isatty() and os.environ.get("CI") is None
        self._last_print = 0.0

    def elapsed(self) -> str:
        """Return the time since the start, for people."""
        return f"{time.monotonic() - self.started:5.0f} s"

    def step(self, text: str) -> None:
        """Say that something begins or is done."""
        clear = "\r\033[K" if self.is_terminal else ""
        print(f"{clear}[{self.elapsed()}] {text}", flush=True)
        self._last_print = time.monotonic()

    def detail(self, text: str) -> None:
        """Say how far the step is; off a terminal only once per heartbeat."""
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{f'[{self.elapsed()}]   {text}'[:width]}", end="", flush=True)
        elif time.monotonic() - self._last_print >= HEARTBEAT_S:
            self.step(f"  {text}")


class PipProgress:
    """Reads pip's output and tells how many packages are there and how many are to come."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.count = 0
        self.text = "starting pip"

    def feed(self, line: str) -> None:
        """Take one line of pip's output."""
        if match := re.match(r"Collecting (\S+)", line):
            self.count += 1
            self.text = match.group(1).replace("==", " ")
        elif match := re.match(
            r"\s+Downloading (?:\S*/)?([^\s/-]+-[^\s/-]+?)(?:\.tar\.gz|-\S+)? \((.+?)\)", line
        ):
            self.text = f"downloading {match.group(1)} ({match.group(2)})"
        elif match := re.match(r"Requirement already satisfied: (\S+)", line):
            self.count += 1
            self.text = f"{match.group(1)} is here"
        elif match := re.match(r"Building wheels? for collected packages: (.+)", line):
            self.text = f"building {match.group(1).strip()}"
        elif match := re.match(
            r"\s*(?:Building wheel|Running setup.py install) for ([^\s:]+)", line
        ):
            self.text = f"building {match.group(1)}"
        elif line.startswith("Installing collected packages"):
            self.text = "unpacking into .venv"
        elif line.startswith("WARNING: Retrying"):
            self.text = "the package index does not answer, trying again"

    def __str__(self) -> str:
        """Return one line for people."""
        return f"{min(self.count, self.total)} of {self.total} packages: {self.text}"


def lines_of(process: subprocess.Popen[str]) -> Iterator[str | None]:
    """Yield what a process prints, line by line, and None whenever it is silent for half a second."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line.rstrip("\n"))
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while reader.is_alive() or not lines.empty():
        try:
            yield lines.get(timeout=SILENCE_S)
        except queue.Empty:
            yield None


def run_logged(
    command: list[str], on_line: Callable[[str], None], tick: Callable[[], None]
) -> None:
    """Run a command, its output into the log and to `on_line`; `tick` is called twice a second.

    Raises:
        SetupError: The command failed; the message ends with the tail of its output.
    """
    tail: list[str] = []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    )
    with process, LOG.open("a", encoding="utf-8") as log:
        log.write(f"$ {' '.join(command)}\n")
        for line in lines_of(process):
            if line is not None:
                log.write(line + "\n")
                tail = [*tail[-ERROR_TAIL_LINES:], line]
                on_line(line)
            tick()
    if process.returncode != 0:
        if any(NO_ANSWER.search(line) for line in tail):
            raise SetupError(f"{NO_INDEX}\n  the whole output: {LOG}")
        shown = "\n".join(f"    {line}" for line in tail)
        raise SetupError(f"this failed: {' '.join(command)}\n{shown}\n  the whole output: {LOG}")


def pip_install(progress: Progress, title: str, arguments: list[str], total: int) -> None:
    """Run pip install in the environment, with progress."""
    progress.step(title)
    pip = PipProgress(total)
    run_logged(
        [str(PYTHON), "-m", "pip", "install", "--no-input", "--disable-pip-version-check",
         "--progress-bar", "off", *arguments],
        pip.feed,
        lambda: progress.detail(str(pip)),
    )  # fmt: skip


def lock_path(name: str) -> Path:
    """Return the lock file of that name."""
    return ROOT / "requirements" / f"{name}.txt"


def count_pins(path: Path) -> int:
    """Return how many packages a lock file pins."""
    return sum(1 for line in path.read_text(encoding="utf-8").splitlines() if "==" in line[:60])


def fingerprint(group: str) -> str:
    """Return a hash of everything that the environment of that group is made from."""
    digest = hashlib.sha256(sys.version.encode())
    for path in (lock_path("build"), lock_path(group), ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stamp_path(group: str) -> Path:
    """Return the file that says what the environment was made from."""
    return VENV / f"carnac-{group}.stamp"


def is_ready(group: str) -> bool:
    """Return whether the environment already holds that group, as it is pinned today."""
    return any(
        stamp_path(held).is_file() and stamp_path(held).read_text() == fingerprint(held)
        for held in GROUPS[group]
    )


def works(environment: Path) -> bool:
    """Return whether an environment runs, on Python 3.11 or newer, where it was made.

    One that was moved or copied still runs, but its programs name the old place.
    """
    pip = environment / "bin" / "pip"
    if not pip.is_file() or str(environment) not in pip.read_text(encoding="utf-8"):
        return False
    probe = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        return (
            subprocess.run(
                [environment / "bin" / "python", "-c", probe], check=False, capture_output=True
            ).returncode
            == 0
        )
    except OSError:
        return False


def make_venv(progress: Progress) -> None:
    """Create .venv, or make it anew if it does not work (moved, or its Python is gone)."""
    if works(VENV):
        return
    version = ".".join(map(str, sys.version_info[:3]))
    progress.step(f"creating .venv with Python {version} ({sys.executable})")
    try:
        venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(VENV)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetupError(f"a virtual environment could not be made in {VENV}: {error}") from error


def install_group(progress: Progress, group: str) -> None:
    """Install the pinned dependencies and Carnac itself."""
    build, lock = lock_path("build"), lock_path(group)
    hashes = ["--require-hashes", "--no-build-isolation"]
    title = "installing the build tools (requirements/build.txt)"
    pip_install(progress, title, [*hashes, "-r", str(build)], count_pins(build))
    title = f"installing {count_pins(lock)} pinned packages (requirements/{group}.txt)"
    pip_install(progress, title, [*hashes, "-r", str(lock)], count_pins(lock))
    here = ["--no-deps", "--no-build-isolation", "--no-index", "--editable", str(ROOT)]
    pip_install(progress, "installing Carnac itself, editable", here, 1)
    stamp_path(group).write_text(fingerprint(group))


def probe_java() -> dict[str, str] | str:
    """Return the Java that Carnac finds, or the sentence that says why there is none."""
    command = [str(PYTHON), "-m", "carnac.spark.java"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if result.returncode == 0:
        found: dict[str, str] = json.loads(result.stdout)
        return found
    return result.stderr.strip()


def ensure_java(progress: Progress) -> str:
    """Return a line about the Java that Spark will use; installs the wheel if there is none."""
    found = probe_java()
    if isinstance(found, str):
        title = "no Java 17 or newer on this machine: installing one (requirements/java.txt)"
        pip_install(progress, title, ["--require-hashes", "-r", str(lock_path("java"))], 1)
        found = probe_java()
    if isinstance(found, str):
        raise SetupError(found)
    return f"Java {found['version']} ({found['source']})"


@contextmanager
def alone(progress: Progress, folder: Path = ROOT) -> Iterator[None]:
    """Hold the checkout: of two set-ups at once each would take apart what the other one makes."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step("another set-up is at work in this checkout: waiting for its end")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def main(arguments: list[str]) -> int:
    """Set one group up and print a summary; return the exit code."""
    if len(arguments) != 1 or arguments[0] not in GROUPS:
        print(__doc__)
        return 2
    group = arguments[0]
    progress = Progress()
    try:
        with alone(progress):
            was_ready = works(VENV) and is_ready(group)
            if not was_ready:
                make_venv(progress)
                install_group(progress, group)
            java = ensure_java(progress)
    except SetupError as error:
        progress.step("setup failed")
        print(f"  {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.step("setup interrupted; the next run takes it up again")
        return 130
    state = "is up to date" if was_ready else "is set up"
    progress.step(f".venv {state}: {count_pins(lock_path(group))} pinned packages, {java}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
