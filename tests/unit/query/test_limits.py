"""The memory limit holds for whatever one expression makes, and the files of a query are its process's alone."""

from __future__ import annotations

import json
import mmap
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from carnac.query.running.limits import OVERHEAD_BYTES, apart, may_grow_bytes, memory_held

LIMIT_BYTES = 128 << 20
EXPLOSIONS = (
    "repeat('x', 900000000)",
    "repeat('x', 10000000) FROM range(5000)",
    "range(1000000000)",
    "len(list_resize([1], 1000000000, 0))",
    "format('{:>900000000}', 'x')",
    "printf('%900000000d', 1)",
    "length(replace(repeat('a', 100000), 'a', repeat('b', 100000)))",
    "string_agg(repeat('x', 1000), ',') FROM range(10000000)",
    "list(i) FROM range(1000000000) t(i)",
    "list_transform(range(1000000), lambda x: repeat('x', 60000))",
    "unnest(range(1000000000))",
    "bitstring('1', 2000000000)",
    "count(*) FROM (SELECT repeat('x', 100000) || i AS k FROM range(100000) t(i) ORDER BY k LIMIT 90000)",
    "max(length(s)) FROM (WITH RECURSIVE t(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM t"
    " WHERE length(s) < 4000000000) FROM t)",
)
PROGRAM = """
import json, os, sys
from pathlib import Path
from carnac.deep_storage import open_deep_storage
from carnac.errors import Unavailable
from carnac.query import QueryEngine
from tests.support.segments import MemoryCatalog

engine = QueryEngine(
    open_deep_storage(sys.argv[1]), threads=2, memory_limit_bytes=int(sys.argv[2]), timeout_ms=60_000
)
honest = "SELECT count(*) AS n FROM (SELECT DISTINCT i % 500000 FROM range(1000000) t(i))"

def kib(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))

def run(sql):
    return engine.run_query(sql, MemoryCatalog()).table.to_pylist()

run(honest)
before = kib("VmRSS")
for expression in json.load(sys.stdin):
    Path("/proc/self/clear_refs").write_text("5")
    try:
        run(f"SELECT {expression}")
        said = ""
    except Unavailable as error:
        said = error.message
    grown = (kib("VmHWM") - before) * 1024
    print(json.dumps([expression, grown, said, run(honest) == [{"n": 500000}]]))
engine.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to a limit of data")
@pytest.mark.slow
def test_no_expression_takes_much_more_than_the_limit(tmp_path: Path) -> None:
    """One after the other in one process, on an engine that is as good as new after each."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(LIMIT_BYTES)],
        input=json.dumps(EXPLOSIONS),
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [expression for expression, *_ in found] == list(EXPLOSIONS)
    for expression, grown, said, is_well in found:
        assert grown < 2 * may_grow_bytes(LIMIT_BYTES), expression
        assert "memory" in said, expression
        assert "query_memory_limit_bytes" in said, expression
        assert is_well, expression
    assert list(tmp_path.glob("carnac-*")) == []


def test_the_limit_of_the_process_is_put_back(tmp_path: Path) -> None:
    from carnac.deep_storage import open_deep_storage
    from carnac.query import QueryEngine
    from tests.support.segments import MemoryCatalog

    before = resource.getrlimit(resource.RLIMIT_DATA)
    engine = QueryEngine(open_deep_storage(str(tmp_path)), threads=1)
    engine.run_query("SELECT 1", MemoryCatalog())
    engine.close()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_statements_one_after_the_other_start_no_thread_each() -> None:
    threads = [apart(threading.current_thread, lambda _: []) for _ in range(20)]
    assert threading.main_thread() not in threads
    assert len(set(threads)) < len(threads)


def room_bytes() -> int:
    """Return by how much the process may grow."""
    data_pages = int(Path("/proc/self/statm").read_text().split()[5])
    soft = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return soft - data_pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to a limit of data")
def test_what_one_query_leaves_mapped_takes_no_room_from_others() -> None:
    with memory_held("slow", 8 << 20):
        with memory_held("large", 1 << 30):
            left = mmap.mmap(-1, 128 << 20, flags=mmap.MAP_PRIVATE)
        assert room_bytes() > OVERHEAD_BYTES // 2
        left.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to a limit of data")
def test_threads_take_no_room_from_queries() -> None:
    over = threading.Event()
    others = [threading.Thread(target=over.wait) for _ in range(6)]
    with memory_held("slow", 128 << 20):
        before = room_bytes()
        for other in others:
            other.start()
        with memory_held("slow", 128 << 20):
            assert room_bytes() > before - (8 << 20)
        over.set()
        for other in others:
            other.join()


STUBBORN = """
import json, resource, sys, threading
from carnac.deep_storage import open_deep_storage
from carnac.errors import Unavailable
from carnac.query.engine import STUCK_MAX, QueryEngine
from tests.support.segments import MemoryCatalog

engine = QueryEngine(open_deep_storage(sys.argv[1]), threads=1, timeout_ms=60_000)
said = []
before = resource.getrlimit(resource.RLIMIT_DATA)

def run(sql):
    try:
        said.append(engine.run_query(sql, MemoryCatalog()).table.to_pylist())
    except Unavailable as error:
        said.append([type(error).__name__, error.message])

stubborn = "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
run("SELECT 1 AS n")  # what is loaded for the first one takes its time
engine._timeout_ms = 1_000
run(stubborn)
engine._timeout_ms = 60_000  # how fast an honest one is does not matter
run("SELECT 1 AS n")
engine._timeout_ms = 1_000
others = [threading.Thread(target=run, args=[stubborn]) for _ in range(STUCK_MAX - 1)]
for one in others:
    one.start()
for one in others:
    one.join()
run("SELECT 1 AS n")
engine.close()
print(json.dumps([*said, resource.getrlimit(resource.RLIMIT_DATA) == before]))
"""


@pytest.mark.slow
def test_whoever_asks_waits_for_no_function_over_one_huge_value(tmp_path: Path) -> None:
    """Others go on beside a few of them, no more, and may take memory; the process ends with all of them."""
    ended = subprocess.run(
        [sys.executable, "-c", STUBBORN, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    )
    earlier, first, honest, *others, refused, is_unlimited = json.loads(ended.stdout)
    assert earlier == honest == [{"n": 1}]
    for kind, message in [first, *others]:
        assert kind == "TimedOut"
        assert "took longer than 1000 ms and has not ended since" in message
    assert refused[0] == "Unavailable"
    assert "4 queries that were stopped go on in this process" in refused[1]
    assert is_unlimited
