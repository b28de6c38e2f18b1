"""A broker over historicals: answers are those of one engine, whoever dies meanwhile, and say what they rest on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from carnac.broker import Broker, scatter
from carnac.errors import Cancelled, Corrupt, TimedOut, Unavailable
from carnac.ports.answers import AnswerFacts, Engine, OnMissing
from carnac.ports.queries import KEEP, READ_ALL, Keeping, LeafReport, LeafRequest
from carnac.ports.serving import Role
from tests.support.historicals import settled
from tests.support.served import ServedStore
from tests.unit.broker.conftest import append_day, rows_of, statement
from tests.waiting import until

STATEMENTS = [
    "SELECT kind, count(*) AS c, sum(n) AS s, avg(n) AS a FROM events GROUP BY kind ORDER BY kind",
    "SELECT count(*) AS c FROM events WHERE __time >= TIMESTAMP '2013-01-04'",
    "SELECT __time, n FROM events ORDER BY __time DESC, n LIMIT 7",
    "SELECT n, kind FROM events WHERE n > 20",
    "SELECT kind, median(n) AS m FROM events GROUP BY kind ORDER BY kind",
    "SELECT e.kind, l.v, count(*) AS c FROM events e JOIN lookup.names l ON l.k = e.kind GROUP BY ALL ORDER BY 1",
    "SELECT count(*) AS c FROM events a JOIN events b ON a.n = b.n WHERE a.__time < TIMESTAMP '2013-01-02'",
    "SELECT count(*) AS c FROM events WHERE false",
    "SELECT 1 AS one",
    "SHOW TABLES",
]
HEAVY = "SELECT count(*) FROM events a, events b, events c, events d WHERE (a.n * b.n * c.n * d.n) % 7 = 3"


def fill(served: ServedStore, days: int) -> None:
    """Append twice on each day, and let each segment be loaded by two historicals."""
    for day in range(1, days + 1):
        append_day(served.store, day)
        append_day(served.store, day, rows=5)
    served.store.set_lookup("names", {"a": "Ann", "b": "Bob"})
    served.assign_all(copies=2)
    for line in served.lines:
        settled(line)


@pytest.fixture(params=[2, 5], scope="module")
def kept(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ServedStore, Broker]]:
    """Give a store of eight days over 2 or 5 historicals, and a broker, for tests that change nothing."""
    served = ServedStore(tmp_path_factory.mktemp("kept"), request.param)
    fill(served, 8)
    yield served, served.open_broker().queries
    served.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedStore]:
    """Give a store of four days over three historicals."""
    served = ServedStore(tmp_path, 3)
    fill(served, 4)
    yield served
    served.close()


def in_order(rows: list[dict[str, object]]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.parametrize("sql", STATEMENTS)
def test_answers_are_those_of_one_engine(kept: tuple[ServedStore, Broker], sql: str) -> None:
    served, queries = kept
    answer = queries.run(statement(sql))
    assert answer is not None
    expected = served.store.sql(sql)
    rows = rows_of(answer)
    if "ORDER BY" in sql:
        assert rows == expected.rows()
    else:
        assert in_order(rows) == in_order(expected.rows())
    facts = answer.facts
    assert facts.is_complete
    assert facts.segments_read == facts.segments_expected
    assert facts.revision == served.store.head().revision
    assert isinstance(answer.schema, pa.Schema)
    assert answer.schema.names == expected.arrow().column_names
    assert queries.run(statement(sql), if_none_match=facts.etag) is None


@pytest.mark.slow
def test_facts_agree_with_those_of_the_embedded_engine(served: ServedStore) -> None:
    over = served.open_broker().queries.run(statement(STATEMENTS[0]))
    assert over is not None
    rows_of(over)
    assert over.facts.engine is Engine.ONE_ROUND
    assert over.facts.servers
    for line in served.lines:
        served.kill(line)
    alone = served.open_broker(is_alone=False).queries.run(statement(STATEMENTS[0]))
    assert alone is not None
    rows_of(alone)
    assert alone.facts.engine is Engine.EMBEDDED
    assert alone.facts.receipt == over.facts.receipt
    assert alone.facts.etag == over.facts.etag


@pytest.mark.slow
def test_a_process_whose_historicals_have_all_gone_reads_the_files_itself(
    served: ServedStore,
) -> None:
    """Whoever tries a historical beside `carnac serve` and ends it again need not start the rest anew."""
    queries = served.open_broker(is_alone=False).queries

    def engine() -> Engine:
        answer = queries.run(statement(STATEMENTS[0]))
        assert answer is not None
        assert rows_of(answer) == served.store.sql(STATEMENTS[0]).rows()
        return answer.facts.engine

    assert engine() is Engine.ONE_ROUND
    for line in served.lines:
        served.announce(line, is_draining=True)
    until(lambda: engine() is Engine.EMBEDDED, "a broker that knows that nobody takes queries")
    for line in served.lines:
        served.kill(line)
    assert engine() is Engine.EMBEDDED


def test_segments_are_asked_of_who_has_them(served: ServedStore) -> None:
    queries = served.open_broker().queries
    rows_of(queries.run(statement(STATEMENTS[0])))
    asked = [
        (line, piece.segment.segment_id)
        for line in served.lines
        for request in line.asked
        for piece in request.slices
    ]
    assert len(asked) == len({segment_id for _, segment_id in asked}) == 8
    for line, segment_id in asked:
        assert segment_id in {one.segment_id for one in line.inventory().holdings}


@pytest.mark.slow
@pytest.mark.parametrize("batches", [None, 0])
@pytest.mark.parametrize("sql", [STATEMENTS[0], STATEMENTS[3]])
def test_a_server_that_dies_is_not_noticed(
    served: ServedStore, sql: str, batches: int | None
) -> None:
    """Before it answers, or in the middle of its rows: others are asked, and nothing counts twice."""
    queries = served.open_broker().queries
    expected = in_order(served.store.sql(sql).rows())
    dying = served.lines[0]
    if batches is None:
        dying.is_cut = True
    else:
        dying.batches_left = batches
    answer = queries.run(statement(sql))
    assert in_order(rows_of(answer)) == expected
    assert answer is not None
    assert answer.facts.is_complete
    assert dying.server_id not in answer.facts.servers


def test_a_server_that_hangs_is_not_waited_for(served: ServedStore) -> None:
    queries = served.open_broker().queries
    served.lines[0].is_moving.clear()
    try:
        answer = queries.run(statement(STATEMENTS[0]))
        assert rows_of(answer) == served.store.sql(STATEMENTS[0]).rows()
    finally:
        served.lines[0].is_moving.set()
    assert answer is not None
    assert served.lines[0].server_id not in answer.facts.servers


def test_a_scan_is_asked_part_by_part(served: ServedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that dies between two parts is not noticed either: what was handed on is not asked for again."""
    monkeypatch.setattr(scatter, "CHUNK_BYTES", 1)
    monkeypatch.setattr(scatter, "AHEAD_MAX", 2)
    answer = served.open_broker().queries.run(statement(STATEMENTS[3]))
    assert answer is not None
    batches = answer.batches()
    rows = next(batches).to_pylist()  # type: ignore[attr-defined]
    served.kill(served.lines[0])
    for batch in batches:
        rows += batch.to_pylist()  # type: ignore[attr-defined]
    assert in_order(rows) == in_order(served.store.sql(STATEMENTS[3]).rows())
    assert max(len(one.slices) for line in served.lines for one in line.asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["SLICES_AT_ONCE", "COLUMNS_AT_ONCE"])
@pytest.mark.parametrize("dead", [0, 2])
def test_no_request_has_more_segments_than_can_be_sent(
    served: ServedStore, monkeypatch: pytest.MonkeyPatch, limit: str, dead: int
) -> None:
    monkeypatch.setattr(scatter, limit, 1)
    for line in served.lines[:dead]:
        served.kill(line)
    queries = served.open_broker().queries
    for sql in STATEMENTS:
        rows = rows_of(queries.run(statement(sql)))
        assert in_order(rows) == in_order(served.store.sql(sql).rows())
    assert max(len(one.slices) for line in served.lines for one in line.asked) == 1


@pytest.mark.slow
def test_a_server_whose_report_is_not_what_was_asked_does_not_count(served: ServedStore) -> None:
    served.lines[0].lies = True
    answer = served.open_broker().queries.run(statement(STATEMENTS[0]))
    assert rows_of(answer) == served.store.sql(STATEMENTS[0]).rows()
    assert answer is not None
    assert served.lines[0].server_id not in answer.facts.servers


@pytest.mark.slow
def test_a_stop_that_comes_late_stops_nothing_else(served: ServedStore) -> None:
    """A server that came back is asked again for the same query; the stop of before is still on its way."""
    queries = served.open_broker().queries
    for _ in range(2):
        assert rows_of(queries.run(statement(STATEMENTS[0])))
    asked = [one.query_id for line in served.lines for one in line.asked]
    assert len(asked) == len(set(asked)) > len(served.lines)


def test_a_leaf_that_nobody_here_has_stopped_is_asked_elsewhere(
    served: ServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(request: LeafRequest) -> tuple[Iterator[object], LeafReport]:
        raise Cancelled(f"the request '{request.query_id}' was cancelled")

    monkeypatch.setattr(served.lines[0], "run", stopped)
    answer = served.open_broker().queries.run(statement(STATEMENTS[0]))
    assert rows_of(answer) == served.store.sql(STATEMENTS[0]).rows()
    assert answer is not None
    assert served.lines[0].server_id not in answer.facts.servers


def test_a_server_that_drains_is_avoided(served: ServedStore) -> None:
    queries = served.open_broker().queries
    served.lines[
        0
    ].historical.drain()  # nobody has said so yet: it refuses, and another one is asked
    assert rows_of(queries.run(statement(STATEMENTS[0])))
    served.announce(served.lines[0], is_draining=True)

    def is_avoided() -> bool:
        served.lines[0].asked.clear()
        answer = queries.run(statement(STATEMENTS[0]))
        return bool(rows_of(answer)) and not served.lines[0].asked

    until(is_avoided, "a broker that knows that the server drains")


@pytest.mark.slow
def test_what_nobody_has_loaded_is_read_cold(served: ServedStore) -> None:
    queries = served.open_broker().queries
    append_day(served.store, 9)
    sql = "SELECT count(*) AS c FROM events"

    def is_seen() -> bool:
        return rows_of(queries.run(statement(sql))) == served.store.sql(sql).rows()

    until(is_seen, "the new revision")
    answer = queries.run(statement(sql))
    assert answer is not None
    rows_of(answer)
    cold = answer.facts.segments_cold
    assert 1 <= cold <= answer.facts.segments_read


@pytest.mark.slow
def test_what_was_asked_before_is_kept_at_the_servers(served: ServedStore) -> None:
    queries = served.open_broker().queries

    def ask(keeping: Keeping = KEEP) -> tuple[list[dict[str, object]], AnswerFacts]:
        answer = queries.run(statement(STATEMENTS[0], keeping=keeping))
        assert answer is not None
        return rows_of(answer), answer.facts

    wanted, first = ask(READ_ALL)
    assert first.segments_kept == 0
    assert ask(Keeping(populate=False))[1].segments_kept == 0
    assert ask()[1].segments_kept == 0

    def is_kept() -> bool:  # a server that has begun another query leaves some to its replica
        rows, facts = ask()
        assert rows == wanted
        assert facts.receipt == first.receipt
        return facts.segments_kept == facts.segments_read == first.segments_read

    until(is_kept, "an answer of kept results alone")
    assert ask(READ_ALL)[1].segments_kept == 0


@pytest.mark.slow
def test_explain_says_what_each_server_would_be_asked_for_and_has_kept(
    served: ServedStore,
) -> None:
    queries = served.open_broker().queries

    def parts(keeping: Keeping = KEEP) -> list[str]:
        rows = rows_of(queries.run(statement(f"EXPLAIN {STATEMENTS[0]}", keeping=keeping)))
        told = [str(row["plan"]) for row in rows]
        assert told[0].startswith("one round: ")
        return [line for line in told if line.startswith("historical ")]

    def ask() -> int | None:
        answer = queries.run(statement(STATEMENTS[0]))
        rows_of(answer)
        return None if answer is None else answer.facts.segments_kept

    before = parts()
    servers = [line.split()[1].rstrip(":") for line in before]
    assert set(servers) == {one.historical.server_id for one in served.lines}
    assert all(" segment" in line and "ones there: 0 of " in line for line in before)
    asked = [request for line in served.lines for request in line.asked]
    assert all(request.is_explained for request in asked), "nothing was run"
    until(lambda: ask() or None, "kept results")
    assert any("ones there: 0 of " not in line for line in parts())
    assert all("ones there: 0 of " in line for line in parts(READ_ALL))
    for line in served.lines:
        line.is_cut = True
    assert all("what it has kept is not known: " in line for line in parts())


def test_damage_is_told_as_damage(served: ServedStore) -> None:
    append_day(served.store, 21)
    [item] = served.store.segments("events", interval="2013-01-21/2013-01-22")
    storage = served.store.deep_storage
    with storage.open_read(item.segment.path) as file:
        data = file.read()
    middle = len(data) // 2
    storage.write(item.segment.path, data[:4] + b"\xff" * middle + data[4 + middle :])
    queries = served.open_broker().queries
    sql = "SELECT sum(n) AS n FROM events"
    with pytest.raises(Corrupt, match=item.segment.segment_id):
        rows_of(queries.run(statement(sql)))
    partial = queries.run(statement(sql, on_missing=OnMissing.PARTIAL))
    assert partial is not None
    rows_of(partial)
    assert "2013-01-21T" in partial.facts.missing["events"][0]


def test_with_none_left_on_missing_decides(served: ServedStore) -> None:
    queries = served.open_broker().queries
    for line in served.lines:
        line.is_cut = True
    here = queries.run(statement("SELECT count(*) AS c FROM events"))
    assert here is not None
    assert rows_of(here) != [{"c": 0}], "the broker itself reads what is cold"
    assert here.facts.is_complete
    storage = served.folder / "store" / "deep-storage"
    storage.rename(storage.with_name("away"))
    with pytest.raises(Unavailable, match="cannot be read from any server"):
        rows_of(queries.run(statement(STATEMENTS[0])))
    with pytest.raises(Unavailable, match="cannot be read from any server"):
        rows_of(queries.run(statement(STATEMENTS[3])))
    with pytest.raises(Unavailable, match="no revision before it"):
        rows_of(queries.run(statement(STATEMENTS[0], on_missing=OnMissing.PREVIOUS)))
    answer = queries.run(
        statement("SELECT count(*) AS c FROM events", on_missing=OnMissing.PARTIAL)
    )
    assert answer is not None
    assert rows_of(answer) == [{"c": 0}]
    assert not answer.facts.is_complete
    assert answer.facts.segments_read == 0
    assert list(answer.facts.missing) == ["events"]


@pytest.fixture
def broken(served: ServedStore) -> str:
    """Let a segment's file be gone, which the newest append wrote; return its id."""
    append_day(served.store, 20)
    [item] = served.store.segments("events", interval="2013-01-20/2013-01-21")
    served.store.deep_storage.delete(item.segment.path)
    return item.segment.segment_id


@pytest.mark.slow
def test_a_segment_that_no_server_can_read(served: ServedStore, broken: str) -> None:
    sql = "SELECT count(*) AS c FROM events"
    queries = served.open_broker().queries
    with pytest.raises(Corrupt, match=broken) as error:
        rows_of(queries.run(statement(sql)))
    assert "2013-01-20" in str(error.value.ids["missing"])
    with pytest.raises(Corrupt, match=broken):
        rows_of(queries.run(statement("SELECT n FROM events")))
    partial = queries.run(statement(sql, on_missing=OnMissing.PARTIAL))
    assert partial is not None
    assert rows_of(partial) == [{"c": 4 * 29}]
    assert not partial.facts.is_complete
    assert (partial.facts.segments_expected, partial.facts.segments_read) == (9, 8)
    assert "2013-01-20T" in partial.facts.missing["events"][0]
    previous = queries.run(statement(sql, on_missing=OnMissing.PREVIOUS))
    assert previous is not None
    assert rows_of(previous) == [{"c": 4 * 29}]
    assert previous.facts.is_complete
    assert previous.facts.revision == served.store.head().revision - 1
    assert previous.facts.receipt.revision == previous.facts.revision
    early = "SELECT count(*) AS c FROM events WHERE __time < TIMESTAMP '2013-01-03'"
    assert rows_of(queries.run(statement(early))) == [{"c": 58}]


@pytest.mark.slow
def test_a_query_is_cancelled_and_is_late(kept: tuple[ServedStore, Broker]) -> None:
    _, queries = kept
    with pytest.raises(TimedOut):
        rows_of(queries.run(statement(HEAVY, timeout_ms=300)))
    errors: list[Exception] = []

    def run() -> None:
        try:
            rows_of(queries.run(statement(HEAVY, "heavy")))
        except Cancelled as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: queries.cancel("heavy"), "the query")
    thread.join()
    assert errors
    assert rows_of(queries.run(statement(STATEMENTS[0])))


def test_a_stream_that_is_left_stops(kept: tuple[ServedStore, Broker]) -> None:
    _, queries = kept
    answer = queries.run(statement("SELECT n FROM events"))
    assert answer is not None
    next(iter(answer.batches()))
    answer.close()
    assert rows_of(queries.run(statement(STATEMENTS[0])))


def test_a_broker_says_what_it_plans_on(served: ServedStore) -> None:
    handle = served.open_broker()
    [record] = served.metadata.servers(Role.BROKER)
    head = served.store.head().revision
    assert (record.planning_revision, record.oldest_revision) == (head, head)
    running = handle.queries.run(statement("SELECT n FROM events"))
    assert running is not None
    append_day(served.store, 9)
    until(
        lambda: (
            [
                (one.planning_revision, one.oldest_revision)
                for one in served.metadata.servers(Role.BROKER)
            ]
            == [(head + 1, head)]
        ),
        "a heartbeat",
    )
    running.close()
    handle.close()
    assert not served.metadata.servers(Role.BROKER)


@pytest.mark.slow
def test_servers_die_and_come_amid_queries(served: ServedStore) -> None:
    """Under a constant load one historical at a time is gone: no query fails, and none is wrong."""
    queries = served.open_broker().queries
    expected = {sql: in_order(served.store.sql(sql).rows()) for sql in STATEMENTS[:4]}
    wrong: list[object] = []
    is_over = threading.Event()

    def ask(number: int) -> None:
        count = 0
        while not is_over.is_set():
            sql = STATEMENTS[count % 4]
            count += 1
            try:
                answer = queries.run(statement(sql, f"q{number}-{count}"))
                rows = in_order(rows_of(answer))
            except Exception as error:
                wrong.append(error)
                return
            if rows != expected[sql] or answer is None or not answer.facts.is_complete:
                wrong.append((sql, rows))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for number, line in enumerate(served.lines * 2, start=1):
        line.batches_left = 1
        until(lambda line=line: line.is_cut or wrong, "a server that dies in an answer")  # type: ignore[misc]
        served.kill(line)
        line.is_cut, line.batches_left = False, None
        served.announce(line, started_at_ms=number)
        rounds = len(line.asked)
        until(lambda line=line, rounds=rounds: len(line.asked) > rounds or wrong, "its return")  # type: ignore[misc]
    is_over.set()
    for thread in threads:
        thread.join()
    assert not wrong
