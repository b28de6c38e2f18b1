"""From a command line to an exit code: every failure becomes one sentence."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from carnac.cli.app import ReaderGone
from carnac.cli.completion.line import FLAGS, VALUED, first_word, words_before
from carnac.cli.output import Unwritten, drop
from carnac.cli.session import NO_SPACE, Session
from carnac.cli.signals import EXIT_PUBLISHED
from carnac.core.texts import check_text
from carnac.errors import Invalid

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def run(args: Sequence[str], *, owns_process: bool) -> int:
    """Run one command line; return its exit code.

    Args:
        owns_process: The process ends with the command line.
    """
    given = list(args)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character must not end a command.
            stream.reconfigure(errors="backslashreplace")
    session = Session(wants_json="--json" in given, owns_process=owns_process)
    if "--debug" not in given:
        _silence_libraries()
    interruption = session.interruption
    if owns_process:
        interruption.listen()
    try:
        code = _do(given, session)
        interruption.end()
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    finally:
        interruption.leave()
    if interruption.number is None and code != EXIT_INTERRUPTED:
        return code
    with contextlib.suppress(OSError):  # the terminal may be what is gone
        session.output.note(interruption.sentence)
    # Of `python -m carnac`: if Ctrl-C came while a text was run (as `dataclass` does), Python ends by SIGINT whatever
    # the exit code is, unless another text was run since.
    exec("")  # noqa: S102
    return interruption.exit_code


def _do(given: Sequence[str], session: Session) -> int:
    """Run the command line, and say what went wrong if it did not end in an interruption."""
    try:
        code = _run(_hoist(given), session)
        session.output.flush()
    except Exception as error:
        if session.interruption.number is None:
            return _explain(error, session)
        if session.is_debug:  # libraries may have made another exception of the interruption
            traceback.print_exception(error, file=sys.stderr)
        return EXIT_INTERRUPTED
    return code


def _explain(error: Exception, session: Session) -> int:
    """Say what went wrong in one sentence; return the exit code."""
    if isinstance(error, BrokenPipeError | ReaderGone):
        # The reader of our output has seen enough.
        drop(sys.stdout)
        return EXIT_BROKEN_PIPE
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        drop(sys.stdout)
    try:
        if isinstance(error, Unwritten) and (done := session.interruption.done):
            session.output.error(f"{done}; only the report could not be written")
            return EXIT_PUBLISHED
        code = session.show_failure(error)
        with contextlib.suppress(Unwritten):
            session.output.flush()
    except BrokenPipeError:
        drop(sys.stdout)
        return EXIT_BROKEN_PIPE
    return code


def _silence_libraries() -> None:
    """Keep what libraries log (py4j, when it is interrupted) off the terminal: we say it in one sentence."""
    import logging

    if not logging.root.handlers:
        logging.root.addHandler(logging.NullHandler())


def _run(args: Sequence[str], session: Session) -> int:
    from carnac.cli.commands import built

    for arg in args:
        check_text(arg, "an argument of the command line")
    completed = words_before(os.environ)
    app = built(first_word(args if completed is None else completed))
    try:
        code = app(args=list(args), prog_name="carnac", obj=session, standalone_mode=False)
    except SystemExit as exit_:
        if isinstance(exit_.code, int):
            return exit_.code
        return 0 if exit_.code is None else 1
    except Exception as error:
        if _is_unanswered(error):
            raise Invalid("the input ended at a question, so nothing was done") from error
        if not _is_about_words(error):
            raise
        context: Any = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":  # Typer has printed the help as it made it
            return Invalid.exit_code
        raise Invalid(_sentence(error, context)) from error
    return code if isinstance(code, int) else 0


def _is_about_words(error: Exception) -> bool:
    """Whether Typer does not take the command line; it names only the narrowest kind of such errors."""
    import typer

    return isinstance(error, typer.BadParameter.__mro__[1])


def _is_unanswered(error: Exception) -> bool:
    """Whether the input ended (Ctrl-D) at a question."""
    import typer

    return isinstance(error, typer.Abort)


def _sentence(error: Any, context: Any) -> str:
    """Return what Typer says of a command line as one sentence that says where to read on."""
    text = (
        " ".join(error.format_message().split())
        .rstrip(".")
        .replace(": Input should", ": it should")
        .replace(". Did you mean", "; did you mean")
    )
    page = "carnac" if context is None else context.command_path
    end = " " if text.endswith("?") else "; "
    return f"{text[:1].lower()}{text[1:]}{end}for help: {page} --help"


def _hoist(args: Sequence[str]) -> list[str]:
    """Move the options that every command takes to the front, so that they may stand anywhere before `--`."""
    front: list[str] = []
    rest: list[str] = []
    left = list(args)
    while left:
        arg = left.pop(0)
        if arg == "--":
            rest += [arg, *left]
            break
        name, equals, _ = arg.partition("=")
        if arg in FLAGS or (equals and name in VALUED):
            front.append(arg)
        elif arg in VALUED:
            front += [arg, *left[:1]]
            left = left[1:]
        else:
            rest.append(arg)
    return front + rest
