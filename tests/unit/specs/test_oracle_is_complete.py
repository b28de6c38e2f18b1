"""Every function of Druid that loads compute has a case in the oracle."""

from __future__ import annotations

from carnac.specs.druid.rows import QUERY_ONLY, compile_value
from carnac.specs.druid.terms.expressions import FUNCTIONS
from carnac.specs.druid.terms.syntax import ArrayLiteral, Binary, Call, Node, Unary, parse
from tests.integration.spark.druid_oracle import CASES


def functions_in(node: Node) -> set[str]:
    """Return the names of the functions that an expression calls."""
    if isinstance(node, Call):
        return {node.name}.union(*(functions_in(argument) for argument in node.arguments))
    if isinstance(node, Binary):
        return functions_in(node.left) | functions_in(node.right)
    return functions_in(node.operand) if isinstance(node, Unary) else set()


def test_every_function_has_a_case() -> None:
    called = set().union(*(functions_in(parse(expression)) for expression, _ in CASES))
    assert set(FUNCTIONS) - called == QUERY_ONLY & set(FUNCTIONS)


def test_literal_arrays_call_nothing() -> None:
    assert functions_in(ArrayLiteral(())) == set()


def test_every_case_compiles_without_types() -> None:
    for expression, _ in CASES:
        assert compile_value(expression, None).text, expression
