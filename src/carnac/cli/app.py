"""The Typer application and the decorator that adds a command to it.

Modules of commands import nothing heavy at the top: the command line is assembled on every start.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from carnac import __version__
from carnac.cli.modules import MODULES
from carnac.cli.options import flag, option
from carnac.cli.session import Session

F = TypeVar("F", bound=Callable[..., Any])

_CTX = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
_AS_JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, flag("--json", "Print one JSON document.")],
)

START = "Start here"
LOAD = "Load"
ASK = "Ask"
LOOK = "Look"
UNDO = "Undo and delete"
TIDY = "Keep tidy"
RUN = "Run"
SIMULATE = "Balance and simulate"

PANELS = (START, LOAD, ASK, LOOK, UNDO, TIDY, RUN, SIMULATE)
"""The groups of commands by goal, in the order of the help."""

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class ReaderGone(Exception):
    """The reader of standard output has closed it; Typer would turn a BrokenPipeError into exit code 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandInfo:
    """A command, for the reference page and its test.

    Attributes:
        name: As typed, without `carnac`: `sql`, `lookups set`.
        examples: Lines to paste.
        module: Module of the command.
    """

    name: str
    panel: str
    examples: tuple[str, ...]
    module: str


COMMANDS: dict[str, CommandInfo] = {}

_panels: dict[str, str] = {}


class _Command(TyperCommand):
    """A command whose help names its parameters as the reference page does; Typer adds types and braces."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` among them."""
        return _without_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the library hands it over
        """Return what may follow the command's name."""
        return ["[OPTIONS]", *argument_words(self)]


class _Group(TyperGroup):
    """A group of commands, with help like theirs."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` among them."""
        return _without_types(super().get_params(ctx))


def argument_words(command: Any) -> list[str]:
    """Return the arguments of a command as its usage has them: `DATASOURCE [FILE...]`."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    return [one.metavar if one.required else f"[{one.metavar}]" for one in arguments]


def _without_types(params: list[Any]) -> list[Any]:
    for one in params:
        if one.param_type_name == "argument":
            one.display_type_rich = lambda ctx: None  # noqa: ARG005
        elif one.is_flag:
            one.metavar = ""
    return params


_LOOKS: dict[str, Any] = {"cls": _Command, "context_settings": _CONTEXT}


class _InOrder(_Group):
    """Lists commands and groups panel by panel, whatever was loaded first; Typer would list all groups last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names as the help shows them."""
        words = [word for words in MODULES.values() for word in words]
        return sorted(
            super().list_commands(ctx),
            key=lambda name: (PANELS.index(_panels.get(name, TIDY)), words.index(name)),
        )


app = typer.Typer(
    name="carnac",
    cls=_InOrder,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings=_CONTEXT,
    add_completion=True,
)
_groups: dict[str, typer.Typer] = {}


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"carnac {__version__}")
        raise typer.Exit


@app.callback()
def root(  # noqa: PLR0917 - Typer hands them over by name
    ctx: typer.Context,
    store: Annotated[
        str | None,
        option(
            "--store PLACE",
            "The store: a directory or a URL. Default: CARNAC_STORE, carnac.toml, else carnac-store.",
        ),
    ] = None,
    overlord: Annotated[
        str | None,
        option(
            "--overlord URL",
            "Of an overlord: `carnac task` asks it, and needs no way to the store.",
        ),
    ] = None,
    debug: Annotated[bool, flag("--debug", "Show tracebacks of errors.")] = False,
    no_color: Annotated[bool, flag("--no-color", "No colours, as NO_COLOR does.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool, flag("--version", "Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """An event store for teams who run Spark: immutable segments, one commit log, time travel and SQL.

    --store, --overlord, --debug and --no-color may stand anywhere on the line.
    """
    session = session_of(ctx)
    session.store_name = store
    session.overlord_url = overlord
    session.is_debug = debug
    if no_color:
        session.output.stop_colors()


def session_of(ctx: typer.Context) -> Session:
    """Return what the commands of this run share."""
    session = ctx.find_object(Session)
    if session is None:
        session = ctx.obj = Session()
    return session


def add_group(name: str, help_text: str | None, *, panel: str) -> None:
    """Add a group of commands, such as `lookups`.

    Args:
        help_text: None: the group is a command itself, added later by its name, whose help is that of the group.
    """
    group = typer.Typer(
        name=name,
        cls=_Group,
        no_args_is_help=help_text is not None,
        rich_markup_mode="rich",
        context_settings=_CONTEXT,
    )
    if help_text is None:
        app.add_typer(group, rich_help_panel=panel)
    else:
        app.add_typer(group, help=help_text, rich_help_panel=panel)
    _groups[name] = group
    _panels[name] = panel


def command(
    name: str,
    *,
    panel: str,
    examples: Sequence[str],
    publishes: bool = False,
    changes: bool = False,
    has_json: bool = True,
) -> Callable[[F], F]:
    """Add a command, whose first argument is the session; its docstring and the examples are its help.

    Args:
        name: As typed, without `carnac`; `lookups set` goes to the group `lookups`.
        examples: Whole lines that work when pasted, given a store with the demo's data.
        publishes: The command publishes its changes; an interruption says whether it has.
        changes: The command changes something that is not published, and would change it again if it were repeated.
        has_json: The command has the option `--json`; its code asks `Output.is_json` before it prints.
    """
    group, _, leaf = name.rpartition(" ")
    target = _groups[group] if group else app

    def add(function: F) -> F:
        help_text = _help_text(function, examples)

        @functools.wraps(function)
        def guarded(ctx: typer.Context, **given: Any) -> object:
            session = session_of(ctx)
            session.interruption.publishes = session.interruption.publishes or publishes
            session.interruption.changes = changes
            if ctx.invoked_subcommand is not None:  # one of the group's own follows
                return None
            if has_json:
                session.output.is_json = bool(given.pop(_AS_JSON.name))
            try:
                return function(session, **given)
            except BrokenPipeError as error:
                raise ReaderGone from error

        _show_parameters(guarded, function, [_AS_JSON] if has_json else [])
        if name in _groups:
            _groups[name].callback(
                invoke_without_command=True, help=help_text, context_settings=_CONTEXT
            )(guarded)
        else:
            own_panel = None if group else panel
            target.command(leaf, help=help_text, rich_help_panel=own_panel, **_LOOKS)(guarded)
        _panels.setdefault(name, panel)
        COMMANDS[name] = CommandInfo(
            name=name, panel=panel, examples=tuple(examples), module=function.__module__
        )
        return function

    return add


def hidden_command(name: str) -> Callable[[F], F]:
    """Add a command that people do not call: it is on no page."""
    group, _, leaf = name.rpartition(" ")

    def add(function: F) -> F:
        @functools.wraps(function)
        def called(ctx: typer.Context, **given: Any) -> object:
            return function(session_of(ctx), **given)

        _show_parameters(called, function)
        _groups[group].command(leaf, hidden=True, context_settings=_CONTEXT)(called)
        return function

    return add


def _show_parameters(
    called: Callable[..., object],
    function: Callable[..., Any],
    more: Sequence[inspect.Parameter] = (),
) -> None:
    """Let Typer see the parameters of a command: its own, but the context in place of the session."""
    signature = inspect.signature(function, eval_str=True)
    _, *own = signature.parameters.values()
    called.__signature__ = signature.replace(parameters=[_CTX, *own, *more])  # type: ignore[attr-defined]


def _help_text(function: Callable[..., Any], examples: Sequence[str]) -> str:
    text = (function.__doc__ or "").strip()
    lines = "\n".join(f"  {line}".replace("[", r"\[") for line in examples)
    title = "Example" if len(examples) == 1 else "Examples"
    return f"{_unwrap(text)}\n\n\b\n{title}:\n{lines}"


def _unwrap(text: str) -> str:
    """Join the lines of each paragraph, so that help is filled to the width of the terminal."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return "\n\n".join(paragraphs)
