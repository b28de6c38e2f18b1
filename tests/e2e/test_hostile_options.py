"""Every argument and option of every command, found by asking the command line, meets what nobody means well with."""

from __future__ import annotations

import random
from typing import Any

import pytest

from carnac.cli.commands import built
from scripts.docs.cli_page import click_commands
from tests.commandlines import RUNS_ON, SHORTER
from tests.e2e.test_hostile_lines import SPEC, Line, Stage, _dumped, stage
from tests.hostile import DEEP, nested
from tests.nightly import IS_NIGHTLY

SEED = 15
EACH = 5 if IS_NIGHTLY else 1
"""Values that each option meets."""
NEVER = ("a\0b", "\ud800", "a\x1bb", "9" * 400, "\x9b")
"""No option takes them, so that no line with one does anything."""
HOSTILE = (*NEVER, "", "nan", "-inf", "1e999", "-1", str(2**63), "[" * DEEP, "x" * 100_000, "../../etc/passwd", "$(id)",
           "'; DROP TABLE tasks; --", "</script>", "2013-01-01/2012-01-01", "\u202e", "--help=", "%s%n")  # fmt: skip
LONG = frozenset(("demo", "prepare", *RUNS_ON, *SHORTER))
"""They run for long, or until they are told to end: they meet what is always refused alone."""
ROOT = ""


def commands() -> dict[str, Any]:
    """Return every command by its name, and what stands before all of them."""
    return {ROOT: built(), **click_commands()}


def lines_of(name: str, rng: random.Random) -> list[list[str]]:
    """Return lines of a command: each argument and option meets some values, the others are what a person means."""
    params = [one for one in commands()[name].params if one.name not in {"help", "auto"}]
    before = [] if name == ROOT else name.split()
    if name in RUNS_ON:  # what is taken shows that there is no store, instead of serving one
        before = ["--store", "nowhere", *before]
    after = ["log"] if name == ROOT else []
    needed = {one.name: meant(one) for one in params if one.required}
    found: list[list[str]] = []
    for param in params:
        others = [word for key, words in needed.items() if key != param.name for word in words]
        values = rng.sample(NEVER if name in LONG else HOSTILE, EACH)
        found += [[*before, *others, *with_value(param, one), *after] for one in values]
    return found


def meant(param: Any) -> list[str]:
    return with_value(param, "flights")


def with_value(param: Any, value: str) -> list[str]:
    if param.param_type_name == "argument":
        return [value]
    return (
        [f"{param.opts[0]}={value}"] if param.opts[0].startswith("--") else [param.opts[0], value]
    )


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_takes_or_refuses_what_is_hostile(name: str, stage: Stage) -> None:
    rng = random.Random(f"{SEED}/{name}")
    for words in lines_of(name, rng):
        file = rng.choice([_dumped(nested(DEEP)), "\0", "[" * 5_000, _dumped(SPEC)])
        code = stage.run(Line(tuple(words), file))
        assert name not in LONG or code not in {0, 1}, words


__all__ = ["stage"]
