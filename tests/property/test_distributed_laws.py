"""Statements over one, two and five leaves give what one engine gives over the same revision, types included."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.dataset import dataset

import carnac
from carnac.bootstrap.store import DEEP_STORAGE_FOLDER
from carnac.deep_storage import open_deep_storage
from carnac.errors import CarnacError
from carnac.ports import Catalog, DeepStorage
from carnac.ports.distributed import Way
from carnac.ports.queries import LeafFiles, LeafRequest
from carnac.query import QueryEngine
from carnac.query.distributed import distributing
from carnac.query.distributed.groups import part, split_groups
from carnac.query.distributed.sorting import Select
from carnac.query.results import with_longs
from carnac.query.rewriting.sketching import PREFIX
from carnac.query.syntax import NOWHERE, Node, call, cast, constant, walk
from carnac.store.querying import RevisionCatalog
from tests.nightly import IS_FAST, IS_NIGHTLY
from tests.support.merging import asked, check_same, fill, rank, rows_of
from tests.support.spreading import spread_query
from tests.support.statements import Asked

BLOCKS, BLOCK = (50 if IS_NIGHTLY else 3 if IS_FAST else 5), 20
"""The laws of brokers ask other ones of 1, 2 and 5 historicals."""
LEAVES = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class World:
    """A store, at one revision."""

    catalog: Catalog
    engines: Sequence[QueryEngine]
    storage: DeepStorage

    def half_elsewhere(self, request: LeafRequest) -> LeafFiles:
        """Return every other file of a request as one that is read by ranges."""
        places: dict[str, Path] = {}
        remote: dict[str, object] = {}
        for number, piece in enumerate(request.slices):
            place = self.storage.local_path(piece.segment.path)
            assert place is not None
            if number % 2:
                places[piece.segment.segment_id] = place
            else:
                remote[piece.segment.segment_id] = dataset(place)
        return LeafFiles(places=places, remote=remote)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("world") / "store"
    with carnac.open(folder, create=True) as store:
        fill(store)
        visible = store.segments("events")
        assert sum(one.entry.clip is not None for one in visible) >= 5
        assert len({one.segment.columns for one in visible}) >= 4
        storage = open_deep_storage(str(folder / DEEP_STORAGE_FOLDER))
        engines = [QueryEngine(storage, threads=1) for _ in range(5)]
        yield World(RevisionCatalog(store._metadata, store.head().revision), engines, storage)
        for engine in engines:
            engine.close()


def longs(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose sums are longs: a sum that does not fit stays what it is."""
    return with_longs(schema, iter(()))[0]


def check(
    world: World, one: Asked, rng: random.Random, *, leaves: Sequence[int] = LEAVES, **how: Any
) -> Way | None:
    """Run a statement over so many leaves; return its way, None if it fails everywhere."""
    embedded = world.engines[0]
    try:
        wanted: Any = embedded.run_query(
            one.all_rows[0] if one.all_rows else one.sql,
            world.catalog,
            parameters=one.parameters,
        ).table
    except CarnacError as error:
        with pytest.raises(type(error)):
            spread_query(world.engines, one.sql, world.catalog, parameters=one.parameters, rng=rng)
        return None
    with closing(embedded.open_query(one.sql, world.catalog, parameters=one.parameters)) as query:
        assert longs(query.describe()) == longs(wanted.schema)
    way = None
    for count in leaves:
        engines = world.engines[:count]
        found = spread_query(
            engines, one.sql, world.catalog, parameters=one.parameters, rng=rng, **how
        )
        assert found.is_complete
        way = found.plan.way
        assert longs(embedded.describe(found.plan)) == longs(wanted.schema)
        if one.all_rows is None:
            check_same(found.table, wanted, one)
            continue
        assert found.table.schema == wanted.schema
        assert found.table.num_rows == min(one.all_rows[1], wanted.num_rows)
        there = [rank(row) for row in rows_of(wanted)]
        for row in rows_of(found.table):
            there.remove(rank(row))
    return way


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_many_leaves_give_what_one_engine_gives(world: World, block: int) -> None:
    ways = []
    for number in range(block * BLOCK, (block + 1) * BLOCK):
        one = asked(number)
        leaves = LEAVES if IS_NIGHTLY else [LEAVES[number % len(LEAVES)]]
        try:
            ways.append(check(world, one, random.Random(number), leaves=leaves))
        except BaseException as error:
            error.add_note(f"statement {number}: {one.sql}  {list(one.parameters)}")
            raise
    assert ways.count(Way.ONE_ROUND) >= BLOCK * 2 / 3
    assert ways.count(None) <= BLOCK / 5, "most statements run"


@pytest.mark.slow
def test_files_that_are_elsewhere_give_the_same(world: World) -> None:
    ways = [
        check(world, asked(number), random.Random(number), leaves=[2], files=world.half_elsewhere)
        for number in range(8)
    ]
    assert Way.ONE_ROUND in ways
    assert Way.GATHERED in ways


def lets_means_be_averaged(leaf: Node, final: Node) -> None:
    del leaf
    for one in walk(final["node"]):
        if one.get("function_name") == "sum":
            one["function_name"] = "avg"
            one["qualified_name"] = {"path": ["avg"]}


def forgets_the_null_group(leaf: Node, final: Node) -> None:
    del leaf
    if final["node"]["group_expressions"]:
        is_there = {"class": "OPERATOR", "type": "OPERATOR_IS_NOT_NULL", **NOWHERE}
        final["node"]["where_clause"] = is_there | {"children": [part(0)]}


def forgets_filters(leaf: Node, final: Node) -> None:
    del final
    for one in walk(leaf["node"]):
        if one.get("filter") is not None:
            one["filter"] = None


def forgets_having(leaf: Node, final: Node) -> None:
    del leaf
    final["node"]["having"] = None


def forgets_where_nulls_go(leaf: Node, final: Node) -> None:
    del leaf
    for one in walk(final["node"]["modifiers"]):
        if "null_order" in one:
            one["null_order"] = "ORDER_DEFAULT"


def forgets_the_condition(leaf: Node, final: Node) -> None:
    del final
    leaf["node"]["where_clause"] = None


def forgets_the_cross_term(leaf: Node, final: Node) -> None:
    """Let all means be the same, so that parts do not differ by them."""
    del leaf
    for one in walk(final["node"]):
        if one.get("function_name") == f"{PREFIX}moments":
            [parts] = one["arguments"]
            zero = cast(constant("INTEGER", "0"), "DOUBLE")
            still = call("struct_update", [parts["expression"]])
            still["arguments"].append({"name": "x", "expression": zero})
            parts["expression"] = still


def counts_distinct_values_of_each_leaf(leaf: Node, final: Node) -> None:
    del leaf
    for one in walk(final["node"]):
        if one.get("distinct"):
            one["distinct"] = False
        if one.get("function_name") == "list_distinct":
            one["function_name"] = "list_sort"
            one["qualified_name"] = {"path": ["list_sort"]}


LIKE_ANOTHER = pytest.mark.nightly("one like it is planted by day")


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug",
    [
        forgets_the_cross_term,
        pytest.param(counts_distinct_values_of_each_leaf, marks=LIKE_ANOTHER),
        pytest.param(lets_means_be_averaged, marks=LIKE_ANOTHER),
        forgets_the_null_group,
        forgets_filters,
        pytest.param(forgets_having, marks=LIKE_ANOTHER),
        pytest.param(forgets_where_nulls_go, marks=LIKE_ANOTHER),
        forgets_the_condition,
    ],
)
def test_a_planted_bug_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, bug: Callable[[Node, Node], None]
) -> None:
    def with_bug(select: Select, view: str) -> tuple[Node, Node]:
        leaf, final = split_groups(select, view)
        bug(leaf, final)
        return leaf, final

    monkeypatch.setattr(distributing, "split_groups", with_bug)
    for number in range(200):
        try:
            check(world, asked(number), random.Random(number), leaves=[5])
        except AssertionError:
            return
    pytest.fail("the statements do not show it")
