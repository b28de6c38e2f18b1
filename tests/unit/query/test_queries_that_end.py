"""How queries end that take too long, or too much, or that nobody wants any more."""

from __future__ import annotations

import contextlib
import signal
import threading

import pyarrow as pa
import pytest

from carnac.errors import CarnacError, Unavailable
from carnac.ports import DeepStorage
from carnac.query import QueryEngine
from tests.support.lengths import grows_with_length
from tests.support.segments import MemoryCatalog
from tests.waiting import until

LIGHT = "SELECT count(*) AS n FROM airlines"
HEAVY = (
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE (a.range * b.range) % 7 = 3"
)


@pytest.mark.parametrize("timeout_ms", [0, 100])
def test_a_query_that_takes_too_long_is_stopped(
    storage: DeepStorage, catalog: MemoryCatalog, timeout_ms: int
) -> None:
    """Also one whose time is over before it has begun to run."""
    engine = QueryEngine(storage, threads=1, timeout_ms=timeout_ms)
    with pytest.raises(Unavailable, match=f"took longer than {timeout_ms} ms"):
        engine.run_query(HEAVY, catalog)
    if timeout_ms:
        until(lambda: is_answered_in_time(engine, catalog), "a query that is fast enough")
    engine.close()


def is_answered(engine: QueryEngine, catalog: MemoryCatalog) -> bool:
    table = engine.run_query(LIGHT, catalog).table
    assert isinstance(table, pa.Table)
    return table.to_pylist() == [{"n": 3}]


def is_answered_in_time(engine: QueryEngine, catalog: MemoryCatalog) -> bool:
    with contextlib.suppress(Unavailable):
        return is_answered(engine, catalog)
    return False


def test_a_running_query_can_be_interrupted(storage: DeepStorage, catalog: MemoryCatalog) -> None:
    engine = QueryEngine(storage, threads=1)
    failures: list[CarnacError] = []

    def run() -> None:
        try:
            engine.run_query(HEAVY, catalog)
        except CarnacError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        engine.interrupt()
        thread.join(0.02)
    assert [str(failure) for failure in failures] == ["the query was interrupted"]
    engine.close()


def test_ctrl_c_during_a_query_is_an_interrupt(
    storage: DeepStorage, catalog: MemoryCatalog
) -> None:
    engine = QueryEngine(storage, threads=1)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)

    def run() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        engine.run_query(HEAVY, catalog)

    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # one on its way would be taken for a timeout
        signal.signal(signal.SIGALRM, before)
    assert is_answered(engine, catalog)
    engine.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "floor(1), " * 8_000 + ")",
        "SELECT " + "position(1), " * 20_000 + ")",
        "SELECT floor(x to day)" + "/* " * 50_000,
        "SELECT " + "floor(x to day)," * 80_000 + ")",
        'SELECT "' + '"' * 200_000 + '"',
    ],
    ids=["floors", "positions", "comments", "units", "quotes"],
)
def test_a_long_statement_is_read_in_one_go(
    storage: DeepStorage, catalog: MemoryCatalog, sql: str
) -> None:
    """What it costs to read it, and to tell what is wrong, grows with its length, and not with the square of that."""
    engine = QueryEngine(storage, threads=1)

    def read(text: str) -> None:
        with pytest.raises(CarnacError):
            engine.run_query(text, catalog)

    assert grows_with_length(read, sql)
    engine.close()


def test_the_memory_limit_is_kept(storage: DeepStorage, catalog: MemoryCatalog) -> None:
    engine = QueryEngine(storage, threads=1, memory_limit_bytes=64 << 20)
    with pytest.raises(Unavailable, match=r"more memory than .*67,108,864 bytes"):
        engine.run_query(
            "SELECT length(string_agg(repeat('x', 1000), '')) FROM range(400000)", catalog
        )
    engine.close()


def test_who_takes_too_much_ends_no_other_s_query(
    storage: DeepStorage, catalog: MemoryCatalog
) -> None:
    """The engine begins anew with another connection; what was planned over the old one still runs there."""
    engine = QueryEngine(storage, threads=1, memory_limit_bytes=64 << 20)
    planned = engine.open_query(LIGHT, catalog)
    with pytest.raises(Unavailable, match="more memory"):
        engine.run_query("SELECT list(i) FROM range(100000000) t(i)", catalog)
    engine.interrupt()  # nor does it keep the engine from stopping what runs
    with pytest.raises(Unavailable, match="was interrupted"):
        planned.start()
    planned = engine.open_query(LIGHT, catalog)
    with pytest.raises(Unavailable, match="more memory"):
        engine.run_query("SELECT list(i) FROM range(100000000) t(i)", catalog)
    planned.start()
    assert [row for batch in planned.batches() for row in batch.to_pylist()] == [{"n": 3}]
    engine.close()


def test_a_result_that_memory_does_not_hold_is_refused(
    storage: DeepStorage, catalog: MemoryCatalog
) -> None:
    engine = QueryEngine(storage, threads=1, memory_limit_bytes=64 << 20)
    with pytest.raises(
        Unavailable, match=r"result of the query takes more than 33,554,432 bytes.* fewer rows"
    ):
        engine.run_query("SELECT * FROM range(1000000000000)", catalog)
    assert is_answered(engine, catalog)
    engine.close()
