"""Light statements over historicals: one server answers for the whole, and if it cannot, others do for its parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac.broker import Broker
from tests.support.historicals import settled
from tests.support.served import Line, ServedStore
from tests.unit.broker.conftest import append_day, rows_of, statement

STATEMENTS = [
    "SELECT kind, count(*) AS c, avg(n) AS a FROM events GROUP BY kind HAVING c > 1 ORDER BY kind LIMIT 5",
    "SELECT __time, n FROM events ORDER BY __time DESC, n LIMIT 7",
    "SELECT sum(n) AS s, min(e.kind) AS k, max(l.v) AS v FROM events e JOIN lookup.names l ON l.k = e.kind",
]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedStore]:
    """Give a store of four days that each of two historicals holds."""
    served = ServedStore(tmp_path, 2)
    for day in range(1, 5):
        append_day(served.store, day)
    served.store.set_lookup("names", {"a": "Ann", "b": "Bob"})
    served.assign_all(copies=2)
    for line in served.lines:
        settled(line)
    yield served
    served.close()


@pytest.fixture
def queries(served: ServedStore) -> Broker:
    return served.open_broker(query_part_bytes=1 << 20).queries


def check(queries: Broker, sql: str, expected: list[dict[str, object]]) -> None:
    answer = queries.run(statement(sql))
    assert rows_of(answer) == expected
    assert answer is not None
    assert answer.facts.is_complete
    assert answer.facts.segments_read == answer.facts.segments_expected == 4


def first_asked(served: ServedStore) -> Line:
    """Return whom the statements are asked of."""
    [asked] = [line for line in served.lines if line.asked]
    return asked


@pytest.mark.parametrize("sql", STATEMENTS)
def test_one_server_is_asked_and_nothing_is_merged(
    served: ServedStore, queries: Broker, sql: str
) -> None:
    check(queries, sql, served.store.sql(sql).rows())
    [request] = first_asked(served).asked
    assert len(request.slices) == 4


@pytest.mark.parametrize("sql", STATEMENTS)
def test_others_are_asked_when_it_dies(served: ServedStore, queries: Broker, sql: str) -> None:
    expected = served.store.sql(sql).rows()
    check(queries, sql, expected)
    first_asked(served).batches_left = 0
    check(queries, sql, expected)


@pytest.mark.slow
@pytest.mark.parametrize("sql", STATEMENTS)
def test_others_are_asked_for_what_it_has_lost(
    served: ServedStore, queries: Broker, sql: str
) -> None:
    """Of its rows, those of an answer of the whole, nothing counts then."""
    expected = served.store.sql(sql).rows()
    check(queries, sql, expected)
    line = first_asked(served)
    segment = line.asked[0].slices[0].segment
    line.historical._shelf.place_of(segment.segment_id).unlink()
    (served.folder / "store" / "deep-storage" / segment.path).unlink()
    check(queries, sql, expected)
    assert all(one.asked for one in served.lines)


@pytest.mark.slow
def test_the_newest_rows_are_asked_of_one_server_that_has_all_files_whatever_their_size(
    served: ServedStore,
) -> None:
    """It reads the newest files alone; others would look for as many rows in vain."""
    queries = served.open_broker(query_part_bytes=1).queries
    newest = STATEMENTS[1]
    check(queries, newest, served.store.sql(newest).rows())
    [request] = first_asked(served).asked
    assert len(request.slices) == 4
    shares = [str(row) for row in rows_of(queries.run(statement(f"EXPLAIN {newest}")))]
    assert sum("historical" in row for row in shares) == 1
    check(queries, STATEMENTS[0], served.store.sql(STATEMENTS[0]).rows())
    assert all(line.asked for line in served.lines), "all others are shared"
