"""`docs/reference/cli.md`: every command with its arguments, options and examples, as the application knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from carnac.cli.app import PANELS, CommandInfo, argument_words
from carnac.cli.commands import all_commands, built
from carnac.errors import AllRejected, CarnacError

_INTRO = """\
# Command line

<!-- Made by `make docs`; do not edit. -->

This page lists every command with its options, and the exit codes. `carnac COMMAND --help` prints the same,
`carnac --version` the version. Standard output carries the answer; notes, progress and errors go to standard error.
`--store PLACE`, `--debug` and `--no-color` may stand anywhere on the line. The store is also found by `CARNAC_STORE`
and [`carnac.toml`](settings.md); the default is the directory `carnac-store`.

A REVISION is a number, a time (`2013-05-01T12:00`: the last revision published by then), or a tag. An interval is
`start/end` in ISO 8601 and UTC, its end excluded: `2013-02-01/2013-03-01`, `2013-02/P1M`.

## JSON

With `--json` standard output is one JSON document. Names are those of the [Python API](python.md), in snake_case;
instants are ISO 8601 in UTC with milliseconds and lose the `_ms` of their name (`at_ms` is `"at"`); intervals are
`"start/end"`; sizes are bytes. An error is `{"error": {"kind": …, "message": …, "ids": {…}}}`, beside the sentence on
standard error.

## Exit codes

| code | kind | meaning |
|---:|---|---|
| 0 | | done |
| 1 | | `demo`: a count differs from the source; `doctor`: something is a problem |
"""


def render() -> str:
    """Return the page, as Markdown."""
    parts = [_INTRO + "\n".join(_exit_codes()) + "\n"]
    infos, commands = all_commands(), click_commands()
    for panel in PANELS:
        parts.append(f"## {panel}\n")
        parts += [
            _command(name, info, commands[name])
            for name, info in infos.items()
            if info.panel == panel
        ]
    return "\n".join(parts)


def click_commands() -> dict[str, Any]:
    """Return every command as the library below sees it, by name."""
    return dict(_walk(built(), ""))


def _exit_codes() -> Iterator[str]:
    rows = []
    kinds: list[type[CarnacError]] = [*CarnacError.__subclasses__(), AllRejected]
    for kind in kinds:
        meaning = (kind.__doc__ or "").strip().rstrip(".")
        if kind.exit_code == 2:
            meaning += "; also a wrong command line"
        rows.append((kind.exit_code, kind.kind, meaning))
    yield from (f"| {code} | `{kind}` | {meaning} |" for code, kind, meaning in sorted(rows))
    yield "| 70 | | an error inside Carnac; `--debug` shows where |"
    yield "| 10 | | interrupted by Ctrl-C, SIGTERM or SIGHUP, after it had published: the message names the revisions |"
    yield "| 10 | | done, and perhaps published, but the report could not be written: do not repeat it |"
    yield "| 11 | | interrupted a second time in the middle of a commit: `carnac log` says whether it is there |"
    yield "| 130 | | interrupted by Ctrl-C; nothing was published |"
    yield "| 143, 129 | | ended by SIGTERM, by a terminal that was closed (SIGHUP); likewise |"
    yield "| 141 | | the reader of the output went away |"


def _walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for key, child in getattr(command, "commands", {}).items():
        if child.hidden:
            continue
        full = f"{name} {key}".strip()
        if hasattr(child, "commands"):
            if full in all_commands():
                yield full, child
            yield from _walk(child, full)
        else:
            yield full, child


def _command(name: str, info: CommandInfo, command: Any) -> str:
    text, _, _ = (command.help or "").partition("\b")
    usage = [f"carnac {name}"]
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    usage += argument_words(command)
    if options:
        usage.append("[OPTIONS]")
    lines = [f"### {name}", "", text.strip(), "", "```", " ".join(usage), "```", ""]
    if arguments or options:
        lines += ["| | | default |", "|---|---|---|"]
        lines += [_parameter(param) for param in (*arguments, *options)]
        lines.append("")
    lines += ["```sh", *info.examples, "```", ""]
    return "\n".join(lines)


def _parameter(param: Any) -> str:
    if param.param_type_name == "argument":
        name = f"`{param.metavar}`"
    else:
        spelled = ", ".join(f"`{option}`" for option in (*param.opts, *param.secondary_opts))
        name = f"{spelled} `{param.metavar}`" if param.metavar else spelled
    default = param.default
    shown = (
        ""
        if default is None or default is False or default == "" or param.required
        else f"`{default}`"
    )
    help_text = (param.help or "").replace("|", "\\|")
    return f"| {name} | {help_text} | {shown} |"
