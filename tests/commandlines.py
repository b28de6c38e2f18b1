"""Every command of the command line, found by asking it, with lines to type: for tests that look at all of them."""

from __future__ import annotations

import shlex
from functools import cache
from typing import Any

from carnac.cli.commands import all_commands
from carnac.errors import CarnacError
from scripts.docs.cli_page import click_commands

RUNS_ON = frozenset(("overlord", "serve"))
"""Commands that go on until they are told to end."""
SHORTER = {
    "demo cluster": ("demo cluster --help",),
    "balance simulate": ("balance simulate --print-scenario",),
    "compaction simulate": ("compaction simulate --days 1",),
    "simulate cluster": ("simulate cluster --seed 7 --steps 2 --trace seed-7.txt",),
}
"""In place of examples that simulate or show something for minutes, in stores of their own."""
NO_SPARK = "spark://127.0.0.1:1"
"""A master that refuses at once, so that no line starts a JVM."""
EXIT_CODES = frozenset((0, 1, *(kind.exit_code for kind in CarnacError.__subclasses__())))
"""Exit codes that any command line may have; 70 is an error inside Carnac."""


@cache
def commands() -> dict[str, Any]:
    """Return every command that ends by itself, by name."""
    return {name: one for name, one in click_commands().items() if name not in RUNS_ON}


@cache
def examples() -> tuple[tuple[str, ...], ...]:
    """Return what the help of every command has people paste, as arguments."""
    infos = all_commands()
    lines = [line for name in commands() for line in SHORTER.get(name, infos[name].examples)]
    words = [
        shlex.split(one.rpartition("| ")[2].partition(" > ")[0].partition(" < ")[0])
        for one in lines
    ]
    return tuple(tuple(one[one[0] == "carnac" :]) for one in words)
