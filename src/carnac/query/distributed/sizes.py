"""How large a statement's answer is, as far as its tree tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.query.distributed.aggregates import SPREADING, function_name, is_aggregate
from carnac.query.scans import rows_in
from carnac.query.syntax import walk_here

if TYPE_CHECKING:
    from carnac.ports.queries import LeafSlice
    from carnac.query.relations import Scope
    from carnac.query.syntax import Node

FEW_ROWS = 10_000
"""Maximum LIMIT of a statement whose answer is small."""
SMALL_ROWS = 100_000
"""Maximum number of rows in the segments of a statement that gives no more rows than it reads."""


@dataclass(frozen=True, slots=True)
class AnswerSize:
    """The size of a statement's answer, as far as the statement tells it.

    Attributes:
        is_few: Its LIMIT is low, or it gives one row.
        is_within: It gives no more rows than it reads.
    """

    is_few: bool
    is_within: bool

    def is_small(self, slices: Sequence[LeafSlice]) -> bool:
        """Whether the answer over slices has few rows."""
        if self.is_few:
            return True
        return self.is_within and rows_in(slices) <= SMALL_ROWS


def size_of(statement: Node, selects: Sequence[tuple[Node, Scope]]) -> AnswerSize:
    """Return how many rows a statement gives, by its tree and the SELECTs in it."""
    node = statement["node"]
    if node["type"] != "SELECT_NODE":
        return AnswerSize(is_few=_has_low_limit(node), is_within=False)
    here = list(walk_here(node["select_list"]))
    spreads = any(function_name(one) in SPREADING for one in here)
    is_grouped = node["group_expressions"] or node["group_sets"]
    is_one_row = (
        not (is_grouped or spreads)
        and node["aggregate_handling"] == "STANDARD_HANDLING"
        and any(map(is_aggregate, here))
    )
    is_within = (
        len(selects) == 1
        and node["from_table"]["type"] == "BASE_TABLE"
        and len(node["group_sets"]) <= 1
        and not spreads
    )
    return AnswerSize(is_few=is_one_row or _has_low_limit(node), is_within=is_within)


def _has_low_limit(node: Node) -> bool:
    for one in node["modifiers"]:
        if one["type"] == "LIMIT_MODIFIER" and one["limit_type"] == "ROW_COUNT":
            literal = (one["limit"] or {}).get("literal") or {}
            return literal.get("kind") == "INTEGER" and int(literal["text"]) <= FEW_ROWS
    return False
