"""A part of Spark SQL's expressions as trees: the forms that are written most, and no more.

A text that is no expression in any case (a text that does not end, brackets that do not close, an operator where an
operand should be, a regular expression that no engine reads) is a `Mistake`. A text that may be one of Spark's, but not
in the part that is read here, is `Beyond`: Spark alone can say.

Source: the grammar `SqlBaseParser.g4` of Apache Spark 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from carnac.errors import Invalid
from carnac.specs.druid.patterns import check_pattern

DEPTH_MAX = 50
"""Brackets, functions and signs inside of one another."""
TREE_DEPTH_MAX = 200
"""Maximum depth of a tree, in which each `+` of a sum is a level."""


class Mistake(Invalid):
    """A text is no expression, whoever reads it."""


class Beyond(Invalid):
    """An expression is outside of the part of Spark SQL that is read here."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, as it is named."""

    name: str


@dataclass(frozen=True, slots=True)
class Value:
    """A literal: text, whole number, number with a fraction, boolean or null.

    Attributes:
        kind: `decimal` is a number with a fraction and no exponent, which Spark reads as exact.
        text: Of a text its contents, of others as it is written.
    """

    kind: Literal["string", "int", "long", "double", "decimal", "bool", "null"]
    text: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its operands: `and`, `=`, `is null`, `in`, `like`, `negate` and so on."""

    name: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function, in lower case, and its arguments."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A value made another type, in lower case."""

    operand: Node
    type: str


@dataclass(frozen=True, slots=True)
class Case:
    """Conditions with what holds then, in order; `otherwise` is None for null."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


Node: TypeAlias = Column | Value | Operation | Call | Cast | Case

_TOKEN = re.compile(
    r"""
      (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:[A-Za-z]\w*)?)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<sign><=>|<>|!=|==|<=|>=|\|\||->|::|[-+*/%=<>(),.\[\]!~&|^:;{}?@\#$])
    | (?P<open>['"`])
    """,
    re.VERBOSE | re.DOTALL,
)
_SPACES = re.compile(r"\s*")
_COMMENT = re.compile(r"--|/\*")
_NO_OPERAND = frozenset(["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "/", "%", "||", ","])
"""No operand begins with these."""
_COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">"}
_COMPARISONS |= {">=": ">=", "<=>": "<=>"}
_WORDS = frozenset(
    "and or not is null in between like true false case when then else end cast as div rlike regexp".split()
)
_PATTERN_OPERATORS = frozenset(("rlike", "regexp"))
_PATTERN_FUNCTIONS = frozenset(
    (
        "regexp", "regexp_count", "regexp_extract", "regexp_extract_all", "regexp_instr", "regexp_like",
        "regexp_replace", "regexp_substr", "rlike", "split",
    )
)  # fmt: skip
"""Functions whose second argument is a regular expression."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BY_NUMBER = re.compile(r"\\[uU0-9]")
_LETTERS = {"b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def parse(text: str) -> Node:
    """Return the tree of an expression.

    Raises:
        Mistake: It is none.
        Beyond: It may be one.
    """
    tokens = _tokens(text)
    _check_brackets(tokens)
    _check_patterns(tokens)
    parser = _Parser(tokens)
    node = parser.expression(0)
    rest = parser.peek()
    if rest is not None:
        raise Beyond(f"'{rest.text}' at character {rest.position + 1} is for Spark to read")
    _check_tree(node)
    return node


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = _after_spaces(text, 0)
    while position < len(text):
        if _COMMENT.match(text, position) is not None:
            raise Beyond("comments are for Spark to read")
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise Beyond(f"character {position + 1} is for Spark to read")
        if match.lastgroup == "open":
            raise Mistake(f"the quote {match[0]} at character {position + 1} does not end")
        found.append(_Token(match.lastgroup, match[0], position))
        position = _after_spaces(text, match.end())
    if not found:
        raise Mistake("it is empty")
    return found


def _after_spaces(text: str, position: int) -> int:
    found = _SPACES.match(text, position)
    return position if found is None else found.end()


def _check_brackets(tokens: list[_Token]) -> None:
    closing = {")": "(", "]": "[", "}": "{"}
    waiting: list[_Token] = []
    for token in tokens:
        if token.kind != "sign":
            continue
        if token.text in closing.values():
            waiting.append(token)
        elif token.text in closing and (not waiting or waiting.pop().text != closing[token.text]):
            raise Mistake(f"'{token.text}' at character {token.position + 1} closes nothing")
    if waiting:
        raise Mistake(f"'{waiting[-1].text}' at character {waiting[-1].position + 1} is not closed")


def _check_patterns(tokens: list[_Token]) -> None:
    for pattern in _literal_patterns(tokens):
        try:
            check_pattern(pattern)
        except Invalid as error:
            raise Mistake(error.message) from None


def _literal_patterns(tokens: Sequence[_Token]) -> Iterator[str]:
    """Yield the regular expressions; not those with characters that are written as numbers."""
    for place, token in enumerate(tokens):
        name = token.text.lower() if token.kind == "word" else ""
        is_call = [one.text for one in tokens[place + 1 : place + 2]] == ["("]
        if is_call and name in _PATTERN_FUNCTIONS:
            yield from _pattern_at(tokens, _second_argument(tokens, place + 2))
        elif name in _PATTERN_OPERATORS:
            yield from _pattern_at(tokens, place + 1)


def _second_argument(tokens: Sequence[_Token], start: int) -> int:
    """Return where it begins; the end if there is none."""
    depth = 0
    for place in range(start, len(tokens)):
        sign = tokens[place].text if tokens[place].kind == "sign" else ""
        if sign == "," and not depth:
            return place + 1
        depth += (sign in {"(", "[", "{"}) - (sign in {")", "]", "}"})
        if depth < 0:
            break
    return len(tokens)


def _pattern_at(tokens: Sequence[_Token], place: int) -> Iterator[str]:
    """Yield the text at a place, unless it is a part of something larger."""
    found, after = tokens[place : place + 1], tokens[place + 1 : place + 2]
    if not found or found[0].kind != "text" or _BY_NUMBER.search(found[0].text):
        return
    if all(one.kind == "word" or one.text in {")", ","} for one in after):
        yield _ESCAPED.sub(lambda one: _LETTERS.get(one[1], one[1]), found[0].text[1:-1])


def _check_depth(depth: int) -> None:
    if depth > DEPTH_MAX:
        raise Beyond(f"it is nested deeper than {DEPTH_MAX} levels")


def _check_tree(node: Node) -> None:
    level: list[Node] = [node]
    for _ in range(TREE_DEPTH_MAX):
        level = [child for one in level for child in _children(one)]
        if not level:
            return
    raise Beyond(f"it has more than {TREE_DEPTH_MAX} operators in a row")


def find_calls(node: Node) -> Iterator[Call]:
    """Yield the calls of functions in a tree that `parse` gave."""
    if isinstance(node, Call):
        yield node
    for child in _children(node):
        yield from find_calls(child)


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Operation(_, operands):
            return operands
        case Call(_, arguments):
            return arguments
        case Cast(operand, _):
            return (operand,)
        case Case(branches, otherwise):
            rest = () if otherwise is None else (otherwise,)
            return (*(one for pair in branches for one in pair), *rest)
    return ()


class _Parser:
    """Reads by precedence: or, and, not, comparisons, sums, products, signs."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def peek(self) -> _Token | None:
        """Return the next token; None at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def expression(self, depth: int) -> Node:
        """Read a whole expression."""
        _check_depth(depth)
        return self._row(self._conjunction, depth, "or")

    def _conjunction(self, depth: int) -> Node:
        return self._row(self._negation, depth, "and")

    def _row(self, operand: Callable[[int], Node], depth: int, *operators: str) -> Node:
        """Read operands with operators of one precedence between them."""
        node = operand(depth)
        while (operator := self._takes(*operators)) is not None:
            node = Operation(operator, (node, operand(depth)))
        return node

    def _negation(self, depth: int) -> Node:
        _check_depth(depth)
        if self._takes("not", "!"):
            return Operation("not", (self._negation(depth + 1),))
        return self._predicate(depth)

    def _predicate(self, depth: int) -> Node:
        node = self._sum(depth)
        token = self.peek()
        if token is not None and token.kind == "sign" and token.text in _COMPARISONS:
            self._at += 1
            return Operation(_COMPARISONS[token.text], (node, self._sum(depth)))
        if self._takes("is"):
            is_not = self._takes("not")
            self._needs("null")
            return Operation("is not null" if is_not else "is null", (node,))
        is_not = self._takes("not")
        found = self._range_or_list(node, depth)
        if found is None:
            if is_not:
                raise Beyond("NOT is for Spark to read here")
            return node
        return Operation("not", (found,)) if is_not else found

    def _range_or_list(self, node: Node, depth: int) -> Node | None:
        if self._takes("between"):
            low = self._sum(depth)
            self._needs("and")
            return Operation("between", (node, low, self._sum(depth)))
        if self._takes("in"):
            self._needs("(")
            return Operation("in", (node, *self._list(depth)))
        if self._takes("like"):
            return Operation("like", (node, self._sum(depth)))
        return None

    def _sum(self, depth: int) -> Node:
        return self._row(self._product, depth, "+", "-", "||")

    def _product(self, depth: int) -> Node:
        return self._row(self._signed, depth, "*", "/", "%")

    def _signed(self, depth: int) -> Node:
        _check_depth(depth)
        if self._takes("-"):
            return Operation("negate", (self._signed(depth + 1),))
        if self._takes("+"):
            return self._signed(depth + 1)
        return self._operand(depth + 1)

    def _operand(self, depth: int) -> Node:
        token = self.peek()
        if token is None:
            raise Mistake("it ends where a value should be")
        if token.kind == "sign" and token.text in _NO_OPERAND:
            raise Mistake(
                f"'{token.text}' at character {token.position + 1} stands where a value should be"
            )
        self._at += 1
        match token.kind:
            case "number":
                return _number(token)
            case "text":
                return self._text(token)
            case "quoted":
                return self._column(token.text[1:-1].replace("``", "`"))
            case "word":
                return self._word(token, depth)
        if token.text == "(":
            node = self.expression(depth)
            self._needs(")")
            return node
        raise Beyond(f"'{token.text}' at character {token.position + 1} is for Spark to read")

    def _text(self, token: _Token) -> Node:
        after = self.peek()
        if "\\" in token.text or (after is not None and after.kind == "text"):
            raise Beyond("texts with a backslash or of several parts are for Spark to read")
        return Value("string", token.text[1:-1])

    def _column(self, name: str) -> Node:
        after = self.peek()
        if after is not None and after.text in {".", "[", "(", "->", "::"}:
            raise Beyond(f"'{name}{after.text}' is for Spark to read")
        return Column(name)

    def _word(self, token: _Token, depth: int) -> Node:
        word = token.text.lower()
        after = self.peek()
        if word in {"true", "false"}:
            return Value("bool", word)
        if word == "null":
            return Value("null", word)
        if word == "case":
            return self._case(depth)
        if word == "cast":
            return self._cast(depth)
        if word in _WORDS or (after is not None and after.kind == "text"):
            raise Beyond(f"'{token.text}' is for Spark to read here")
        if after is not None and after.text == "(":
            self._at += 1
            return Call(word, self._list(depth, may_be_empty=True))
        return self._column(token.text)

    def _list(self, depth: int, *, may_be_empty: bool = False) -> tuple[Node, ...]:
        """Read what stands in brackets, from behind the first one on."""
        if may_be_empty and self._takes(")"):
            return ()
        found = [self.expression(depth + 1)]
        while self._takes(","):
            found.append(self.expression(depth + 1))
        self._needs(")")
        return tuple(found)

    def _case(self, depth: int) -> Node:
        subject = None
        token = self.peek()
        if token is not None and token.text.lower() != "when":
            subject = self.expression(depth + 1)
        branches: list[tuple[Node, Node]] = []
        while self._takes("when"):
            condition = self.expression(depth + 1)
            if subject is not None:
                condition = Operation("=", (subject, condition))
            self._needs("then")
            branches.append((condition, self.expression(depth + 1)))
        otherwise = self.expression(depth + 1) if self._takes("else") else None
        self._needs("end")
        if not branches:
            raise Beyond("a CASE without WHEN is for Spark to read")
        return Case(tuple(branches), otherwise)

    def _cast(self, depth: int) -> Node:
        self._needs("(")
        operand = self.expression(depth + 1)
        self._needs("as")
        token = self.peek()
        if token is None or token.kind != "word":
            raise Beyond("the type of a cast is for Spark to read")
        self._at += 1
        self._needs(")")
        return Cast(operand, token.text.lower())

    def _takes(self, *texts: str) -> str | None:
        """Go past the next token if it is one of these; return which."""
        token = self.peek()
        if token is None or token.kind not in {"sign", "word"} or token.text.lower() not in texts:
            return None
        self._at += 1
        return token.text.lower()

    def _needs(self, text: str) -> None:
        token = self.peek()
        if not self._takes(text):
            where = "at the end" if token is None else f"at character {token.position + 1}"
            raise Beyond(f"{text.upper()} is not there {where}, so it is for Spark to read")


def _number(token: _Token) -> Value:
    text = token.text
    if text.isdigit():
        if len(text) > 18:
            raise Beyond(f"{text} is for Spark to read")
        return Value("int" if int(text) < 1 << 31 else "long", text)
    if re.fullmatch(r"\d+[lL]", text):
        return Value("long", text[:-1])
    if re.fullmatch(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dD]", text):
        return Value("double", text[:-1])
    if re.fullmatch(r"(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+", text):
        return Value("double", text)
    if re.fullmatch(r"\d*\.\d+|\d+\.", text):
        return Value("decimal", text)
    raise Beyond(f"{text} is for Spark to read")
