"""Statements over one, two and five leaves give what one engine gives over the same revision, types included."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
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
from carnac.query import DuckDbQueryEngine
from carnac.query.distributed import distributing
from carnac.query.distributed.groups import part, split_groups
from carnac.query.distributed.sorting import Select
from carnac.query.syntax import NOWHERE, Node, walk
from carnac.store.querying import RevisionCatalog
from tests.support.spreading import spread_query
from tests.support.statements import Asked, Statements

START_MS = 1_356_998_400_000
"""2013-01-01."""
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LONG, DOUBLE = {"name": "n", "type": "long"}, {"name": "x", "type": "double"}
BLOCKS, BLOCK = 15, 20


@dataclass(frozen=True, slots=True)
class World:
    """A store, at one revision."""

    catalog: Catalog
    engines: Sequence[DuckDbQueryEngine]
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


def spec(
    segments: str, dimensions: list[object], *, times: str = "none", name: str = "events"
) -> dict[str, object]:
    granularity = {"segmentGranularity": segments, "queryGranularity": times}
    return {
        "dataSource": name,
        "timestampSpec": {"column": "t", "format": "millis"},
        "dimensions": dimensions,
        "granularitySpec": granularity,
    }


def rows(rng: random.Random, start: float, days: float, count: int, columns: str) -> list[Any]:
    """Return rows between two days, with nulls, big longs, empty texts and lists, and fractions that add up exactly."""
    makers = {
        "s": lambda: rng.choice([None, None, "", "a", "ab", "b", "ü"]),
        "k": lambda: rng.choice([None, "k1", "k2", "k2", "k3", "k4"]),
        "n": lambda: rng.choice([None, rng.randrange(-9, 9), 7, 2**62 + rng.randrange(9)]),
        "x": lambda: rng.choice([None, rng.randrange(-40, 40) / 4, 0.0, -0.5]),
        "w": lambda: rng.choice([None, rng.randrange(5)]),
        "f": lambda: rng.choice([None, rng.randrange(-9, 9) / 2]),
        "b": lambda: rng.choice([None, True, False]),
        "tags": lambda: rng.choice([None, ["p"], ["p", "q"], ["q", None]]),
    }
    at = [START_MS + int((start + days * rng.random()) * DAY_MS) for _ in range(count)]
    return [{"t": t} | {name: makers[name]() for name in columns.split()} for t in at]


def fill(store: carnac.Store) -> None:
    """Append and delete: three granularities of chunks, four schemas, clips in the middle of segments, a rollup."""
    rng = random.Random(18)
    flag, tags = {"name": "b", "type": "boolean"}, {"name": "tags", "type": "array<string>"}
    part, wide = {"name": "f", "type": "float"}, {"name": "w", "type": "long"}
    days = spec("day", ["s", "k", LONG, DOUBLE, flag, wide])
    store.append("events", rows(rng, 0, 3, 60, "s k n x b w"), spec=days)
    hours = spec("hour", ["s", "k", LONG, tags])
    store.append("events", rows(rng, 5, 0.25, 40, "s k n tags"), spec=hours)
    months = spec("month", ["s", "k", DOUBLE, part, tags])
    store.append("events", rows(rng, 30, 28, 50, "s k x f tags"), spec=months)
    minutes = spec("day", ["k", LONG, part], times="hour")
    store.append("events", rows(rng, 0, 6, 30, "k n f"), spec=minutes)
    store.append("events", rows(rng, 40, 1, 9, "s"), spec=spec("day", ["s"]))
    for interval in (
        "2013-01-02T03:04:05.678Z/2013-01-02T13:04:05.679Z",
        "2013-01-01T09:00:00Z/2013-01-01T10:00:00Z",
        "2013-01-06T01:10:00Z/2013-01-06T03:00:00Z",
        "2013-02-08T00:00:00Z/2013-02-13T00:00:00.001Z",
    ):
        store.delete("events", interval=interval)
    metrics = [
        {"name": "hits", "type": "count"},
        {"name": "total", "type": "longSum", "fieldName": "w"},
        {"name": "users", "type": "HLLSketchBuild", "fieldName": "s"},
    ]
    rolled = spec("day", ["k"], times="hour", name="hits") | {"metricsSpec": metrics}
    for day in (0, 2):
        store.append("hits", rows(rng, day, 1, 40, "k w s"), spec=rolled)
    store.set_lookup("names", {"k1": "one", "k2": "two", "k3": "", "k9": "nobody"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("world") / "store"
    with carnac.open(folder, create=True) as store:
        fill(store)
        visible = store.segments("events")
        assert sum(one.entry.clip is not None for one in visible) >= 5
        assert len({one.segment.columns for one in visible}) >= 4
        storage = open_deep_storage(str(folder / DEEP_STORAGE_FOLDER))
        engines = [DuckDbQueryEngine(storage, threads=1) for _ in range(5)]
        yield World(RevisionCatalog(store._metadata, store.head().revision), engines, storage)
        for engine in engines:
            engine.close()


def is_same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9)
    return type(one) is type(other) and one == other


def rank(row: Sequence[object]) -> str:
    return repr([f"{value:.7g}" if isinstance(value, float) else value for value in row])


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def check_same(found: pa.Table, wanted: pa.Table, asked: Asked) -> None:
    assert found.schema == wanted.schema
    left, right = rows_of(found), rows_of(wanted)
    if not asked.is_ordered:
        left, right = sorted(left, key=rank), sorted(right, key=rank)
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert all(map(is_same, one, other)), (one, other)


def check(
    world: World, asked: Asked, rng: random.Random, *, leaves: Sequence[int] = (1, 2, 5), **how: Any
) -> Way | None:
    """Run a statement in all ways; return that of several leaves, None if it fails everywhere."""
    embedded = world.engines[0]
    try:
        wanted: Any = embedded.run_query(
            asked.all_rows[0] if asked.all_rows else asked.sql,
            world.catalog,
            parameters=asked.parameters,
        ).table
    except CarnacError as error:
        with pytest.raises(type(error)):
            spread_query(
                world.engines, asked.sql, world.catalog, parameters=asked.parameters, rng=rng
            )
        return None
    way = None
    for count in leaves:
        engines = world.engines[:count]
        found = spread_query(
            engines, asked.sql, world.catalog, parameters=asked.parameters, rng=rng, **how
        )
        assert found.is_complete
        way = found.plan.way
        if asked.all_rows is None:
            check_same(found.table, wanted, asked)
            continue
        assert found.table.schema == wanted.schema
        assert found.table.num_rows == min(asked.all_rows[1], wanted.num_rows)
        there = [rank(row) for row in rows_of(wanted)]
        for row in rows_of(found.table):
            there.remove(rank(row))
    return way


def asked(number: int) -> Asked:
    return Statements(random.Random(number)).make()


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_many_leaves_give_what_one_engine_gives(world: World, block: int) -> None:
    ways = []
    for number in range(block * BLOCK, (block + 1) * BLOCK):
        one = asked(number)
        try:
            ways.append(check(world, one, random.Random(number)))
        except BaseException as error:
            error.add_note(f"statement {number}: {one.sql}  {list(one.parameters)}")
            raise
    assert ways.count(Way.ONE_ROUND) >= BLOCK / 2
    assert ways.count(None) <= BLOCK / 5, "most statements run"


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug",
    [
        lets_means_be_averaged,
        forgets_the_null_group,
        forgets_filters,
        forgets_having,
        forgets_where_nulls_go,
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
    for number in range(100):
        try:
            check(world, asked(number), random.Random(number))
        except AssertionError:
            return
    pytest.fail("the statements do not show it")
