"""Spark SQL's expressions as DuckDB's, where both mean the same; the others are refused by name.

Types are known before a row is, so nothing is converted in silence: expressions that Spark would convert by rules of
its own (a text compared with a number) are refused. Some expressions agree on most values and not on all (letters
outside of ASCII in upper case, sums that leave 64 bits, numbers written as `1.5f`). They are computed where both agree,
and a row where they may not ends the load with a sentence that names `ingest`. A test on Spark compares every function
and operator.

Departs from Spark, whose ANSI mode is off: a sum that overflows ends the load here, and wraps round there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from carnac.core.quoting import quote, quote_text
from carnac.errors import Invalid
from carnac.specs.problems import suggest
from carnac.specs.spark_sql.syntax import (
    Beyond,
    Call,
    Case,
    Cast,
    Column,
    Node,
    Operation,
    Value,
    parse,
)

Kind = Literal["string", "int", "long", "double", "decimal", "bool", "time", "null", "other"]
"""Types; `int` is of whole literals and parts of a time, `decimal` and `null` of literals alone."""

WHOLE = frozenset({"int", "long"})
NUMBERS = frozenset({"int", "long", "double", "decimal"})
DUCK_TYPE: Mapping[str, str] = {
    "string": "VARCHAR",
    "int": "BIGINT",
    "long": "BIGINT",
    "double": "DOUBLE",
    "bool": "BOOLEAN",
    "time": "TIMESTAMPTZ",
}
USE_INGEST = "use ingest, which runs on Spark"
REFUSAL = "append computes this otherwise than Spark"
"""How the messages of rows begin that only Spark can compute."""
_AT = "make_timestamp(epoch_us({}))"
"""A time of which parts are taken in UTC, whatever the session's zone."""
_MILLIS = "((epoch_us({0}) - ((epoch_us({0}) % 1000) + 1000) % 1000) // 1000)"
_UNITS = frozenset(("year", "quarter", "month", "week", "day", "hour", "minute", "second"))
_CASTS: Mapping[str, Kind] = {
    "string": "string",
    "bigint": "long",
    "long": "long",
    "double": "double",
    "boolean": "bool",
}
_SQRT = "(CASE WHEN {0} < 0 THEN 'nan'::DOUBLE ELSE sqrt({0}) END)"
_SIMPLE_WHOLE = r"[ ]*[+-]?[0-9]{1,18}[ ]*"
_MAYBE_WHOLE = r"[\s\p{C}0-9.+-]*[0-9.][\s\p{C}0-9.+-]*"
_SIMPLE_NUMBER = r"[ ]*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?[ ]*"
_MAYBE_NUMBER = r"(?i)[\s\p{C}]*[+-]?([0-9.].*|inf.*|nan.*|0x.*)"


@dataclass(frozen=True, slots=True)
class Typed:
    """A piece of DuckDB's SQL and its type.

    Attributes:
        literal: The text of a literal; None: it is none.
    """

    sql: str
    kind: Kind
    literal: str | None = None


def to_duckdb(text: str, types: Mapping[str, Kind]) -> Typed:
    """Return a Spark SQL expression as DuckDB's.

    Args:
        types: Of the columns that it may name.

    Raises:
        Mistake: It is no expression.
        Beyond: Nobody knows that it means the same in DuckDB.
        Invalid: It names a column that there is not.
    """
    return _Translator(types).node(parse(text))


class _Translator:
    def __init__(self, types: Mapping[str, Kind]) -> None:
        self._types = types

    def node(self, node: Node) -> Typed:
        """Return the piece that a tree becomes."""
        match node:
            case Column(name):
                if name not in self._types:
                    raise Invalid(f"there is no column '{name}'{suggest(name, self._types)}")
                if self._types[name] == "other":
                    raise Beyond(f"column '{name}' is of a type that is for Spark")
                return Typed(quote(name), self._types[name])
            case Value():
                return _literal(node)
            case Cast(operand, kind):
                return _cast(self.node(operand), kind)
            case Case(branches, otherwise):
                return self._case(branches, otherwise)
            case Call(name, arguments):
                return _call(name, [self.node(one) for one in arguments])
            case Operation(name, operands):
                return _operate(name, [self.node(one) for one in operands])

    def _case(self, branches: tuple[tuple[Node, Node], ...], otherwise: Node | None) -> Typed:
        conditions = [_condition(self.node(condition)) for condition, _ in branches]
        values = [self.node(value) for _, value in branches]
        last = Typed("NULL", "null") if otherwise is None else self.node(otherwise)
        kind, (*made, rest) = _of_one_kind([*values, last], "CASE")
        pairs = zip(conditions, made, strict=True)
        whens = "".join(f" WHEN {condition} THEN {value}" for condition, value in pairs)
        return Typed(f"(CASE{whens} ELSE {rest} END)", kind)


def _literal(value: Value) -> Typed:
    if value.kind == "string":
        return Typed(quote_text(value.text), "string", value.text)
    if value.kind == "double":
        return Typed(f"CAST('{value.text}' AS DOUBLE)", "double", value.text)
    if value.kind in WHOLE:
        return Typed(f"CAST({value.text} AS BIGINT)", value.kind, value.text)
    return Typed(value.text, value.kind, value.text)


def _condition(piece: Typed) -> str:
    if piece.kind == "null":
        return "CAST(NULL AS BOOLEAN)"
    if piece.kind != "bool":
        raise Beyond(f"a {piece.kind} as a condition is for Spark")
    return piece.sql


def _as_double(piece: Typed) -> str:
    if piece.kind == "decimal":
        return f"CAST('{piece.literal}' AS DOUBLE)"
    return piece.sql if piece.kind == "double" else f"CAST({piece.sql} AS DOUBLE)"


def _of_one_kind(pieces: list[Typed], what: str) -> tuple[Kind, list[str]]:
    """Return the type that pieces have in common, and their SQL as that.

    Raises:
        Beyond: Spark would convert them by rules of its own.
    """
    kinds = {piece.kind for piece in pieces} - {"null"}
    if not kinds:
        raise Beyond(f"{what} of nothing but NULL is for Spark")
    if len(kinds) == 1 and kinds != {"decimal"}:
        kind: Kind = next(iter(kinds))
        return kind, [piece.sql for piece in pieces]
    if kinds <= WHOLE:
        return "long", [piece.sql for piece in pieces]
    if kinds <= NUMBERS and "double" in kinds:
        return "double", ["NULL" if p.kind == "null" else _as_double(p) for p in pieces]
    raise Beyond(
        f"{what} of {' and '.join(sorted(kinds))} is for Spark, which converts them; cast one"
    )


def _operate(name: str, operands: list[Typed]) -> Typed:
    match name:
        case "and" | "or":
            one, other = map(_condition, operands)
            return Typed(f"({one} {name.upper()} {other})", "bool")
        case "not":
            return Typed(f"(NOT {_condition(operands[0])})", "bool")
        case "is null" | "is not null":
            return Typed(f"({operands[0].sql} {name.upper()})", "bool")
        case "=" | "<>" | "<" | "<=" | ">" | ">=" | "<=>":
            _, (left, right) = _of_one_kind(operands, f"'{name}'")
            sign = "IS NOT DISTINCT FROM" if name == "<=>" else name
            return Typed(f"({left} {sign} {right})", "bool")
        case "between":
            _, (value, low, high) = _of_one_kind(operands, "BETWEEN")
            return Typed(f"({value} >= {low} AND {value} <= {high})", "bool")
        case "in":
            _, (value, *some) = _of_one_kind(operands, "IN")
            return Typed(f"({value} IN ({', '.join(some)}))", "bool")
        case "like":
            return _like(*operands)
        case "||":
            return _concat(operands)
        case "negate":
            return _negate(operands[0])
    return _compute(name, operands)


def _like(text: Typed, pattern: Typed) -> Typed:
    if text.kind != "string" or pattern.kind != "string" or pattern.literal is None:
        raise Beyond("LIKE with a pattern that is no literal is for Spark")
    return Typed(f"({text.sql} LIKE {pattern.sql})", "bool")


def _negate(piece: Typed) -> Typed:
    if piece.literal is not None and piece.kind in NUMBERS:
        text = (
            piece.literal.removeprefix("-")
            if piece.literal.startswith("-")
            else f"-{piece.literal}"
        )
        sql = piece.sql.replace(piece.literal, text, 1)
        return Typed(sql, piece.kind, text)
    if piece.kind not in {"long", "double"}:
        raise Beyond(f"the minus of a {piece.kind} is for Spark")
    return Typed(f"(-{piece.sql})", piece.kind)


def _compute(sign: str, operands: list[Typed]) -> Typed:
    kinds = {piece.kind for piece in operands}
    if not kinds <= NUMBERS:
        raise Beyond(
            f"'{sign}' of {' and '.join(sorted(kinds))} is for Spark; cast to double or bigint"
        )
    if "decimal" in kinds and "double" not in kinds:
        raise Beyond(f"'{sign}' with a decimal number is for Spark; write 1.5D for a double")
    if sign == "/":
        left, right = map(_as_double, operands)
        return Typed(f"({left} / nullif({right}, 0))", "double")
    if kinds == {"int"}:
        raise Beyond(f"'{sign}' of two whole literals is for Spark; write the result")
    if "double" in kinds:
        if sign == "%":
            raise Beyond("'%' of a double is for Spark")
        left, right = map(_as_double, operands)
        return Typed(f"({left} {sign} {right})", "double")
    left, right = (piece.sql for piece in operands)
    if sign == "%":
        return Typed(f"({left} % nullif({right}, 0))", "long")
    return Typed(f"({left} {sign} {right})", "long")


def _concat(pieces: list[Typed]) -> Typed:
    if any(piece.kind not in {"string", "long", "int"} for piece in pieces):
        raise Beyond(
            "concat of other than texts and whole numbers is for Spark; cast them to string"
        )
    return Typed(f"({' || '.join(f'CAST({piece.sql} AS VARCHAR)' for piece in pieces)})", "string")


def _cast(piece: Typed, name: str) -> Typed:
    if name not in _CASTS:
        raise Beyond(f"a cast to {name} is for Spark")
    to = _CASTS[name]
    if piece.kind in {to, "null"}:
        return Typed(f"CAST({piece.sql} AS {DUCK_TYPE[to]})", to)
    match piece.kind, to:
        case ("int" | "long" | "bool", "string") | ("int", "long"):
            return Typed(f"CAST({piece.sql} AS {DUCK_TYPE[to]})", to)
        case "int" | "long" | "decimal", "double":
            return Typed(_as_double(piece), to)
        case "double", "long":
            return Typed(f"CAST(trunc({piece.sql}) AS BIGINT)", to)
        case "string", "long":
            return Typed(_parsed(piece.sql, _SIMPLE_WHOLE, _MAYBE_WHOLE, "BIGINT"), to)
        case "string", "double":
            return Typed(_parsed(piece.sql, _SIMPLE_NUMBER, _MAYBE_NUMBER, "DOUBLE"), to)
    raise Beyond(f"a cast of a {piece.kind} to {name} is for Spark")


def _parsed(sql: str, simple: str, maybe: str, kind: str) -> str:
    """Return a number of a text: null where it is none, and refused where Spark may read one that is not simple."""
    return (
        f"(CASE WHEN regexp_full_match({sql}, {quote_text(simple)}) THEN TRY_CAST(trim({sql}, ' ') AS {kind})"
        f" WHEN regexp_full_match({sql}, {quote_text(maybe)}, 's') THEN"
        f" CAST({_refused(sql)} AS {kind}) END)"
    )


def _refused(sql: str) -> str:
    return f"error('{REFUSAL}: ''' || left({sql}, 100) || '''')"


def _only_ascii(function: str) -> Callable[[list[Typed]], Typed]:
    def make(arguments: list[Typed]) -> Typed:
        (piece,) = arguments
        is_ascii = f"strlen({piece.sql}) = length({piece.sql})"
        return Typed(
            f"(CASE WHEN {is_ascii} THEN {function}({piece.sql}) WHEN {piece.sql} IS NOT NULL"
            f" THEN CAST({_refused(piece.sql)} AS VARCHAR) END)",
            "string",
        )

    return make


def _texts(template: str, kind: Kind) -> Callable[[list[Typed]], Typed]:
    return lambda arguments: Typed(template.format(*(one.sql for one in arguments)), kind)


def _substring(arguments: list[Typed]) -> Typed:
    text, *numbers = arguments
    if text.kind != "string" or any(
        one.kind != "int" or one.literal is None or one.literal.startswith("-") for one in numbers
    ):
        raise Beyond("substring with a place that is no whole literal is for Spark")
    if not numbers or numbers[0].literal == "0":
        raise Beyond("substring from place 0 is for Spark; places begin at 1")
    return Typed(f"substring({', '.join(one.sql for one in arguments)})", "string")


def _replace(arguments: list[Typed]) -> Typed:
    if (
        len(arguments) != 3
        or not arguments[1].literal
        or any(a.kind != "string" for a in arguments)
    ):
        raise Beyond("replace of what is no literal is for Spark")
    return Typed(f"replace({', '.join(one.sql for one in arguments)})", "string")


def _coalesce(arguments: list[Typed]) -> Typed:
    kind, some = _of_one_kind(arguments, "coalesce")
    return Typed(f"coalesce({', '.join(some)})", kind)


def _nullif(arguments: list[Typed]) -> Typed:
    kind, (value, other) = _of_one_kind(arguments, "nullif")
    return Typed(f"nullif({value}, {other})", kind)


def _if(arguments: list[Typed]) -> Typed:
    condition = _condition(arguments[0])
    kind, (yes, no) = _of_one_kind(arguments[1:], "if")
    return Typed(f"(CASE WHEN {condition} THEN {yes} ELSE {no} END)", kind)


def _abs(arguments: list[Typed]) -> Typed:
    (piece,) = arguments
    if piece.kind not in {"long", "double"}:
        raise Beyond(f"abs of a {piece.kind} is for Spark")
    return Typed(f"abs({piece.sql})", piece.kind)


def _rounded(function: str) -> Callable[[list[Typed]], Typed]:
    return lambda arguments: Typed(f"CAST({function}({arguments[0].sql}) AS BIGINT)", "long")


def _date_trunc(arguments: list[Typed]) -> Typed:
    unit, at = arguments
    name = (unit.literal or "").lower()
    if unit.kind != "string" or name not in _UNITS or at.kind != "time":
        raise Beyond(f"date_trunc by other units than {', '.join(sorted(_UNITS))} is for Spark")
    return Typed(
        f"make_timestamptz(epoch_us(date_trunc({quote_text(name)}, {_AT.format(at.sql)})))", "time"
    )


@dataclass(frozen=True, slots=True)
class _Function:
    """A function that means the same.

    Attributes:
        kinds: Of its arguments; None: `make` looks at them.
        counts: How many arguments it takes.
    """

    make: Callable[[list[Typed]], Typed]
    kinds: tuple[Kind, ...] | None = None
    counts: frozenset[int] = frozenset()


def _of(make: Callable[[list[Typed]], Typed], *kinds: Kind) -> _Function:
    return _Function(make, kinds, frozenset({len(kinds)}))


def _any(make: Callable[[list[Typed]], Typed], *counts: int) -> _Function:
    return _Function(make, None, frozenset(counts))


_MANY = range(1, 33)
FUNCTIONS: Mapping[str, _Function] = {
    **{name: _of(_only_ascii("upper"), "string") for name in ("upper", "ucase")},
    **{name: _of(_only_ascii("lower"), "string") for name in ("lower", "lcase")},
    "trim": _of(_texts("trim({}, ' ')", "string"), "string"),
    "ltrim": _of(_texts("ltrim({}, ' ')", "string"), "string"),
    "rtrim": _of(_texts("rtrim({}, ' ')", "string"), "string"),
    **{
        name: _of(_texts("length({})", "int"), "string")
        for name in ("length", "len", "char_length", "character_length")
    },
    "substring": _any(_substring, 2, 3),
    "substr": _any(_substring, 2, 3),
    "replace": _any(_replace, 3),
    "startswith": _of(_texts("starts_with({}, {})", "bool"), "string", "string"),
    "endswith": _of(_texts("ends_with({}, {})", "bool"), "string", "string"),
    "contains": _of(_texts("contains({}, {})", "bool"), "string", "string"),
    "concat": _any(_concat, *_MANY),
    "coalesce": _any(_coalesce, *_MANY),
    "nvl": _any(_coalesce, 2),
    "ifnull": _any(_coalesce, 2),
    "nullif": _any(_nullif, 2),
    "if": _any(_if, 3),
    "isnull": _any(lambda a: Typed(f"({a[0].sql} IS NULL)", "bool"), 1),
    "isnotnull": _any(lambda a: Typed(f"({a[0].sql} IS NOT NULL)", "bool"), 1),
    "abs": _any(_abs, 1),
    "floor": _of(_rounded("floor"), "double"),
    "ceil": _of(_rounded("ceil"), "double"),
    "ceiling": _of(_rounded("ceil"), "double"),
    "sqrt": _of(_texts(_SQRT, "double"), "double"),
    "date_trunc": _any(_date_trunc, 2),
    **{
        name: _of(_texts(f"CAST({name}({_AT}) AS BIGINT)", "int"), "time")
        for name in ("year", "quarter", "month", "day", "hour", "minute", "second")
    },
    "dayofmonth": _of(_texts(f"CAST(day({_AT}) AS BIGINT)", "int"), "time"),
    "dayofyear": _of(_texts(f"CAST(dayofyear({_AT}) AS BIGINT)", "int"), "time"),
    "dayofweek": _of(_texts(f"CAST(dayofweek({_AT}) + 1 AS BIGINT)", "int"), "time"),
    # of Druid's expressions, as they are compiled
    "timestamp_millis": _of(_texts("make_timestamptz({} * 1000)", "time"), "long"),
    "unix_millis": _of(_texts(_MILLIS, "long"), "time"),
}
"""Functions of Spark SQL that mean the same here."""


def _call(name: str, arguments: list[Typed]) -> Typed:
    function = FUNCTIONS.get(name)
    if function is None:
        raise Beyond(f"function {name} is for Spark")
    if len(arguments) not in function.counts:
        raise Beyond(f"{name} with {len(arguments)} arguments is for Spark")
    if function.kinds is not None:
        given = tuple(piece.kind for piece in arguments)
        if given != function.kinds:
            raise Beyond(
                f"{name} of {' and '.join(given) or 'nothing'} is for Spark; cast its arguments"
            )
    return function.make(arguments)
