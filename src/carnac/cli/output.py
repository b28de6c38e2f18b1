"""Where answers, notes and errors go: standard output for the answer, standard error for the rest."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO, TypeVar

from carnac.cli.tables import Column, columns_of, number_text, printable, render_table, text_width

Item = TypeVar("Item")

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Unwritten(OSError):
    """Standard output takes no more of the answer, for another reason than that its reader has gone."""


class Output:
    """The two streams of one run, looked up when they are written to.

    Attributes:
        is_json: The answer is one JSON document.
        is_colored: Terminals are shown colours.
    """

    def __init__(self, *, is_json: bool = False) -> None:
        self.is_json = is_json
        self.on_notice: Callable[[str], None] = self.note
        self.is_colored = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def stop_colors(self) -> None:
        """Write without colours from now on; libraries read NO_COLOR."""
        self.is_colored = False
        os.environ["NO_COLOR"] = "1"

    def json(self, value: object) -> None:
        """Print one JSON document."""
        self.line(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))

    def line(self, text: str = "") -> None:
        """Print one line of the answer.

        Raises:
            Unwritten: Nothing more can be written.
        """
        with _answering():
            print(text, file=sys.stdout)

    def flush(self) -> None:
        """Write what is still buffered of the answer.

        Raises:
            Unwritten: It cannot be written.
        """
        with _answering():
            sys.stdout.flush()

    def answer(self, document: object, text: str) -> None:
        """Print the document with `--json`, else the line."""
        if self.is_json:
            self.json(document)
        else:
            self.line(text)

    def table(
        self,
        columns: str | Sequence[Column],
        rows: Sequence[Sequence[str]],
        *,
        is_folded: bool = False,
    ) -> None:
        """Print a table; cut to the width of the terminal if there is one.

        Args:
            columns: Titles are as of `columns_of`.
            is_folded: A table that a terminal is too narrow for is printed row by row, each value on a line.
        """
        if isinstance(columns, str):
            columns = columns_of(columns)
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        lines = render_table(columns, rows, width=width)
        if is_folded and rows and width is not None and len(lines[1]) > width:
            self._fold(columns, rows)
            return
        self.line(self.style(lines[0], "bold"))
        self.line(self.style(lines[1], "dim"))
        for line in lines[2:]:
            self.line(line)

    def _fold(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        for number, row in enumerate(rows, start=1):
            self.line(self.style(f"row {number}", "bold"))
            values = (printable(cell, keep="") for cell in row)
            self.facts([*zip((column.title for column in columns), values, strict=True)])

    def first_rows(
        self,
        columns: str | Sequence[Column],
        found: Sequence[Item],
        row_of: Callable[[Item], Sequence[str]],
        limit: int,
    ) -> None:
        """Print a table of the first so many of what was found (0: of all), and how many more there are."""
        shown = found[: limit or None]
        self.table(columns, [row_of(one) for one in shown])
        if len(found) > len(shown):
            self.note(f"… and {number_text(len(found) - len(shown))} more; --limit 0 shows all")

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Print names and values, one pair a line, the values aligned."""
        shown = [(printable(name, keep=""), value) for name, value in facts]
        width = max((text_width(name) for name, _ in shown), default=0)
        for name, value in shown:
            pad = " " * (width - text_width(name))
            self.line(f"{self.style(name + pad, 'dim')}  {printable(value)}".rstrip())

    def note(self, text: str) -> None:
        """Say something beside the answer."""
        _say(self.style(printable(text), "dim", stream=sys.stderr))

    def notice(self, text: str) -> None:
        """Say what takes long, where progress is shown if it is."""
        self.on_notice(text)

    def warning(self, text: str) -> None:
        """Say what the user should know though it stopped nothing."""
        head = self.style("warning:", "yellow", stream=sys.stderr)
        _say(f"{head} {printable(text)}")

    def error(self, text: str) -> None:
        """Say what went wrong, in one sentence."""
        _say(f"{self.style('error:', 'red', stream=sys.stderr)} {printable(text)}")

    def style(self, text: str, *styles: str, stream: TextIO | None = None) -> str:
        """Return the text in colour, if the stream (standard output by default) is a terminal."""
        stream = stream or sys.stdout
        if not self.is_colored or not stream.isatty():
            return text
        codes = ";".join(_STYLES[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop(sys.stdout)
        raise Unwritten(error.errno, error.strerror) from error


def _say(text: str) -> None:
    """Write a line to standard error; a disk that takes none of it (`2> file`) ends no command."""
    try:
        print(text, file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError:
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Let what is still buffered go nowhere: it must not be flushed at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
