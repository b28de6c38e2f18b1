"""Options and arguments that several commands have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from carnac.cli.completion.values import complete_datasource, complete_moment
from carnac.cli.prompt.statements import bare
from carnac.errors import Invalid

_NAME = re.compile(r"\$[A-Za-z_]\w*")
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)

NUMBER_MAX = 10**12
"""Largest number that an option takes if it says no other."""


def option(
    words: str, text: str, *, complete: Callable[..., Any] | None = None, **more: Any
) -> Any:
    """Return an option for `Annotated`.

    Args:
        words: Its names as typed, then what its value is called: `--limit -n N`.
        text: Its line of the help.
    """
    names = [word for word in words.split() if word.startswith("-")]
    metavar = next((word for word in words.split() if not word.startswith("-")), None)
    if "min" in more:
        more = {"max": NUMBER_MAX, **more}
    more = {"metavar": metavar, **more}
    return typer.Option(*names, help=text, autocompletion=complete, **more)


def flag(names: str, text: str, **more: Any) -> Any:
    """Return an option without a value."""
    return option(names, text, metavar="", **more)


def argument(metavar: str, text: str, *, complete: Callable[..., Any] | None = None) -> Any:
    """Return an argument for `Annotated`."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete, show_default=False)


Parameters: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--param -p VALUE",
        "Value of the next ? in the statement, or NAME=VALUE of $NAME: a JSON number, true, false, null, or else a"
        " text.",
    ),
]
At: TypeAlias = Annotated[
    str | None,
    option(
        "--at REVISION",
        "A revision, a time or a tag. Default: the newest.",
        complete=complete_moment,
    ),
]
Datasource: TypeAlias = Annotated[
    str, argument("DATASOURCE", "The datasource's name.", complete=complete_datasource)
]
DatasourceIfAny: TypeAlias = Annotated[
    str | None, argument("DATASOURCE", "The datasource's name.", complete=complete_datasource)
]
IntervalText: TypeAlias = Annotated[
    str | None,
    option(
        "--interval A/B",
        "ISO 8601, UTC; the end is excluded: 2013-02-01/2013-03-01 or 2013-02/P1M.",
    ),
]
Message: TypeAlias = Annotated[
    str, option("--message -m TEXT", "Message of the commit, for readers of the log.")
]
DryRun: TypeAlias = Annotated[bool, flag("--dry-run", "Show what would be done, without doing it.")]


def parameters_of(
    statement: str, given: Sequence[str] | None
) -> Sequence[object] | Mapping[str, object]:
    """Return the values of a statement's parameters: by name if it has such, and all are given as NAME=VALUE.

    Raises:
        Invalid: A name is given twice.
    """
    shown = bare(statement)
    pairs = [found for one in given or () if (found := _NAMED.fullmatch(one))]
    if not pairs or len(pairs) < len(given or ()) or "?" in shown or not _NAME.search(shown):
        return [_value(one) for one in given or ()]
    values: dict[str, object] = {}
    for pair in pairs:
        if pair[1] in values:
            raise Invalid(f"--param {pair[1]}=… is given twice; give one of them")
        values[pair[1]] = _value(pair[2])
    return values


def _value(text: str) -> object:
    if text.lstrip()[:1] in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except ValueError:  # also a number of thousands of digits
        return text
