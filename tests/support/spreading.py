"""One statement over several leaves, each an engine of its own, and the answers merged: a broker without its wires."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from carnac.ports import Catalog
from carnac.ports.distributed import Distribution, TooMuch
from carnac.ports.queries import LeafFiles, LeafReport, LeafRequest, LeafSlice
from carnac.query import QueryEngine
from carnac.query.parameters import Parameters


@dataclass(frozen=True, slots=True)
class Spread:
    """The answer to a statement over several leaves."""

    plan: Distribution
    table: pa.Table
    reports: list[LeafReport]
    leaves: list[LeafRequest]

    @property
    def is_complete(self) -> bool:
        """Whether the reports account for exactly what the answer rests on."""
        told = [one for report in self.reports for one in report.slices]
        asked = [(one.segment.segment_id, one.clip) for leaf in self.leaves for one in leaf.slices]
        return Counter(told) == Counter(asked) and all(one.is_whole for one in self.reports)


def spread_query(
    engines: Sequence[QueryEngine],
    sql: str,
    catalog: Catalog,
    *,
    parameters: Parameters = (),
    rng: random.Random | None = None,
    files: Callable[[LeafRequest], LeafFiles] | None = None,
) -> Spread:
    """Run a statement: the first engine is the broker's too, slices are dealt out at random.

    Args:
        files: Says where a leaf's files are; None: the engines find them in deep storage.
    """
    rng = rng or random.Random(1)
    plan = engines[0].plan_distributed(sql, catalog, parameters=parameters)
    reports: list[LeafReport] = []
    leaves: list[LeafRequest] = []

    def run(one: Distribution) -> pa.Table:
        try:
            one = one.given({first.table: run(first.plan) for first in one.along})
        except TooMuch:
            if one.otherwise is None:
                raise
            leaves.clear()
            reports.clear()
            return run(one.otherwise)
        answers: dict[str, list[pa.Table]] = {}
        asked = () if one.told else one.leaves
        leaves.extend(asked)
        for leaf in asked:
            for engine, part in zip(engines, dealt(leaf.slices, len(engines), rng), strict=True):
                if part:
                    rows, report = ask(engine, replace(leaf, slices=part), files)
                    answers.setdefault(leaf.view, []).append(rows)
                    reports.append(report)
        table: Any = engines[0].run_final(one, answers).table
        return table

    return Spread(plan, run(plan), reports, leaves)


def ask(
    engine: QueryEngine,
    request: LeafRequest,
    files: Callable[[LeafRequest], LeafFiles] | None = None,
) -> tuple[pa.Table, LeafReport]:
    """Return all rows of a leaf, and its report."""
    batches, report = engine.run_leaf(request, None if files is None else files(request))
    return pa.Table.from_batches(list(batches)), report


def dealt(slices: Sequence[LeafSlice], hands: int, rng: random.Random) -> list[list[LeafSlice]]:
    """Return the slices dealt out, each to one hand; some hands may stay empty."""
    found: list[list[LeafSlice]] = [[] for _ in range(hands)]
    for piece in slices:
        rng.choice(found).append(piece)
    return found
