"""The prompt: reads statements from the terminal, runs them, shows what they gave, until it is left."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from carnac import __version__
from carnac.cli.answers import print_table
from carnac.cli.prompt.commands import (
    AT,
    DOT_COMMANDS,
    HELP,
    QUIT,
    SCHEMA,
    Asked,
    parse_dot_command,
)
from carnac.cli.prompt.completing import StatementCompleter, StoreNames
from carnac.cli.prompt.statements import is_dot_command, is_whole, split_statements
from carnac.cli.signals import Stopped
from carnac.cli.tables import columns_of, format_seconds, number_text, second_ms, short_ms
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.core.segments.sql_columns import SQL_TYPE

if TYPE_CHECKING:
    from carnac.cli.session import Session
    from carnac.store import Store


_CONTROLS = 6
"""Index in `termios.tcgetattr` of the keys that the terminal itself acts on."""


@contextmanager
def ctrl_d_kept() -> Iterator[None]:
    """Let the terminal take Ctrl-D as a key like any other, also while no prompt reads keys.

    A terminal that collects lines makes a mark of Ctrl-D; once keys are read one by one, Linux hands that out as
    the byte 0, which no prompt can know from Ctrl-Space. Standard input that is no terminal is left alone.
    """
    try:
        there = sys.stdin.fileno()
        before = termios.tcgetattr(there)
        nothing = os.fpathconf(there, "PC_VDISABLE")
    except (OSError, ValueError, termios.error):
        yield
        return
    keeping = list(before)
    keeping[_CONTROLS] = list(before[_CONTROLS])
    keeping[_CONTROLS][termios.VEOF] = bytes([nothing])
    termios.tcsetattr(there, termios.TCSANOW, keeping)
    try:
        yield
    finally:
        with suppress(termios.error):  # a terminal that is gone
            termios.tcsetattr(there, termios.TCSANOW, before)


ENTRIES_MAX = 2_000
"""Maximum number of kept entries; older ones are removed when a prompt starts."""
FILE_NAME = "sql-history"


def history_file(environ: Mapping[str, str]) -> Path:
    """Return the file: in `XDG_STATE_HOME`, else `.local/state` in the home directory."""
    home = Path(environ.get("HOME") or "~").expanduser()
    states = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state")
    return states / "carnac" / FILE_NAME


class KeptHistory(FileHistory):
    """Entries in a file that this user alone can read: statements may name what others must not see.

    Where the file cannot be read or written, entries live as long as the prompt.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._shorten()

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first."""
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        """Keep an entry."""
        with suppress(OSError):
            super().store_string(string)

    def _shorten(self) -> None:
        """Drop the oldest entries beyond the limit; the file is replaced as a whole."""
        entries = list(self.load_history_strings())
        if len(entries) <= ENTRIES_MAX:
            return
        beside = self._path.with_name(f"{FILE_NAME}.{os.getpid()}")
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        shorter = FileHistory(str(beside))
        for entry in reversed(entries[:ENTRIES_MAX]):
            shorter.store_string(entry)
        beside.replace(self._path)


NAME = "carnac"


def run_prompt(session: Session, store: Store, *, at: str | None, rows_max: int | None) -> None:
    """Read and run statements until the user leaves.

    Args:
        at: Revision that statements read at first; None: the newest one.
        rows_max: Most rows to show of each answer; None: all.
    """
    Prompt(session, store, at=at, rows_max=rows_max).run()


class Prompt:
    """One sitting at the prompt."""

    def __init__(
        self,
        session: Session,
        store: Store,
        *,
        at: str | None,
        rows_max: int | None,
    ) -> None:
        self._session = session
        self._output = session.output
        self._store = store
        self._at = at
        self._rows_max = rows_max
        self._is_left = False

    def run(self) -> None:
        """Read and run until `.quit`, Ctrl-D, or a signal that ends the process."""
        head = self._store.resolve(self._at)
        self._output.note(
            f"{NAME} {__version__}, {self._session.shown_store} at revision {head.revision}; a statement ends with ; "
            "and .help lists the rest"
        )
        with ctrl_d_kept():
            self._read_and_run(self._asker())

    def _read_and_run(self, ask: Callable[[], str]) -> None:
        while not self._is_left:
            try:
                typed = ask()
                self._session.interruption.heed()
                self._do(typed)
            except Stopped:
                raise
            except KeyboardInterrupt:  # Ctrl-C while typing: the line is dropped
                self._cancelled()
            except EOFError:
                return

    def _asker(self) -> Callable[[], str]:
        names = StoreNames(self._store, lambda: self._at)
        prompt: PromptSession[str] = PromptSession(
            history=KeptHistory(history_file(os.environ)),
            completer=StatementCompleter(names),
            complete_while_typing=False,
            complete_in_thread=True,
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation=lambda width, _line, _is_wrapped: "> ".rjust(width),
            enable_open_in_editor=True,
        )
        # A handler of its own would stay while the terminal is left already, and take Ctrl-C for nothing.
        return lambda: prompt.prompt(self._shown_prompt(), handle_sigint=False)

    def _shown_prompt(self) -> FormattedText:
        where = "" if self._at is None else f"@{self._at}"
        return FormattedText([("bold" if self._output.is_colored else "", f"{NAME}{where}> ")])

    def _do(self, typed: str) -> None:
        """Run the typed command or statements; a failure is shown, and the prompt goes on."""
        if is_dot_command(typed):
            self._try(lambda: self._obey(parse_dot_command(typed)))
            return
        statements, _ = split_statements(typed)
        for statement in statements:
            if not self._try(lambda text=statement: self._ask(text)):  # type: ignore[misc]
                return

    def _try(self, work: Callable[[], None]) -> bool:
        """Do something; return whether it went well."""
        try:
            work()
        except (Stopped, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            self._cancelled()
            return False
        except Exception as error:
            self._session.show_failure(error)
            return False
        return True

    def _cancelled(self) -> None:
        """Go on after Ctrl-C; a signal, not the key, came to something that was entered already."""
        if self._session.interruption.number is not None:
            self._session.interruption.forget()
            self._output.note("cancelled")

    def _ask(self, statement: str) -> None:
        clock = self._session.clock
        started_ms = clock.now_ms()
        result = self._store.sql(statement, at=self._at)
        took = format_seconds(max(0, clock.now_ms() - started_ms) / 1000)
        print_table(self._output, result, self._rows_max, took=took)

    def _obey(self, asked: Asked) -> None:
        if asked.command is QUIT:
            self._is_left = True
        elif asked.command is HELP:
            self._output.facts([(one.shown, one.help) for one in DOT_COMMANDS])
            self._output.note(
                "Tab completes, the arrows go through history, Ctrl-R searches it, Ctrl-C cancels a statement"
            )
        elif asked.command is AT:
            self._move(asked.about or None)
        elif asked.command is SCHEMA:
            self._show_schema(asked.about)
        else:
            self._show_tables()

    def _move(self, at: str | None) -> None:
        head = self._store.resolve(at)
        self._at = at
        published = f", published {second_ms(head.at_ms)} UTC" if head.revision else ""
        self._output.note(f"at revision {head.revision}{published}")

    def _show_tables(self) -> None:
        infos = self._store.datasources(at=self._at)
        rows = [
            [
                info.name,
                number_text(info.rows),
                short_ms(info.interval.start_ms) if info.interval else "",
                short_ms(info.interval.end_ms - 1) if info.interval else "",
            ]
            for info in infos
        ]
        columns = columns_of("datasource | rows# | first row (UTC)! | last row (UTC)!")
        self._output.table(columns, rows)

    def _show_schema(self, datasource: str) -> None:
        columns = self._store.columns(datasource, at=self._at)
        rows = [
            [TIME_COLUMN, "TIMESTAMP WITH TIME ZONE"],
            *([name, SQL_TYPE[ColumnType(kind)]] for name, kind in columns.items()),
        ]
        self._output.table("column | type!", rows)


def _keys() -> KeyBindings:
    """Return the binding of Enter: a whole statement is run, a line follows one that is not whole."""
    keys = KeyBindings()

    @keys.add("enter", filter=has_focus(DEFAULT_BUFFER))
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None  # the chosen completion stays
        elif is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    return keys
