"""The condition of `OVERWRITE WHERE`: bounds of `__time`, joined by AND and OR, as intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval, IntervalSet, parse_instant
from carnac.errors import Invalid
from carnac.specs.base import TIME_COLUMN
from carnac.specs.sql.tokens import Token, words_at

_NONE = IntervalSet()
_FROM: Mapping[str, Callable[[int], tuple[int, int]]] = {
    ">=": lambda at: (at, MAX_MS),
    ">": lambda at: (at + 1, MAX_MS),
    "<": lambda at: (MIN_MS, at),
    "<=": lambda at: (MIN_MS, at + 1),
    "=": lambda at: (at, at + 1),
}
_TURNED = {">=": "<=", ">": "<", "<": ">", "<=": ">=", "=": "="}
_LITERALS = frozenset({"TIMESTAMP", "DATE"})


def intervals_of(tokens: Sequence[Token]) -> IntervalSet:
    """Return the instants that a condition holds for.

    Raises:
        Invalid: It is something else than bounds of `__time`, joined by AND and OR.
    """
    reader = _Condition(tokens)
    found = reader.any_of()
    if reader.at != len(tokens):
        raise _refused(tokens[reader.at])
    return found


class _Condition:
    """Reads a condition from left to right."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.at = 0

    def any_of(self) -> IntervalSet:
        """Read conditions that OR joins."""
        found = self._all_of()
        while self._took("OR"):
            found = found.union(self._all_of())
        return found

    def _all_of(self) -> IntervalSet:
        found = self._one()
        while self._took("AND"):
            found = found.intersect(self._one())
        return found

    def _one(self) -> IntervalSet:
        if self._took("("):
            found = self.any_of()
            if not self._took(")"):
                raise _refused(self._next())
            return found
        if self._is_time():
            self.at += 1
            sign = self._next().value
            self.at += 1
            return _bounded(sign, self._instant())
        instant = self._instant()
        sign = self._next().value
        self.at += 1
        if not self._is_time() or sign not in _TURNED:
            raise _refused(self._next())
        self.at += 1
        return _bounded(_TURNED[sign], instant)

    def _instant(self) -> int:
        """Read `TIMESTAMP '…'`, `DATE '…'`, `TIME_PARSE('…')` or a text."""
        first = self._next()
        is_called = words_at(self._tokens, self.at, "TIME_PARSE", "(")
        self.at += 2 if is_called else first.kind == "word" and first.value in _LITERALS
        token = self._next()
        if token.kind != "text":
            raise _refused(token)
        self.at += 1
        if is_called and not self._took(")"):
            raise _refused(self._next())
        return parse_instant(token.value)

    def _is_time(self) -> bool:
        token = self._next()
        return token.kind in {"word", "quoted"} and token.value.lower() == TIME_COLUMN

    def _took(self, word: str) -> bool:
        is_there = words_at(self._tokens, self.at, word)
        self.at += is_there
        return is_there

    def _next(self) -> Token:
        if self.at >= len(self._tokens):
            raise _refused(None)
        return self._tokens[self.at]


def _bounded(sign: str, at_ms: int) -> IntervalSet:
    if sign not in _FROM:
        raise Invalid(f"OVERWRITE WHERE compares __time by <, <=, >, >= or =, not by {sign}")
    start_ms, end_ms = _FROM[sign](at_ms)
    return IntervalSet((Interval(start_ms, end_ms),)) if start_ms < end_ms else _NONE


def _refused(token: Token | None) -> Invalid:
    where = "at its end" if token is None else f"near '{token.name}'"
    return Invalid(
        f"OVERWRITE WHERE takes bounds of __time joined by AND and OR, which it is not {where}; write __time >="
        " TIMESTAMP '2024-01-01' AND __time < TIMESTAMP '2024-02-01', or OVERWRITE ALL"
    )
