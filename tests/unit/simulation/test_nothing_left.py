"""A simulated cluster leaves nothing behind, however it ends: ten thousand seeds fit into one process."""

from __future__ import annotations

import gc
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from carnac.bootstrap.simulated.run import run
from scripts.bugs import BUGS, run_with

SEEDS = 2
LONG = pytest.mark.nightly("runs a cluster once more")
VIOLATED_MAX = 50
"""Seeds that are tried until one finds the planted bug: the first that does ends it."""
DUCKDB_THREADS = 8
"""Of one connection; a run with servers opens several. Arrow, too, starts a few once it needs them."""
OURS = (
    "carnac.bootstrap.simulated",
    "carnac.simulation.cluster",
    "carnac.historical",
    "carnac.broker",
    "carnac.coordinator",
    "carnac.overlord",
    "carnac.metadata.store",
    "carnac.query.engine",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have temporary files in a folder of their own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Have SIGINT interrupt: who starts tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def strands() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "carnac-simulated"]


def native_threads() -> int:
    return len([*Path("/proc/self/task").iterdir()]) - threading.active_count()


def open_files() -> Counter[str]:
    found: Counter[str] = Counter()
    for one in Path("/proc/self/fd").iterdir():
        try:
            found[str(one.readlink())] += 1
        except FileNotFoundError:  # that of the folder
            continue
    return found


def objects() -> Counter[str]:
    gc.collect()
    kinds = (type(one) for one in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if f"{kind.__module__}".startswith(OURS))


def live(seed: int) -> None:
    found = run(seed, steps=3, has_servers=True, has_overlords=True)
    assert not found.violations


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Have a first run load and keep what every run does."""
    live(0)


@pytest.mark.slow
def test_seeds_leave_no_threads_files_or_objects(folder: Path) -> None:
    files, kept, threads = open_files(), objects(), native_threads()
    for seed in range(1, SEEDS + 1):
        live(seed)
    assert not strands()
    assert native_threads() < threads + SEEDS * DUCKDB_THREADS
    assert not open_files() - files
    assert not objects() - kept
    assert not list(folder.glob("carnac-simulated-*"))


def violated() -> None:
    (bug,) = (one for one in BUGS if one.name == "early-unload")
    # which seed finds it depends on all that services do
    assert any(run_with(bug, seed, steps=6).violations for seed in range(VIOLATED_MAX))


def failed() -> None:
    lines = iter(range(200))

    def full(_line: str) -> None:
        if next(lines, None) is None:
            raise OSError(28, "no space left on device")

    with pytest.raises(OSError, match="no space left"):
        run(1, steps=3, has_servers=True, on_note=full)


def interrupted() -> None:
    lines = iter(range(200))

    def ctrl_c(_line: str) -> None:
        if next(lines, None) is None:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(1, steps=3, has_servers=True, on_note=ctrl_c)


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    "end", [violated, pytest.param(failed, marks=LONG), pytest.param(interrupted, marks=LONG)]
)
def test_a_run_that_does_not_come_to_its_end_leaves_nothing(
    end: Callable[[], None], folder: Path
) -> None:
    files, kept = open_files(), objects()
    end()
    assert not strands()
    assert not open_files() - files
    assert not objects() - kept
    assert not list(folder.glob("carnac-simulated-*"))
