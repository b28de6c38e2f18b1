"""Random statements asked of a broker over historicals give what one engine gives, and say that they are complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from carnac.broker import Broker
from carnac.errors import CarnacError
from carnac.ports.answers import ANYBODY, Engine, Statement
from carnac.store import Store
from tests.nightly import IS_NIGHTLY
from tests.support.historicals import settled
from tests.support.merging import asked, check_same, fill
from tests.support.served import ServedStore
from tests.support.statements import Asked

STATEMENTS = 500 if IS_NIGHTLY else 25
"""Of each number of historicals, none of them asked of another one."""


@pytest.fixture(params=[1, 2, 5], scope="module")
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, ServedStore]]:
    served = ServedStore(tmp_path_factory.mktemp("served"), request.param)
    fill(served.store)
    served.assign_all(copies=min(2, request.param))
    for line in served.lines:
        settled(line)
    yield request.param, served
    served.close()


def check(queries: Broker, store: Store, one: Asked, query_id: str) -> Engine | None:
    """Compare what a broker says with what the store says; return what ran it, None if it fails everywhere."""
    statement = Statement(client=ANYBODY, sql=one.sql, parameters=one.parameters, query_id=query_id)
    try:
        wanted = store.sql(one.sql, parameters=one.parameters).arrow()
    except CarnacError as error:
        with pytest.raises(type(error)):
            rows_of(queries, statement)
        return None
    found, engine = rows_of(queries, statement)
    if one.all_rows is None:
        check_same(found, wanted, one)
    assert (found.schema, found.num_rows) == (wanted.schema, wanted.num_rows)
    return engine


def rows_of(queries: Broker, statement: Statement) -> tuple[pa.Table, Engine]:
    answer: Any = queries.run(statement)
    with closing(answer):
        table = pa.Table.from_batches(list(answer.batches()), answer.schema)
    assert answer.facts.is_complete
    assert answer.facts.segments_read == answer.facts.segments_expected
    return table, answer.facts.engine


@pytest.mark.slow
def test_a_broker_gives_what_one_engine_gives(served: tuple[int, ServedStore]) -> None:
    historicals, cluster = served
    queries = (
        cluster.open_broker().queries
    )  # one server answers whole statements, of several a broker merges parts
    ways: Counter[Engine | None] = Counter()
    for number in range(historicals * STATEMENTS, (historicals + 1) * STATEMENTS):
        one = asked(number)
        try:
            ways[check(queries, cluster.store, one, f"q{number}")] += 1
        except BaseException as error:
            error.add_note(f"statement {number}: {one.sql}  {list(one.parameters)}")
            raise
    assert ways[Engine.ONE_ROUND] >= STATEMENTS * 2 / 3
    assert ways[Engine.GATHERED]
