"""The prompt's own commands, which begin with a dot."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from carnac.cli.prompt.statements import LEAVING
from carnac.errors import Invalid
from carnac.query.messages import did_you_mean


class Expects(Enum):
    """The argument that a command expects."""

    NOTHING = auto()
    DATASOURCE = auto()
    MOMENT = auto()


@dataclass(frozen=True, slots=True)
class DotCommand:
    """A command of the prompt.

    Attributes:
        shown: The command with what it takes, as the help shows it.
    """

    name: str
    shown: str
    help: str
    expects: Expects = Expects.NOTHING

    @classmethod
    def find(cls, name: str) -> DotCommand | None:
        """Return the command of that name, or None."""
        return next((one for one in DOT_COMMANDS if one.name == name), None)


TABLES = DotCommand(".tables", ".tables", "The datasources, with their rows and their time.")
SCHEMA = DotCommand(
    ".schema", ".schema NAME", "The columns of a datasource and their types.", Expects.DATASOURCE
)
AT = DotCommand(
    ".at",
    ".at REVISION|TIME|TAG",
    "Ask at that revision from now on; alone: at the newest again.",
    Expects.MOMENT,
)
HELP = DotCommand(".help", ".help", "This list.")
QUIT = DotCommand(".quit", ".quit", "End, as Ctrl-D does.")

DOT_COMMANDS = (TABLES, SCHEMA, AT, HELP, QUIT)
"""In the order of the help."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A command as it was typed.

    Attributes:
        about: The text after its name; empty: none.
    """

    command: DotCommand
    about: str


def parse_dot_command(text: str) -> Asked:
    """Return what was asked of the prompt.

    Raises:
        Invalid: There is no such command, or it takes something else.
    """
    name, _, about = text.strip().rstrip(";").strip().partition(" ")
    about = about.strip().strip('"')
    if name.lower() in LEAVING:
        return Asked(QUIT, "")
    command = DotCommand.find(name.lower())
    if command is None:
        known = [one.name for one in DOT_COMMANDS]
        raise Invalid(f"there is no command '{name}'{did_you_mean(name, known)}")
    if about and command.expects is Expects.NOTHING:
        raise Invalid(f"{command.name} takes nothing, and '{about}' was given")
    if not about and command.expects is Expects.DATASOURCE:
        raise Invalid(f"say which datasource: {command.shown}; .tables lists them")
    return Asked(command, about)
