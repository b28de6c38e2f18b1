"""Arguments of callers, checked against the signature: a wrong type is one sentence, and nothing has happened.

The annotations of a method are the one statement of what it takes; a class that is `checked` needs no other, and a
method that it gets is checked by being there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from inspect import isfunction
from reprlib import Repr
from types import FunctionType
from typing import NamedTuple, TypeGuard, TypeVar

from carnac.core.texts import (
    KEY_MAX,
    MESSAGE_MAX,
    NAME_MAX,
    WHOLE_MAX,
    check_keepable,
    check_name,
    check_text,
)
from carnac.errors import Invalid

Kind = TypeVar("Kind", bound=type)

_MADE: Mapping[str, int] = {"batch": KEY_MAX, "holder": NAME_MAX}
"""Names that are given to something new, and how long they may be. All others are of what is there, perhaps from before
names were checked. A batch may be made of the id of a task."""
_IDS = frozenset({"task_id"})
"""Names that are taken as they are: a task of any id can be cancelled."""
_SAID = frozenset({"message", "reason"})
_short = Repr()
_short.maxstring = _short.maxother = 80


class Shape(NamedTuple):
    """The allowed values of an argument.

    Attributes:
        fits: Whether a value is such a one.
        words: Description of the values, after "takes".
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
    shapes = {name: shape_of(hints[name]) for name in names}
    if not names:
        return method

    @wraps(method)
    def call(self: object, *args: object, **named: object) -> object:
        for given in (zip(by_place, args, strict=False), named.items()):
            for name, value in given:
                if name not in shapes:
                    continue
                if not shapes[name].fits(value):
                    raise Invalid(
                        f"{method.__name__}({name}=…) takes {shapes[name].words}, not {_short.repr(value)}",
                        argument=name,
                    )
                _check_texts(name, value, f"{method.__name__}({name}=…)")
        return method(self, *args, **named)

    return call


def _check_texts(name: str, value: object, what: str) -> None:
    """Refuse texts that cannot be kept, in lists as well. Readers of mappings check the texts in them."""
    if isinstance(value, str):
        if name in _MADE:
            check_name(value, what, limit=_MADE[name])
        elif name in _SAID:
            check_text(value, what, limit=MESSAGE_MAX)
        elif name not in _IDS:
            check_keepable(value, what)
    elif isinstance(value, list | tuple):
        for one in value:
            if isinstance(one, str):
                _check_texts(name, one, what)


def shape_of(hint: str) -> Shape:
    """Return what an annotation takes.

    Raises:
        TypeError: It is neither one of `_SHAPES` nor the name of a class.
    """
    kind = hint.removesuffix(" | None")
    shape = _FUNCTION if kind.startswith("Callable[") else _SHAPES.get(kind)
    if shape is None:
        if not kind.isidentifier():
            raise TypeError(f"what '{kind}' takes is not stated in {__name__}")
        shape = _instance_of(kind)
    if kind == hint:
        return shape
    return Shape(lambda value: value is None or shape.fits(value), shape.words)


def _instance_of(name: str) -> Shape:
    """Return the shape of a class by its name, so that it need not be imported here."""
    article = "an" if name[0] in "AEIO" else "a"
    return Shape(
        lambda value: any(base.__name__ == name for base in type(value).__mro__),
        f"{article} {name}",
    )


def _list_of(one: Shape) -> Shape:
    return Shape(
        lambda value: _is_list(value) and all(map(one.fits, value)), f"a list ({one.words} each)"
    )


def _one_of(*shapes: Shape, words: str | None = None) -> Shape:
    return Shape(
        lambda value: any(one.fits(value) for one in shapes),
        words or " or ".join(one.words for one in shapes),
    )


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _is_whole(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= WHOLE_MAX


_TEXT = Shape(lambda value: isinstance(value, str), "a text")
_WHOLE = Shape(_is_whole, f"a whole number from 0 to {WHOLE_MAX}")
_MAPPING = Shape(lambda value: isinstance(value, Mapping), "a mapping")
_FUNCTION = Shape(callable, "a function")
_INTERVAL = Shape(_instance_of("Interval").fits, "a carnac.Interval")
_SHAPES = {
    "object": Shape(lambda _: True, "anything"),
    "bool": Shape(lambda value: isinstance(value, bool), "True or False"),
    "int": _WHOLE,
    "str": _TEXT,
    "Interval": _INTERVAL,
    "Interval | str": _one_of(
        _INTERVAL,
        _TEXT,
        words="an interval (a text like '2013-01-01/2013-02-01' or a carnac.Interval)",
    ),
    "int | str | datetime": _one_of(  # the lookup of a negative one says what is wrong with it
        Shape(lambda value: _is_whole(value, -WHOLE_MAX), ""),
        _TEXT,
        Shape(lambda value: isinstance(value, datetime), ""),
        words="a revision, a time or the name of a tag",
    ),
    "Sequence[str]": _list_of(_TEXT),
    "Sequence[CompactionGroup]": _list_of(_instance_of("CompactionGroup")),
    "Sequence[object]": Shape(_is_list, "a list"),
    "Sequence[object] | Mapping[str, object]": _one_of(
        Shape(_is_list, "a list"), _MAPPING, words="a list, or a mapping by name"
    ),
    "tuple[str, str]": Shape(
        lambda value: _is_list(value) and len(value) == 2 and all(map(_TEXT.fits, value)),
        "2 values (a text, a text)",
    ),
    "Mapping[str, str]": _MAPPING,
    "Mapping[str, object]": _MAPPING,
    "IngestSpec | Mapping[str, object] | str": _one_of(_instance_of("IngestSpec"), _MAPPING, _TEXT),
    "str | Mapping[str, object]": _one_of(_TEXT, _MAPPING),
    "str | Mapping[str, object] | CompactionSpec": _one_of(
        _TEXT, _MAPPING, _instance_of("CompactionSpec")
    ),
    "ProgressListener": _FUNCTION,
    "PlanListener": _FUNCTION,
    "FindStop": _FUNCTION,
    "WriteGuard": Shape(lambda value: hasattr(value, "lock_inputs"), "a WriteGuard"),
}
"""Checks for annotations that are not just the name of a class, without ` | None`."""
