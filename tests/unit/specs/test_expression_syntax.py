"""Druid's expression language: precedence, quoting, literals, and where a mistake is."""

from __future__ import annotations

import pytest

from carnac.errors import Invalid
from carnac.specs.druid.terms.syntax import (
    MAX_DEPTH,
    ArrayLiteral,
    Binary,
    Call,
    Identifier,
    Literal,
    Node,
    Unary,
    parse,
)


def shown(node: Node) -> str:
    """Return a tree with every operation in parentheses."""
    if isinstance(node, Literal):
        return repr(node.value)
    if isinstance(node, Identifier):
        return node.name
    if isinstance(node, Unary):
        return f"({node.operator}{shown(node.operand)})"
    if isinstance(node, Binary):
        return f"({shown(node.left)} {node.operator} {shown(node.right)})"
    if isinstance(node, ArrayLiteral):
        return f"{node.element}[{', '.join(shown(item) for item in node.items)}]"
    return f"{node.name}({', '.join(shown(argument) for argument in node.arguments)})"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b * c % d", "(((a / b) * c) % d)"),
        ("a ^ b ^ c", "(a ^ (b ^ c))"),
        ("a * b ^ c", "(a * (b ^ c))"),
        ("-a ^ b", "((-a) ^ b)"),
        ("!a && b", "((!a) && b)"),
        ("!(a && b)", "(!(a && b))"),
        ("a || b && c", "((a || b) && c)"),
        ("a + 1 > b == c", "(((a + 1) > b) == c)"),
        ("a < b && c >= d", "((a < b) && (c >= d))"),
        ("- -3", "3"),
        ("-x", "(-x)"),
        ("f(a, g(b), 'c')", "f(a, g(b), 'c')"),
        ("F()", "f()"),
        ('"a b" + "c\\"d"', '(a b + c"d)'),
        ("'it\\'s\\n\\u00e9'", repr("it's\né")),
        ("1.5e3 + .5 + 2.", "((1500.0 + 0.5) + 2.0)"),
        ("9223372036854775807", "9223372036854775807"),
        ("NULL", "None"),
        ("[1, 2 3, null]", "None[1, 2, 3, None]"),
        ("<LONG>[]", "long[]"),
        ("['a', -1.5]", "None['a', -1.5]"),
        ("a<b", "(a < b)"),
        ("$x_1 + __time", "($x_1 + __time)"),
    ],
)
def test_trees(text: str, tree: str) -> None:
    assert shown(parse(text)) == tree


def test_names_of_functions_are_in_lower_case() -> None:
    assert parse("UPPER(x)") == Call("upper", (Identifier("x"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an expression must not be empty"),
        ("a +", "expression 'a +', character 4: the expression ends too early"),
        ("a b", "expression 'a b', character 3: unexpected 'b'"),
        ("a = b", "expression 'a = b', character 3: unexpected '='"),
        ("(a", "expression '(a', character 3: expected ')', found the end"),
        ("f(a b)", "expression 'f(a b)', character 5: expected ',', found 'b'"),
        ("'abc", "expression ''abc', character 1: the quote is not closed"),
        ('a + "b', "expression 'a + \"b', character 5: the quote is not closed"),
        ("a ? b", "expression 'a ? b', character 3: unexpected '?'"),
        ("* a", "expression '* a', character 1: unexpected '*'"),
        (
            "[a]",
            "expression '[a]', character 3: an array literal holds numbers, texts and null; use array(...)",
        ),
        (
            "99999999999999999999",
            "expression '99999999999999999999', character 1: 99999999999999999999 is too large for a long",
        ),
        (
            "map(x -> x + 1, a)",
            "expression 'map(x -> x + 1, a)', character 7: lambdas are not supported; write the "
            "transform in Spark SQL",
        ),
        (
            "fold((x, acc) -> acc + x, a, 0)",
            "expression 'fold((x, acc) -> acc + x, a, 0)', character 6: lambdas are not supported; "
            "write the transform in Spark SQL",
        ),
    ],
)
def test_mistakes_have_a_place(text: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(text)
    assert caught.value.message == message


def test_nesting_has_a_limit() -> None:
    parse("(" * (MAX_DEPTH - 1) + "1" + ")" * (MAX_DEPTH - 1))
    for opening, closing in (("(", ")"), ("f(", ")"), ("!", ""), ("2 ^ ", "")):
        with pytest.raises(Invalid, match=f"nested more than {MAX_DEPTH} deep"):
            parse(opening * (MAX_DEPTH + 1) + "1" + closing * (MAX_DEPTH + 1))
