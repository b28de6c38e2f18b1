"""A broker over the embedded engine: what answers say, ETags, the queue, cancelling, the query log."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import carnac
from carnac.errors import Busy, Cancelled, Conflict, Invalid, NotFound, TimedOut
from carnac.ports.answers import Client, Engine
from tests.unit.broker.conftest import OpenBroker, append_day, day_of, rows_of, statement
from tests.waiting import until

COUNT = "SELECT kind, count(*) AS c, sum(n) AS s FROM events GROUP BY kind ORDER BY kind"
HEAVY = (
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE (a.range * b.range) % 7 = 3"
)


def test_an_answer_says_what_it_rests_on(open_one: OpenBroker, store: carnac.Store) -> None:
    queries = open_one().queries
    answer = queries.run(statement(COUNT))
    assert answer is not None
    facts = answer.facts
    assert (facts.revision, facts.segments_expected) == (store.head().revision, 3)
    assert (facts.engine, facts.is_complete, facts.missing) == (Engine.EMBEDDED, True, {})
    assert facts.receipt.rows is None
    assert rows_of(answer) == store.sql(COUNT).rows()
    assert (facts.segments_read, facts.receipt.rows) == (3, 2)
    assert facts.receipt.rows_digest
    answer.close()
    assert queries.run(statement(COUNT), if_none_match=f'"{facts.etag}"') is None


def test_an_etag_changes_when_the_answer_could(open_one: OpenBroker, store: carnac.Store) -> None:
    queries = open_one().queries

    def etag(sql: str) -> str:
        answer = queries.run(statement(sql))
        assert answer is not None
        rows_of(answer)
        return answer.facts.etag

    early = "SELECT count(*) AS c FROM events WHERE __time < TIMESTAMP '2013-01-02'"
    named = "SELECT v FROM lookup.names"
    before = [etag(COUNT), etag(early), etag(named), etag("SELECT now()")]
    assert before[:3] == [etag(COUNT), etag(f"{early}  -- again"), etag(named)]
    append_day(store, 9)
    store.append("others", day_of(1))
    after = [etag(COUNT), etag(early), etag(named), etag("SELECT now()")]
    assert [one == other for one, other in zip(before, after, strict=True)] == [
        False,
        True,
        True,
        True,  # of the same query id; it matches nothing all the same
    ]
    again = queries.run(statement("SELECT now()"), if_none_match=f'"{after[3]}"')
    assert again is not None
    again.close()
    store.set_lookup("names", {"a": "Anna"})
    assert etag(named) != before[2]
    assert etag(COUNT) == after[0]


def test_answers_of_the_past(open_one: OpenBroker, store: carnac.Store) -> None:
    queries = open_one().queries
    answer = queries.run(statement("SELECT count(*) AS c FROM events", at=1))
    assert rows_of(answer) == [{"c": 24}]
    with pytest.raises(NotFound):
        queries.run(statement(COUNT, at=1000))


def test_a_revision_is_kept_while_an_answer_is_read(
    open_one: OpenBroker, store: carnac.Store
) -> None:
    queries = open_one().queries
    answer = queries.run(statement("SELECT n FROM events ORDER BY n"))
    assert answer is not None
    batches = answer.batches()
    store.delete("events", interval="2013-01-01/2014-01-01")
    assert sum(batch.num_rows for batch in batches) == 72  # type: ignore[attr-defined]


def test_more_than_the_slots_wait_and_more_than_the_queue_are_sent_away(
    open_one: OpenBroker,
) -> None:
    handle = open_one(query_slots=1, query_queue_max=1)
    first = handle.queries.run(statement("SELECT n FROM events", "first"))
    assert first is not None
    found: list[list[dict[str, object]]] = []
    waiter = threading.Thread(
        target=lambda: found.append(rows_of(handle.queries.run(statement(COUNT, "second"))))
    )
    waiter.start()
    until(lambda: handle.queue.waiting == 1, "a query that waits")
    with pytest.raises(Busy) as refused:
        handle.queries.run(statement(COUNT, "third"))
    assert refused.value.retry_after_s >= 1
    with pytest.raises(Conflict):
        handle.queries.run(statement(COUNT, "second"))
    assert not found
    first.close()
    waiter.join()
    assert len(found[0]) == 2


def test_who_waits_can_be_cancelled_and_can_be_late(open_one: OpenBroker) -> None:
    handle = open_one(query_slots=1)
    first = handle.queries.run(statement("SELECT n FROM events", "first"))
    assert first is not None
    with pytest.raises(TimedOut):
        handle.queries.run(statement(COUNT, "late", timeout_ms=20))
    errors: list[Exception] = []

    def wait() -> None:
        try:
            handle.queries.run(statement(COUNT, "second"))
        except Cancelled as error:
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    until(lambda: handle.queries.cancel("second"), "a query that waits")
    waiter.join()
    assert errors
    assert not handle.queries.cancel("second")
    first.close()
    assert len(rows_of(handle.queries.run(statement(COUNT, "second")))) == 2


def test_whose_asker_has_gone_is_abandoned_and_not_cancelled(
    open_one: OpenBroker, tmp_path: Path
) -> None:
    queries = open_one(query_slots=1).queries
    first = queries.run(statement("SELECT n FROM events", "first"))
    assert first is not None

    def wait(query_id: str) -> None:
        with pytest.raises(Cancelled):
            queries.run(statement(COUNT, query_id))

    for query_id, is_left in [("gone", True), ("stopped", False)]:
        waiter = threading.Thread(target=wait, args=(query_id,))
        waiter.start()
        until(
            lambda name=query_id, left=is_left: queries.cancel(name, is_left=left),  # type: ignore[misc]
            "a query that waits",
        )
        waiter.join()
    first.close()
    lines = (tmp_path / "store" / "query-log.jsonl").read_text().splitlines()
    outcomes = {
        one["query_id"]: (one["outcome"], one.get("error")) for one in map(json.loads, lines)
    }
    assert outcomes["gone"] == ("abandoned", None)
    assert outcomes["stopped"] == ("cancelled", "query 'stopped' was cancelled while it waited")


def test_what_runs_is_cancelled_by_its_id(open_one: OpenBroker) -> None:
    queries = open_one().queries
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
    assert "was cancelled" in str(errors[0])


def test_a_lane_limits_its_own_queries(open_one: OpenBroker) -> None:
    handle = open_one(query_lanes={"reports": 1})
    first = handle.queries.run(statement(COUNT, "first", lane="reports"))
    assert first is not None
    with pytest.raises(TimedOut):
        handle.queries.run(statement(COUNT, "second", lane="reports", timeout_ms=20))
    assert rows_of(handle.queries.run(statement(COUNT, "third")))
    first.close()
    with pytest.raises(Invalid, match="there is no lane 'other'"):
        handle.queries.run(statement(COUNT, "fourth", lane="other"))


def test_each_query_leaves_a_line(open_one: OpenBroker, tmp_path: Path) -> None:
    queries = open_one().queries
    rows_of(queries.run(statement(COUNT, "good", client=Client("me"), parameters=())))
    with pytest.raises(NotFound):
        queries.run(statement("SELECT 'postgresql://u:secret@h/d' AS n, x FROM events", "bad"))
    answer = queries.run(statement("SELECT n FROM events", "left"))
    assert answer is not None
    answer.close()
    with pytest.raises(TimedOut):
        rows_of(queries.run(statement(HEAVY, "slow", timeout_ms=50)))
    lines = [
        json.loads(line)
        for line in (tmp_path / "store" / "query-log.jsonl").read_text().splitlines()
    ]
    assert [(line["query_id"], line["outcome"]) for line in lines] == [
        ("good", "ok"),
        ("bad", "not_found"),
        ("left", "abandoned"),
        ("slow", "timed_out"),
    ]
    good, bad = lines[:2]
    assert (good["rows"], good["client"], good["complete"], good["segments_read"]) == (
        2,
        "me",
        True,
        3,
    )
    assert good["revision"] == 4
    assert good["rows_digest"]
    assert "secret" not in json.dumps(bad)
    assert "there is no column" in bad["error"]


def test_the_query_log_keeps_its_limit(open_one: OpenBroker, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "queries.jsonl"
    queries = open_one(query_log=str(log), query_log_limit_bytes=8_000).queries
    for number in range(40):
        rows_of(queries.run(statement("SELECT 1 AS n", f"q{number}")))
    files = sorted(log.parent.iterdir())
    assert [file.name for file in files] == ["queries.jsonl", "queries.jsonl.1"]
    assert sum(file.stat().st_size for file in files) <= 8_000
    assert json.loads(log.read_text().splitlines()[-1])["query_id"] == "q39"


def test_there_may_be_no_query_log(open_one: OpenBroker, tmp_path: Path) -> None:
    queries = open_one(query_log_limit_bytes=0).queries
    rows_of(queries.run(statement(COUNT)))
    assert not (tmp_path / "store" / "query-log.jsonl").exists()
