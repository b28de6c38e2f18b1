"""Every function of Druid that is compiled has a case in the oracle that Spark is held to."""

from __future__ import annotations

import pytest

from carnac.specs.druid.expressions import compile_expression
from carnac.specs.druid.expressions.compiler import FUNCTIONS
from carnac.specs.druid.expressions.syntax import ArrayLiteral, Binary, Call, Node, Unary, parse
from tests.integration.spark.druid_oracle import CASES, TYPES


def functions_in(node: Node) -> set[str]:
    """Return the names of the functions that an expression calls."""
    if isinstance(node, Call):
        return {node.name}.union(*(functions_in(argument) for argument in node.arguments))
    if isinstance(node, Binary):
        return functions_in(node.left) | functions_in(node.right)
    return functions_in(node.operand) if isinstance(node, Unary) else set()


def test_every_function_has_a_case() -> None:
    called = set().union(*(functions_in(parse(expression)) for expression, _ in CASES))
    assert set(FUNCTIONS) - called == set()


def test_literal_arrays_call_nothing() -> None:
    assert functions_in(ArrayLiteral(())) == set()


@pytest.mark.parametrize("expression", [expression for expression, _ in CASES])
def test_every_case_compiles_with_and_without_types(expression: str) -> None:
    assert compile_expression(expression, TYPES).sql
    assert compile_expression(expression).sql
