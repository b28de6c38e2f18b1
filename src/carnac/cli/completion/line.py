"""The line that a shell wants completed: it comes in the environment, and is read before any command is loaded."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

INSTRUCTION = "_CARNAC_COMPLETE"
"""Set by the scripts that `--show-completion` prints: a line is to be completed, not run."""
_BASH, _BASH_AT = "COMP_WORDS", "COMP_CWORD"
_OTHERS = "_TYPER_COMPLETE_ARGS"
"""The variables that hold the line, for bash and for the other shells."""
FLAGS = ("--debug", "--no-color")
VALUED = ("--store", "--overlord")
"""The options that every command takes: those without a value, and those with one."""


def words_before(environ: Mapping[str, str]) -> list[str] | None:
    """Return the words before the one that is completed, without the program's; None: nothing is to be completed."""
    if INSTRUCTION not in environ:
        return None
    line = environ.get(_BASH) or environ.get(_OTHERS, "")
    words = _split(line)
    if _BASH in environ:
        place = environ.get(_BASH_AT, "")
        return words[1 : int(place)] if place.isdecimal() else words[1:]
    return words[1:] if line[-1:].isspace() else words[1:-1]


def option_in(words: list[str], name: str) -> str | None:
    """Return the value of an option that may stand anywhere on the line, or None."""
    for index, word in enumerate(words):
        key, equals, value = word.partition("=")
        if key == name:
            return value if equals else next(iter(words[index + 1 : index + 2]), None)
    return None


def first_word(words: Sequence[str]) -> str | None:
    """Return the first word of the command; None if help or nothing is asked for before it.

    Args:
        words: Without the program; options that every command takes stand before the command.
    """
    left = list(words)
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if option in VALUED:
            left = left[1:]
        elif option not in FLAGS and "=" not in option:
            return None
    return left[0] if left else None


def _split(line: str) -> list[str]:
    """Return the words as a shell cuts them; a quote that is still open ends with the line."""
    for closing in ("", "'", '"'):
        try:
            return shlex.split(line + closing)
        except ValueError:
            continue
    return line.split()
