"""Tools that benchmarks share: medians of runs, percentiles, ratios within one run, and result files.

A result file has the measurements and their machine: cores, memory, versions. It names no host and no path, so that
files of different machines can be compared and published.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

RESULTS = Path(__file__).parents[1] / "results"
SPAWN = multiprocessing.get_context("spawn")
RUNS = 5
"""Results are medians of this many runs."""
PR_SET_CHILD_SUBREAPER = 36
"""Linux's `prctl`: see prctl(2)."""


def machine(packages: Iterable[str] = ()) -> dict[str, object]:
    """Return cores, memory and versions; the packages named are added to Python's own version."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    load = os.getloadavg()[0]
    return {
        "system": platform.system(),
        "kernel": platform.release().split("-")[0],
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "load_1min_at_end": round(load, 2),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in sorted(packages)},
    }


def seconds(work: Callable[[], T]) -> tuple[float, T]:
    """Run once; return wall seconds and the result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def cpu_seconds(work: Callable[[], T]) -> tuple[float, T]:
    """Run once; return the seconds of CPU of this process, which a busy machine hardly changes, and the result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def run_processes(work: Callable[..., None], arguments: Iterable[Sequence[object]]) -> list[Any]:
    """Run `work(*arguments, barrier, answers)` in a process for each, at once; return what each put into `answers`.

    Args:
        work: Prepares, waits at the barrier for the others, works, and puts one answer.
    """
    given = list(arguments)
    answers: Any = SPAWN.Queue()
    barrier = SPAWN.Barrier(len(given))
    children = [SPAWN.Process(target=work, args=(*some, barrier, answers)) for some in given]
    for child in children:
        child.start()
    found = [answers.get() for _ in children]
    for child in children:
        child.join()
    return found


def tree_cpu_seconds() -> float:
    """Return the seconds of CPU that this process and all below it have used, those that ended included (Linux)."""
    _keep_orphans()
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # it ended meanwhile
        fields = text.rsplit(")", 1)[1].split()
        stats[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while True:
        more = {pid for pid, (parent, _) in stats.items() if parent in below} - below
        if not more:
            break
        below |= more
    return sum(stats[pid][1] for pid in below if pid in stats) / os.sysconf("SC_CLK_TCK")


@cache
def _keep_orphans() -> None:
    """Have processes whose parent ends become children of this one, or what they have used would be forgotten."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def percentiles_ms(latencies_s: Sequence[float]) -> dict[str, float]:
    """Return p50, p99 and max in milliseconds; the latencies are in seconds and not empty."""
    ordered = sorted(latencies_s)
    return {
        "p50_ms": round(ordered[len(ordered) // 2] * 1000, 3),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000, 3),
        "max_ms": round(ordered[-1] * 1000, 3),
    }


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure over the runs, which all have the same figures."""
    return {name: round(statistics.median(run[name] for run in runs), 4) for name in runs[0]}


def ratio(ours: float, theirs: float) -> float:
    """Return how many times theirs ours is, to two digits."""
    return round(ours / theirs, 2)


def write_results(
    name: str, figures: Mapping[str, object], *, packages: Iterable[str] = (), note: str = ""
) -> Path:
    """Write `results/<name>.json`, and print it."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    content = {
        "benchmark": name,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(packages),
        **({"note": note} if note else {}),
        "figures": figures,
    }
    text = json.dumps(content, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")
    return path


def read_figures(name: str) -> dict[str, object]:
    """Return the figures of `results/<name>.json`; nothing if there is none yet."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return {}
    figures: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return figures
