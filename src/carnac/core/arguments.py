"""What callers hand over, held against the signature: a wrong type is one sentence, and nothing has happened.

The annotations of a method are the one statement of what it takes; a class that is `checked` needs no other, and a
method that it gets is checked by being there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from inspect import isfunction
from reprlib import Repr
from types import FunctionType
from typing import NamedTuple, TypeGuard, TypeVar

from carnac.core.texts import MESSAGE_MAX, WHOLE_MAX, check_keepable, check_name, check_text
from carnac.errors import Invalid

Kind = TypeVar("Kind", bound=type)

_LISTENERS = frozenset({"ProgressListener"})
"""Names of function types."""
_ROLES = {"WriteGuard": "lock_inputs"}
"""Names of protocols, and a method that tells who has one."""
_MADE = frozenset({"batch", "holder"})
"""Names that are given to something new. All others are of what is there, perhaps from before names were checked."""
_IDS = frozenset({"task_id"})
"""What is asked for as it stands: a task of any id can be cancelled."""
_SAID = frozenset({"message", "reason"})
_short = Repr()
_short.maxstring = _short.maxother = 80


class Shape(NamedTuple):
    """What an argument may be.

    Attributes:
        fits: Whether a value is such a one.
        words: What it is called, after "takes".
    """

    fits: Callable[[object], bool]
    words: str


def checked(kind: Kind) -> Kind:
    """Have every public method of a class refuse arguments that its annotations do not take."""
    for name, member in list(vars(kind).items()):
        if isfunction(member) and not name.startswith("_"):
            setattr(kind, name, _checked(member))
    return kind


def _checked(method: FunctionType) -> object:
    code = method.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    by_place = names[: code.co_argcount - 1]
    hints: Mapping[str, str] = method.__annotations__
    if not names:
        return method

    @wraps(method)
    def call(self: object, *args: object, **named: object) -> object:
        for given in (zip(by_place, args, strict=False), named.items()):
            for name, value in given:
                if name not in hints:
                    continue
                if not shape_of(hints[name]).fits(value):
                    raise Invalid(
                        f"{method.__name__}({name}=…) takes {shape_of(hints[name]).words}, not {_short.repr(value)}",
                        argument=name,
                    )
                _check_texts(name, value, f"{method.__name__}({name}=…)")
        return method(self, *args, **named)

    return call


def _check_texts(name: str, value: object, what: str) -> None:
    """Refuse texts that nobody can keep, in lists as well; what mappings hold is checked by who reads them."""
    if isinstance(value, str):
        if name in _MADE:
            check_name(value, what)
        elif name in _SAID:
            check_text(value, what, limit=MESSAGE_MAX)
        elif name not in _IDS:
            check_keepable(value, what)
    elif isinstance(value, list | tuple):
        for one in value:
            if isinstance(one, str):
                _check_texts(name, one, what)


@lru_cache(maxsize=256)
def shape_of(hint: str) -> Shape:
    """Return what an annotation takes."""
    kinds = _split(hint, " | ")
    shapes = [_simple(one) for one in kinds]
    words = [shape.words for shape, one in zip(shapes, kinds, strict=True) if one != "None"]
    fits = [shape.fits for shape in shapes]
    if {"Interval", "str"} <= set(kinds):
        words = ["an interval (a text like '2013-01-01/2013-02-01' or a carnac.Interval)"]
    if {"int", "str"} <= set(kinds):
        words = ["a revision, a time or the name of a tag"]
        fits += [_is_negative]  # whoever looks it up says what is wrong with it
    return Shape(
        fits=lambda value: any(one(value) for one in fits),
        words=" or ".join(words),
    )


def _simple(hint: str) -> Shape:
    name, _, rest = hint.partition("[")
    if hint in _PLAIN:
        return _PLAIN[hint]
    if name == "Callable" or name in _LISTENERS:
        return Shape(callable, "a function")
    inner = [shape_of(one) for one in _split(rest.removesuffix("]"), ", ")] if rest else []
    if name == "Mapping":
        return Shape(lambda value: isinstance(value, Mapping), "a mapping")
    if name == "Sequence":
        (of,) = inner
        words = "a list" if of.words == _PLAIN["object"].words else f"a list ({of.words} each)"
        return Shape(lambda value: _is_list(value) and all(map(of.fits, value)), words)
    if name == "tuple":
        return Shape(
            lambda value: (
                _is_list(value)
                and len(value) == len(inner)
                and all(of.fits(one) for of, one in zip(inner, value, strict=True))
            ),
            f"{len(inner)} values ({', '.join(of.words for of in inner)})",
        )
    if name in _ROLES:
        return Shape(lambda value: hasattr(value, _ROLES[name]), f"a {name}")
    return Shape(lambda value: _is_named(value, name), f"{_article(name)} {name}")


def _split(text: str, separator: str) -> list[str]:
    """Return the parts of an annotation, without cutting inside of brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if not depth and text.startswith(separator, at):
            parts.append(text[start:at])
            start = at + len(separator)
    return [*parts, text[start:]]


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _is_named(value: object, name: str) -> bool:
    """Whether a value is of a class of this name, which need not be imported here."""
    return any(base.__name__ == name for base in type(value).__mro__)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= WHOLE_MAX


def _is_negative(value: object) -> bool:
    return isinstance(value, int) and -WHOLE_MAX <= value < 0


def _article(name: str) -> str:
    return "an" if name[:1] in {"A", "E", "I", "O"} else "a"


_PLAIN = {
    "None": Shape(lambda value: value is None, "nothing"),
    "object": Shape(lambda _: True, "anything"),
    "bool": Shape(lambda value: isinstance(value, bool), "True or False"),
    "int": Shape(_is_whole, "a whole number, 0 or more"),
    "str": Shape(lambda value: isinstance(value, str), "a text"),
    "Interval": Shape(lambda value: _is_named(value, "Interval"), "a carnac.Interval"),
}
