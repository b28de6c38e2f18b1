"""Short lists after IN and NOT IN, written as the comparisons that DuckDB answers with less work.

DuckDB compares each row with each text of a list. Of texts it keeps dictionaries, in hot segments and in files, and an
expression over a single column is computed once for each word of one; `IN` is computed so only where it is no filter
of the scan, which `= true` around it sees to. Two texts then take a third to a half of the time where many rows match,
and up to a quarter more in hot segments where hardly any does (measured with DuckDB 2.0, columns of 5 to 12,000
words). Of numbers, row groups are skipped by the least and the greatest, which stand beside the comparisons; numbers
without gaps become a range in DuckDB itself, and stay as they are.

Only conditions of WHERE that are joined by AND are rewritten: a row passes them or not, and null does not pass. Where
other columns are compared as well, the scan looks at fewer rows for the list, nothing is gained, and it stays.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.query.relations import Scope
from carnac.query.syntax import NOWHERE, Node, conjunction, constant, walk

TEXTS_MAX, OTHER_TEXTS_MAX = 3, 5
"""Texts after IN, and after NOT IN: more take longer as comparisons."""
NUMBERS_MIN, NUMBERS_MAX = 4, 12
"""Numbers after IN: fewer, or more, take longer as comparisons."""
_WHOLE = re.compile(r"\d{1,18}")

TypesOf = Callable[[str], Mapping[str, ColumnType]]
"""The types of a datasource's columns."""


def rewrite_memberships(selects: Sequence[tuple[Node, Scope]], types_of: TypesOf) -> None:
    """Rewrite, in place, conditions on columns of datasources that compare with a short list of constants."""
    for select, scope in selects:
        found: list[tuple[Node, Node]] = []
        for condition in _joined_by_and(select["where_clause"]):
            new = _comparisons(condition, scope, types_of)
            if new is not None:
                found.append((condition, new))
            elif not _is_of_time(condition, scope):
                found.clear()
                break
        for condition, new in found:
            condition.clear()
            condition.update(new)


def _comparisons(condition: Node, scope: Scope, types_of: TypesOf) -> Node | None:
    """Return what a condition becomes; None: it stays."""
    is_negated = condition["type"] == "OPERATOR_NOT"
    test = condition["children"][0] if is_negated else condition
    if test["type"] != "COMPARE_IN":
        return None
    kind = _type_of(test["children"][0], scope, types_of)
    return _rewritten(test["children"], kind, is_negated=is_negated)


def _is_of_time(condition: Node, scope: Scope) -> bool:
    """Whether `__time` is the only column that a condition names."""
    columns = [node for node in walk(condition) if node.get("class") == "COLUMN_REF"]
    return all(
        any(
            relation.datasource and scope.resolve(one["column_names"], relation) == TIME_COLUMN
            for relation in scope.relations
        )
        for one in columns
    )


def _joined_by_and(node: Node | None) -> Iterator[Node]:
    """Yield the conditions that must all hold."""
    if node is None:
        return
    if node["type"] != "CONJUNCTION_AND":
        yield node
        return
    for child in node["children"]:
        yield from _joined_by_and(child)


def _type_of(operand: Node, scope: Scope, types_of: TypesOf) -> ColumnType | None:
    """Return the type of the datasource's column that an operand is; None: it is something else."""
    if operand["class"] != "COLUMN_REF":
        return None
    for relation in scope.relations:
        column = relation.datasource and scope.resolve(operand["column_names"], relation)
        if column:
            return types_of(relation.datasource).get(column)
    return None


def _rewritten(
    children: Sequence[Node], kind: ColumnType | None, *, is_negated: bool
) -> Node | None:
    """Return what a test becomes; None: it stays."""
    operand, options = children[0], children[1:]
    if kind is ColumnType.STRING and _are_literals(options, "STRING"):
        most = OTHER_TEXTS_MAX if is_negated else TEXTS_MAX
        if not 2 <= len(options) <= most:
            return None
        return _any_or_none(operand, options, is_negated=is_negated)
    if kind is not ColumnType.LONG or is_negated or not _are_literals(options, "INTEGER"):
        return None
    numbers = sorted({int(option["literal"]["text"]) for option in options})
    has_gaps = numbers[-1] - numbers[0] >= len(numbers)
    if not (has_gaps and NUMBERS_MIN <= len(numbers) <= NUMBERS_MAX):
        return None
    return conjunction(
        [
            _any_or_none(operand, options, is_negated=False),
            _compared(operand, "GREATERTHANOREQUALTO", constant("INTEGER", str(numbers[0]))),
            _compared(operand, "LESSTHANOREQUALTO", constant("INTEGER", str(numbers[-1]))),
        ],
    )


def _are_literals(options: Sequence[Node], kind: str) -> bool:
    """Whether all are literals of a kind; of whole numbers, such that fit into a long."""
    return all(
        option["type"] == "VALUE_CONSTANT"
        and option["literal"].get("kind") == kind
        and (kind != "INTEGER" or _WHOLE.fullmatch(str(option["literal"]["text"])) is not None)
        for option in options
    )


def _any_or_none(operand: Node, options: Sequence[Node], *, is_negated: bool) -> Node:
    """Return that the operand is one of the options, or none of them, as one expression."""
    sign, word = ("NOTEQUAL", "AND") if is_negated else ("EQUAL", "OR")
    tests = conjunction([_compared(operand, sign, option) for option in options], word)
    return _compared(tests, "EQUAL", constant("BOOLEAN", "true"))


def _compared(left: Node | None, sign: str, right: Node) -> Node:
    sides = {"left": copy.deepcopy(left), "right": copy.deepcopy(right)}
    return {"class": "COMPARISON", "type": f"COMPARE_{sign}", **NOWHERE, **sides}
