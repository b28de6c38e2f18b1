"""Druid's expression language: from text to a tree.

Precedence, tightest first: `! -` (unary), `^` (to the right), `* / %`, `+ -`, comparisons, and then
`&&` and `||` alike, all others to the left. Identifiers may stand in double quotes, texts stand in
single quotes, both with backslash escapes as in Java.

Source: Druid's documentation of expressions, and its grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from carnac.core.texts import short
from carnac.errors import Invalid

MAX_DEPTH = 50
"""Deepest nesting that is read; more is a mistake or an attack."""

LENGTH_MAX = 100_000
"""Characters of an expression."""

DIGITS_SHOWN = 40
SHOWN_MAX = 500
"""Characters of an expression that a message shows whole."""

MAX_CHAIN = 200
"""Most operations of one precedence in a row, such as the signs in `a + b + c`."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text or null."""

    value: int | float | str | None


@dataclass(frozen=True, slots=True)
class Identifier:
    """A column."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary:
    """`!x` or `-x`."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """`x + y` and the like."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments; the name in lower case."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ArrayLiteral:
    """`[1, 2]` or `<LONG>[]`; `element` is the type in lower case if it was written."""

    items: tuple[Literal, ...]
    element: str | None = None


Node = Literal | Identifier | Unary | Binary | Call | ArrayLiteral

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<double>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
      | (?P<long>\d+)
      | (?P<text>'(?:[^'\\]|\\.)*')
      | (?P<quoted>"(?:[^"\\]|\\.)*")
      | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<type><\s*[A-Za-z]+\s*>(?=\s*\[))
      | (?P<operator>->|&&|\|\||==|!=|<=|>=|[-+*/%^<>!(),\[\]])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LEVELS: tuple[frozenset[str], ...] = (
    frozenset(("&&", "||")),
    frozenset(("<", "<=", ">", ">=", "==", "!=")),
    frozenset("+-"),
    frozenset("*/%"),
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text; `at` is its offset, counted from 0."""

    kind: str
    text: str
    at: int


def parse(text: str) -> Node:
    """Return the tree of an expression.

    Raises:
        Invalid: It is not an expression; the message has the place.
    """
    return _Parser(text).parse()


def tokenise(text: str) -> list[Token]:
    """Return the pieces of an expression, without white space.

    Raises:
        Invalid: A character starts no piece, or a quote is left open.
    """
    if len(text) > LENGTH_MAX:
        raise Invalid(
            f"an expression has {len(text):,} characters; at most {LENGTH_MAX:,} are read"
        )
    tokens: list[Token] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            if text[start] in "'\"":
                raise _wrong(text, start, "the quote is not closed")
            raise _wrong(text, start, f"unexpected '{text[start]}'")
        tokens.append(
            Token(match.lastgroup, match.group(match.lastgroup), match.start(match.lastgroup))
        )
        at = match.end()
    return tokens


def _wrong(text: str, at: int, message: str) -> Invalid:
    shown = f"'{text}'" if len(text) <= SHOWN_MAX else short(text)
    return Invalid(f"expression {shown}, character {at + 1}: {message}", expression=text)


def _unescape(body: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(one, body)


class _Parser:
    """Recursive descent, one token of lookahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenise(text)
        self.index = 0
        self.depth = 0

    def parse(self) -> Node:
        if not self.tokens:
            raise Invalid("an expression must not be empty", expression=self.text)
        node = self._binary(0)
        if self.index < len(self.tokens):
            token = self.tokens[self.index]
            if token.text == "->":
                raise self._error("lambdas are not supported; write the transform in Spark SQL")
            raise self._error(f"unexpected '{token.text}'")
        return node

    def _error(self, message: str) -> Invalid:
        if self.index < len(self.tokens):
            return _wrong(self.text, self.tokens[self.index].at, message)
        return _wrong(self.text, len(self.text), message)

    def _peek(self) -> str:
        """Return the operator that comes next; empty if it is something else."""
        if self.index < len(self.tokens) and self.tokens[self.index].kind == "operator":
            return self.tokens[self.index].text
        return ""

    def _expect(self, operator: str) -> None:
        if self._peek() != operator:
            found = (
                "the end" if self.index >= len(self.tokens) else f"'{self.tokens[self.index].text}'"
            )
            raise self._error(f"expected '{operator}', found {found}")
        self.index += 1

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._power()
        left = self._binary(level + 1)
        length = 0
        while (operator := self._peek()) in _LEVELS[level]:
            self.index += 1
            length += 1
            if length > MAX_CHAIN:
                raise self._error(f"more than {MAX_CHAIN} operations in a row")
            left = Binary(operator, left, self._binary(level + 1))
        return left

    def _power(self) -> Node:
        base = self._unary()
        if self._peek() != "^":
            return base
        self.index += 1
        self._descend()
        power = Binary("^", base, self._power())
        self.depth -= 1
        return power

    def _unary(self) -> Node:
        operator = self._peek()
        if operator not in ("-", "!"):
            return self._primary()
        self.index += 1
        self._descend()
        operand = self._unary()
        self.depth -= 1
        if (
            operator == "-"
            and isinstance(operand, Literal)
            and isinstance(operand.value, int | float)
        ):
            return Literal(-operand.value)
        return Unary(operator, operand)

    def _descend(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error(f"nested more than {MAX_DEPTH} deep")

    def _primary(self) -> Node:
        if self.index >= len(self.tokens):
            raise self._error("the expression ends too early")
        token = self.tokens[self.index]
        if token.text == "(" and token.kind == "operator":
            self._descend()
            self.index += 1
            node = self._binary(0)
            self._expect(")")
            self.depth -= 1
            if self._peek() == "->":
                raise self._error("lambdas are not supported; write the transform in Spark SQL")
            return node
        if token.kind == "type" or (token.kind == "operator" and token.text == "["):
            return self._array()
        if token.kind == "operator":
            raise self._error(f"unexpected '{token.text}'")
        self.index += 1
        if token.kind == "word":
            return self._word(token)
        if token.kind == "quoted":
            return Identifier(_unescape(token.text[1:-1]))
        return self._literal(token)

    def _literal(self, token: Token) -> Literal:
        if token.kind == "text":
            return Literal(_unescape(token.text[1:-1]))
        if token.kind == "double":
            return Literal(float(token.text))
        digits = token.text.lstrip("0") or "0"
        value = int(digits) if len(digits) < 20 else 2**64
        if value > 2**63:
            number = (
                token.text if len(digits) <= DIGITS_SHOWN else f"a number of {len(digits)} digits"
            )
            raise _wrong(self.text, token.at, f"{number} is too large for a long")
        return Literal(value)

    def _word(self, token: Token) -> Node:
        if self._peek() == "->":
            raise self._error("lambdas are not supported; write the transform in Spark SQL")
        if self._peek() != "(":
            return Literal(None) if token.text.lower() == "null" else Identifier(token.text)
        self._descend()
        self.index += 1
        arguments: list[Node] = []
        while self._peek() != ")":
            arguments.append(self._argument())
            if self._peek() != ")":
                self._expect(",")
        self.index += 1
        self.depth -= 1
        return Call(token.text.lower(), tuple(arguments))

    def _argument(self) -> Node:
        """Read an argument; `()` and `(x, y)` before an arrow can only be a lambda's."""
        if self._peek() != "(":
            return self._binary(0)
        index = self.index
        while index < len(self.tokens) and self.tokens[index].text != ")":
            index += 1
        if [token.text for token in self.tokens[index + 1 : index + 2]] == ["->"]:
            raise self._error("lambdas are not supported; write the transform in Spark SQL")
        return self._binary(0)

    def _array(self) -> Node:
        token = self.tokens[self.index]
        element = None
        if token.kind == "type":
            element = token.text.strip("<> \t\n").lower()
            self.index += 1
        self._expect("[")
        self._descend()
        items: list[Literal] = []
        while self._peek() != "]":
            item = self._unary()
            if not isinstance(item, Literal):
                raise self._error("an array literal holds numbers, texts and null; use array(...)")
            items.append(item)
            if self._peek() == ",":
                self.index += 1
        self.index += 1
        self.depth -= 1
        return ArrayLiteral(tuple(items), element)
