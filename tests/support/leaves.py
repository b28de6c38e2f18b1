"""One statement over several leaves, each an engine of its own, and the answers merged: a broker without its wires."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from carnac.ports import Catalog, Distribution, FileSlice, LeafRequest
from carnac.query import DuckDbQueryEngine


@dataclass(frozen=True, slots=True)
class Spread:
    """What a statement gave over several leaves."""

    plan: Distribution
    table: pa.Table
    segment_ids: frozenset[str]
    read_ids: frozenset[str]


def spread_query(
    engines: Sequence[DuckDbQueryEngine],
    sql: str,
    catalog: Catalog,
    *,
    parameters: Sequence[object] = (),
    rng: random.Random | None = None,
) -> Spread:
    """Run a statement: the first engine is the broker's too, slices are dealt out at random."""
    rng = rng or random.Random(1)
    plan = engines[0].plan_distributed(sql, catalog, parameters=parameters)
    answers: dict[str, list[pa.Table]] = {}
    segment_ids: set[str] = set()
    read_ids: set[str] = set()
    for leaf in plan.leaves:
        for engine, part in zip(engines, dealt(leaf.slices, len(engines), rng), strict=True):
            if part:
                rows, accounted, read = ask(engine, leaf.over(part))
                answers.setdefault(leaf.name, []).append(rows)
                segment_ids |= accounted
                read_ids |= read
    table: Any = engines[0].run_final(plan, answers).table
    return Spread(plan, table, frozenset(segment_ids), frozenset(read_ids))


def ask(
    engine: DuckDbQueryEngine, request: LeafRequest
) -> tuple[pa.Table, frozenset[str], frozenset[str]]:
    """Return all rows of a leaf, and what they rest on."""
    with engine.run_leaf(request) as answer:
        rows = pa.Table.from_batches(list(answer.batches), answer.schema)
        return rows, answer.segment_ids, answer.read_ids


def dealt(slices: Sequence[FileSlice], hands: int, rng: random.Random) -> list[list[FileSlice]]:
    """Return the slices dealt out, each to one hand; some hands may stay empty."""
    found: list[list[FileSlice]] = [[] for _ in range(hands)]
    for piece in slices:
        rng.choice(found).append(piece)
    return found
