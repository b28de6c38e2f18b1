"""Groups that are joined go along with a statement; where they turn out to be too many, it is gathered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac.ports.answers import Engine
from carnac.query.distributed import distributing
from tests.support.served import ServedStore
from tests.unit.broker.conftest import rows_of, statement
from tests.unit.broker.test_distributed import fill, in_order

GROUPS = (
    "(SELECT n % {0} AS g, sum(n) AS s, count(*) AS c FROM events GROUP BY 1) t ON t.g = e.n % {0}"
)
GROUPED = f"SELECT e.kind, max(t.s) AS m, sum(t.c) AS c FROM events e JOIN {GROUPS} GROUP BY 1"
ROWS = f"SELECT e.n, t.s FROM events e LEFT JOIN {GROUPS}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    folder: Path = tmp_path_factory.mktemp("along")
    served = ServedStore(folder, 3)
    fill(served, 4)
    yield served
    served.close()


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "engine"), [(2, Engine.ONE_ROUND), (13, Engine.GATHERED)])
@pytest.mark.parametrize("sql", [GROUPED, ROWS])
def test_groups_go_along_unless_they_are_too_many(
    served: ServedStore,
    monkeypatch: pytest.MonkeyPatch,
    sql: str,
    groups: int,
    engine: Engine,
) -> None:
    monkeypatch.setattr(distributing, "SMALL_ROWS_MAX", 8)
    asked = sql.format(groups)
    answer = served.open_broker().queries.run(statement(asked))
    assert answer is not None
    assert in_order(rows_of(answer)) == in_order(served.store.sql(asked).rows())
    assert answer.facts.is_complete
    assert answer.facts.engine is engine
    assert answer.facts.segments_read == answer.facts.segments_expected
