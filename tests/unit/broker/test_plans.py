"""Plans of statements that were asked before: the same plan for the same question, and never for another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from carnac.broker.plans import PlanCache
from carnac.ports.answers import ANYBODY, Statement
from carnac.ports.distributed import Along, Distribution, Way
from carnac.ports.queries import SLICE_BYTES, LeafRequest, LeafSlice, QueryBasis
from tests.logs import day, segment
from tests.support.segments import MemoryCatalog

SLICE = LeafSlice(segment=segment("s", day(1)), clip=None)


def plan_of(
    statement: Statement, revision: int, *, slices: int = 1, is_volatile: bool = False
) -> Distribution:
    basis = QueryBasis(
        statement=statement.sql,
        slices=(),
        columns={},
        tables=(),
        is_volatile=is_volatile,
        segments_total=slices,
    )
    leaf = LeafRequest(
        query_id=statement.query_id,
        revision=revision,
        sql="SELECT 1",
        view="v",
        columns={},
        slices=[SLICE] * slices,
    )
    return Distribution(
        way=Way.ONE_ROUND,
        reason="",
        leaves=[leaf],
        final_sql="",
        query_id=statement.query_id,
        stands=(),
        tables={},
        names=None,
        limit=None,
        basis=basis,
        revision=revision,
    )


class Asker:
    """Asks a cache, and counts how often a plan was made."""

    def __init__(self, cache: PlanCache, **made: object) -> None:
        self.cache, self.made, self.number = cache, made, 0

    def ask(
        self,
        sql: str = "SELECT 1",
        *,
        revision: int = 1,
        edition: int = 0,
        parameters: Sequence[object] = (),
    ) -> bool:
        """Ask, and tell whether the plan was known."""
        self.number += 1
        statement = Statement(
            client=ANYBODY, sql=sql, parameters=parameters, query_id=f"q{self.number}"
        )
        was_made = False

        def make() -> Distribution:
            nonlocal was_made
            was_made = True
            return plan_of(statement, revision, **self.made)  # type: ignore[arg-type]

        catalog = MemoryCatalog(revision=revision, edition=edition)
        found = self.cache.plan(statement, catalog, 500, make)
        assert found.query_id == statement.query_id
        assert [leaf.query_id for leaf in found.leaves] == [statement.query_id]
        assert found.revision == revision
        return not was_made


def test_the_same_question_is_planned_once_for_each_revision() -> None:
    asker = Asker(PlanCache())
    assert [asker.ask() for _ in range(3)] == [False, True, True]
    assert [asker.ask(revision=2) for _ in range(2)] == [False, True]
    assert [asker.ask("SELECT  1") for _ in range(2)] == [False, True]
    assert [asker.ask(edition=3) for _ in range(2)] == [False, True]


@pytest.mark.parametrize("other", [[2], [1.0], [True], ["1"], [], [1, 1]])
def test_other_parameters_are_another_question(other: Sequence[object]) -> None:
    asker = Asker(PlanCache())
    assert not asker.ask(parameters=[1])
    assert not asker.ask(parameters=other)
    assert asker.ask(parameters=[1])
    assert asker.ask(parameters=other)


def test_what_depends_on_the_time_or_cannot_be_told_apart_is_planned_each_time() -> None:
    asker = Asker(PlanCache(), is_volatile=True)
    assert [asker.ask() for _ in range(2)] == [False, False]
    asker = Asker(PlanCache())
    assert [asker.ask(parameters=[[1]]) for _ in range(2)] == [False, False]


def test_the_last_used_are_kept_within_both_bounds() -> None:
    asker = Asker(PlanCache(plans_max=2))
    for sql in ("a", "b", "a", "c"):
        asker.ask(sql)
    assert [asker.ask("a"), asker.ask("b")] == [True, False]
    asker = Asker(PlanCache(bytes_max=5 * SLICE_BYTES), slices=2)
    for sql in ("a", "b", "c"):
        asker.ask(sql)
    assert [asker.ask("c"), asker.ask("b"), asker.ask("a")] == [True, True, False]
    asker = Asker(PlanCache(bytes_max=SLICE_BYTES), slices=2)
    assert [asker.ask() for _ in range(2)] == [False, False]


def test_what_goes_along_counts_as_a_part_of_its_plan() -> None:
    statement = Statement(client=ANYBODY, sql="SELECT 1", query_id="q")
    long = replace(plan_of(statement, 1), final_sql=" " * SLICE_BYTES)
    plan = replace(plan_of(statement, 1), along=[Along(table="t", plan=long)])
    for bytes_max, kept in ((4 * SLICE_BYTES, False), (5 * SLICE_BYTES, True)):
        cache, found = PlanCache(bytes_max=bytes_max), replace(plan, reason="another")
        cache.plan(statement, MemoryCatalog(), 500, lambda: plan)
        again = cache.plan(statement, MemoryCatalog(), 500, lambda other=found: other)
        assert (again.reason == plan.reason) is kept


def test_a_plan_that_is_known_takes_the_limit_of_who_asks_now() -> None:
    cache, statement = PlanCache(), Statement(client=ANYBODY, sql="SELECT 1", query_id="q")
    cache.plan(statement, MemoryCatalog(), 500, lambda: plan_of(statement, 1))
    again = replace(statement, query_id="r")
    found = cache.plan(again, MemoryCatalog(), 900, lambda: plan_of(again, 1))
    assert [leaf.timeout_ms for leaf in found.leaves] == [900]
