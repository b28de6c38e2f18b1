"""The commands, each in its module; `load` adds to the application those that a command line needs.

To import all of them takes as long as a query, so a command line that names one loads that one.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from carnac.cli.app import COMMANDS, CommandInfo, app
from carnac.cli.modules import MODULES

if TYPE_CHECKING:
    import typer


def load(word: str | None = None) -> typer.Typer:
    """Add the commands that begin with a word to the application; return it.

    Args:
        word: None, or one that no command begins with: all commands, for the help and for what was meant.
    """
    homes = [module for module, words in MODULES.items() if word in words]
    for module in homes or MODULES:
        import_module(f"{__name__}.{module}")
    return app


def built(word: str | None = None) -> Any:
    """Return the application that `load` gives, ready to be called; see there.

    Typer would make its commands and their options anew for each command line that a process runs, which takes ten
    times as long as a small command.
    """
    load(word)
    return _built(len(COMMANDS))


@lru_cache(maxsize=1)
def _built(commands: int) -> Any:  # noqa: ARG001 - when there are more of them, it is made again
    from typer.main import get_command

    return get_command(app)


def all_commands() -> dict[str, CommandInfo]:
    """Load every command; return them by name, in the order of the help page."""
    load()
    words = [word for words in MODULES.values() for word in words]
    return dict(sorted(COMMANDS.items(), key=lambda item: words.index(item[0].split()[0])))
