"""Whole answers that a broker keeps: nobody is asked again for what rests on the same segments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac.broker import Broker
from carnac.broker.answer import BrokerAnswer
from carnac.ports.answers import OnMissing
from carnac.ports.queries import READ_ALL, Keeping
from carnac.query.keeping import whole
from tests.support.historicals import settled
from tests.support.served import ServedStore
from tests.unit.broker.conftest import append_day, rows_of, statement

STATEMENTS = [
    "SELECT kind, count(*) AS c, avg(n) AS a FROM events GROUP BY kind ORDER BY kind",
    "SELECT kind, median(n) AS m FROM events GROUP BY kind ORDER BY kind",
    "SELECT __time, n FROM events ORDER BY __time DESC, n LIMIT 7",
    "SELECT l.v, sum(n) AS s FROM events e JOIN lookup.names l ON l.k = e.kind GROUP BY 1 ORDER BY 1",
    "SELECT count(*) AS c FROM events WHERE n > (SELECT avg(n) FROM events WHERE kind = 'a')",
]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedStore]:
    """Give a store of two days over two historicals; of few rows are answers kept, too."""
    monkeypatch.setattr(whole, "ANSWER_ROWS_MIN", 1)
    served = ServedStore(tmp_path, 2)
    for day in (1, 2):
        append_day(served.store, day)
    served.store.set_lookup("names", {"a": "Ann", "b": "Bob"})
    load(served)
    yield served
    served.close()


@pytest.fixture
def queries(served: ServedStore) -> Broker:
    return served.open_broker().queries


def load(served: ServedStore) -> None:
    served.assign_all(copies=2)
    for line in served.lines:
        settled(line)


def asked(served: ServedStore) -> int:
    return sum(len(line.asked) for line in served.lines)


def run(queries: Broker, sql: str, **how: object) -> tuple[list[dict[str, object]], BrokerAnswer]:
    answer = queries.run(statement(sql, **how))
    assert answer is not None
    rows = rows_of(answer)
    assert answer.facts.is_complete
    assert answer.facts.segments_read == answer.facts.segments_expected
    return rows, answer


@pytest.mark.slow
@pytest.mark.parametrize("sql", STATEMENTS)
def test_an_answer_is_taken_as_long_as_its_segments_are_the_same(
    served: ServedStore, queries: Broker, sql: str
) -> None:
    first, answer = run(queries, sql)
    before = asked(served)
    again, known = run(queries, sql)
    assert again == first == served.store.sql(sql).rows()
    assert asked(served) == before
    assert known.facts.segments_kept == known.facts.segments_read > 0
    assert known.facts.receipt == answer.facts.receipt
    told = [str(row["plan"]) for row in rows_of(queries.run(statement(f"EXPLAIN {sql}")))]
    count = known.facts.segments_read
    assert any(f"taken from kept ones: {count} of {count} segments" in line for line in told)

    append_day(served.store, 3, rows=30)
    load(served)
    changed, other = run(queries, sql, at=served.store.head().revision)
    assert changed == served.store.sql(sql).rows()
    assert other.facts.segments_kept < other.facts.segments_read
    assert asked(served) > before


@pytest.mark.slow
def test_another_lookup_or_parameter_is_another_answer(
    served: ServedStore, queries: Broker
) -> None:
    run(queries, STATEMENTS[3])
    served.store.set_lookup("names", {"a": "Eva", "b": "Bob"})
    rows, _ = run(queries, STATEMENTS[3], at=served.store.head().revision)
    assert [row["v"] for row in rows] == ["Bob", "Eva"]
    sql = "SELECT count(*) AS c FROM events WHERE n < ?"
    found = [run(queries, sql, parameters=(one,))[0][0]["c"] for one in (3, 4, 3)]
    assert found == [6, 8, 6]


@pytest.mark.slow
def test_another_subquery_is_another_answer(served: ServedStore, queries: Broker) -> None:
    for value in ("avg", "max"):
        sql = f"SELECT count(*) AS c FROM events WHERE n > (SELECT {value}(n) FROM events)"
        assert run(queries, sql)[0] == served.store.sql(sql).rows()


def test_nothing_is_taken_or_kept_unless_it_may_be(served: ServedStore, queries: Broker) -> None:
    for keeping in (READ_ALL, Keeping(populate=False), Keeping(use=False), READ_ALL):
        before = asked(served)
        _, answer = run(queries, STATEMENTS[0], keeping=keeping)
        assert answer.facts.segments_kept == 0
        assert asked(served) > before
    assert run(queries, STATEMENTS[0])[1].facts.segments_kept == 2
    explained = queries.run(statement(f"EXPLAIN {STATEMENTS[0]}", keeping=READ_ALL))
    assert not any("whole answer" in str(row["plan"]) for row in rows_of(explained))


@pytest.mark.parametrize("value", ["random()", "RAND()", "now()::VARCHAR"])
def test_what_depends_on_chance_or_the_time_is_asked_each_time(
    served: ServedStore, queries: Broker, value: str
) -> None:
    sql = f"SELECT max({value}) AS v FROM events"
    run(queries, sql)
    before = asked(served)
    run(queries, sql)
    assert asked(served) > before


@pytest.mark.parametrize("on_missing", [OnMissing.PARTIAL, OnMissing.PREVIOUS])
def test_an_answer_without_some_segments_is_not_kept(
    served: ServedStore, queries: Broker, on_missing: OnMissing
) -> None:
    segment = max(
        (one.segment for one in served.store.segments("events")), key=lambda one: one.chunk
    )
    places = [line.historical._shelf.place_of(segment.segment_id) for line in served.lines]
    file = served.folder / "store" / "deep-storage" / segment.path
    content = file.read_bytes()
    for place in (*places, file):
        place.unlink()
    partial = queries.run(statement(STATEMENTS[0], on_missing=on_missing))
    rows = rows_of(partial)
    assert partial is not None
    assert partial.facts.is_complete is (partial.facts.revision == 1)
    assert partial.facts.is_complete is (on_missing is OnMissing.PREVIOUS)
    file.write_bytes(content)
    assert run(queries, STATEMENTS[0])[0] == served.store.sql(STATEMENTS[0]).rows() != rows


@pytest.mark.slow
def test_one_server_runs_the_statement_whose_answer_is_kept_here(
    served: ServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a segment of many rows, of which partial results would be kept else."""
    monkeypatch.setattr("carnac.broker.scatter.KEPT_ROWS_MIN", 1)
    day = "__time < TIMESTAMP '2013-01-02'"
    sql = f"SELECT kind, avg(n) AS a FROM events WHERE {day} GROUP BY kind ORDER BY kind"
    queries = served.open_broker().queries
    assert run(queries, sql)[0] == served.store.sql(sql).rows()
    [request] = [one for line in served.lines for one in line.asked]
    assert "avg" in request.sql, "the statement itself"
    assert run(queries, STATEMENTS[0])[0] == served.store.sql(STATEMENTS[0]).rows()
    assert not any("avg" in one.sql for line in served.lines for one in line.asked[1:])
