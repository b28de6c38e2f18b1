"""Rows that servers send if they cannot answer alone: of each scan the named columns and the rows that matter.

A condition goes along where it speaks of one table alone, in words that mean the same on every row, and where leaving
out rows that do not satisfy it cannot change the answer (see `relations`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

from carnac.core.quoting import quote
from carnac.query.distributed.aggregates import (
    CLOCK_READERS,
    CLOCKS,
    SPREADING,
    VOLATILE,
    function_name,
)
from carnac.query.distributed.naming import column
from carnac.query.functions import AGGREGATES
from carnac.query.relations import Relation, Scope
from carnac.query.syntax import (
    ROW_EXPRESSIONS,
    Node,
    base_table,
    conjunction,
    constant,
    select_of,
    walk,
)

_PUSHED = ROW_EXPRESSIONS | {"COLUMN_REF"}
_NOT_PUSHED = AGGREGATES | CLOCKS | CLOCK_READERS | SPREADING | VOLATILE


def condition_of(relations: Sequence[Relation]) -> Node | None:
    """Return what rows of a scan must meet to matter; None: all matter.

    Args:
        relations: All that read the scan.
    """
    found = [conjunction(_sent(relation)) for relation in relations]
    whole = [one for one in found if one is not None]
    return conjunction(whole, "OR") if len(whole) == len(found) else None


def bare(expression: Node, relation: Relation, scope: Scope) -> Node | None:
    """Return an expression with the columns of the relation by their names alone; None: it cannot be sent."""
    return _bare(copy.deepcopy(expression), relation, scope)


def _sent(relation: Relation) -> list[Node]:
    if relation.is_blocked:
        return []
    told = [bare(condition, relation, scope) for condition, scope in relation.conditions]
    return [one for one in told if one is not None]


def _bare(condition: Node, relation: Relation, scope: Scope) -> Node | None:
    """Return the condition with the columns of the relation by their names alone; None: it cannot be sent."""
    for node in walk(condition):
        kind = node.get("class")
        if kind is None:
            continue
        if kind not in _PUSHED or node["type"] == "GROUPING_FUNCTION":
            return None
        if kind == "FUNCTION" and function_name(node) in _NOT_PUSHED:
            return None
        if kind == "COLUMN_REF":
            name = scope.resolve(node["column_names"], relation)
            if name is None:
                return None
            node["column_names"] = [name]
    return condition | {"alias": ""}


def leaf_of(
    view: str,
    names: Iterable[str],
    condition: Node | None,
    *,
    rows_max: int,
    ranks: Node | None = None,
) -> Node:
    """Return the statement that gives the named columns of the rows that meet a condition, so many at most.

    Args:
        ranks: Condition on what windows give; None: there is none.
    """
    found = select_of([column(name) for name in names])
    limit = {
        "type": "LIMIT_MODIFIER",
        "limit": constant("INTEGER", str(rows_max)),
        "offset": None,
        "limit_type": "ROW_COUNT",
    }
    found["node"] |= {
        "from_table": base_table(view, ""),
        "where_clause": condition,
        "qualify": ranks,
        "modifiers": [limit],
    }
    return found


def stand_select(columns: Mapping[str, str], sent: Sequence[str]) -> str:
    """Return the select list that makes a view like the scan's of the columns that were sent; the others are null.

    Args:
        columns: SQL types of all columns of the scan, by name.
    """
    places = {name: place for place, name in enumerate(sent)}
    parts = []
    for name, kind in columns.items():
        value = f"p_{places[name]}" if name in places else "NULL"
        parts.append(f"CAST({value} AS {kind}) AS {quote(name)}")
    return ", ".join(parts)
