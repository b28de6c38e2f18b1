"""The shared state of the commands of one command line: settings, the store, the output."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from carnac.cli.output import Output, Unwritten
from carnac.cli.signals import Interruption
from carnac.clock import StoreClock
from carnac.core.texts import cut
from carnac.errors import CarnacError, Invalid, Unavailable

if TYPE_CHECKING:
    from carnac.config import Settings
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock
    from carnac.store import Store

EXIT_INTERNAL = 70
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LIMITED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
_SAID_OF_LIMITS = (
    "failed to map segment",  # of a library, by the loader of the C library
    "can't start new thread",
    *(os.strerror(number) for number in _LIMITED),
)
_NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)
_NO_PLACE = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
_NAME_SHOWN = 100


class Session:
    """One run of the command line.

    Attributes:
        store_name: Value of `--store`; None: as the settings say.
        overlord_url: Value of `--overlord`; None: as the settings say.
        is_debug: Show tracebacks.
        owns_process: The process ends with the command line; nobody else uses the libraries that it loads.
        interruption: The signal that interrupted it, if one did.
    """

    def __init__(
        self, *, wants_json: bool = False, owns_process: bool = False, clock: Clock | None = None
    ) -> None:
        self.store_name: str | None = None
        self.overlord_url: str | None = None
        self.is_debug = False
        self.owns_process = owns_process
        self.interruption = Interruption()
        self.clock = clock or StoreClock()
        self.output = Output(is_json=wants_json)
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """The settings from `carnac.toml`, the environment and the command line."""
        if self._settings is None:
            from carnac.config import load_settings

            overrides = {"store": self.store_name, "overlord": self.overlord_url}
            self._settings = load_settings(os.environ, directory=Path.cwd(), overrides=overrides)
        return self._settings

    @property
    def shown_store(self) -> str:
        """The name of the store for people: without the password of a URL."""
        return str(self.settings.store)

    def open_store(
        self,
        *,
        create: bool = False,
        deep_storage: str | None = None,
        gives_way: bool = False,
        query_timeout_ms: int | None = None,
    ) -> Store:
        """Open the store that the command is about.

        Args:
            create: Make it if it is not there.
            deep_storage: Deep storage of a new store, in place of the settings'.
            gives_way: Nobody waits for the work of Spark here.
            query_timeout_ms: Limit in place of the settings'; 0: no limit.

        Raises:
            NotFound: There is none.
        """
        from carnac.bootstrap.spark import giving_way
        from carnac.bootstrap.store import open_store

        settings = giving_way(self.settings) if gives_way else self.settings
        if deep_storage is not None:
            settings = settings.model_copy(update={"deep_storage": deep_storage})
        if query_timeout_ms is not None:
            settings = settings.model_copy(update={"query_timeout_ms": query_timeout_ms})
        return open_store(
            create=create,
            settings=settings,
            on_notice=self.output.notice,
            is_for_users=not self.owns_process,
        )

    def open_records(self) -> MetadataStore:
        """Open the metadata of the store that the command is about, and nothing else of it, for a `with` block."""
        from carnac.bootstrap.store import open_records

        return open_records(settings=self.settings, clock=self.clock)

    @property
    def is_at_terminal(self) -> bool:
        """Whether somebody can be asked."""
        return not self.output.is_json and sys.stdin.isatty() and sys.stderr.isatty()

    def allows(self, question: str, *, yes: bool = False) -> bool:
        """Ask for a confirmation at a terminal, unless it was given; elsewhere nobody is asked."""
        return yes or not self.is_at_terminal or typer.confirm(question, err=True)

    def show_failure(self, error: Exception) -> int:
        """Say what went wrong in one sentence; return the exit code."""
        known = known_failure(error)
        if known is None:
            self.show_internal_error(error)
            return EXIT_INTERNAL
        self.show_error(known)
        return known.exit_code

    def show_error(self, error: CarnacError) -> None:
        """Say on standard error what went wrong; with `--json` also on standard output, for programs."""
        if self.is_debug:
            traceback.print_exception(error, file=sys.stderr)
        if self.output.is_json:
            ids = {key: _plain(value) for key, value in error.ids.items()}
            with suppress(Unwritten):
                self.output.json(
                    {"error": {"kind": error.kind, "message": error.message, "ids": ids}}
                )
        self.output.error(error.message)

    def show_internal_error(self, error: Exception) -> None:
        """Say that Carnac itself is wrong."""
        text = f"internal error: {type(error).__name__}: {_first_line(error)}"
        if self.output.is_json:
            with suppress(Unwritten):
                self.output.json({"error": {"kind": "internal", "message": text, "ids": {}}})
        if self.is_debug:
            traceback.print_exception(error, file=sys.stderr)
            self.output.error(text)
        else:
            self.output.error(f"{text}; run with --debug to see where, and report it")


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"


def _has_reached_a_limit(error: Exception) -> bool:
    """Whether the machine, or its user, gives this process no more memory, threads or files."""
    if isinstance(error, OSError):
        return error.errno in _LIMITED
    if isinstance(error, ImportError | RuntimeError):
        return any(said in str(error) for said in _SAID_OF_LIMITS)
    return isinstance(error, MemoryError)


def known_failure(error: Exception) -> CarnacError | None:
    """Return the error that a user can do something about; None: Carnac itself is wrong."""
    if isinstance(error, CarnacError):
        return error
    if _has_reached_a_limit(error):
        return Unavailable(
            f"this process may not have as much as the command needs ({str(error) or 'memory'}); raise the limit of "
            "its memory, threads or open files (ulimit -v, -u, -n), or free some"
        )
    if not isinstance(error, OSError):
        return None
    if error.errno in NO_SPACE:
        place = f" ({error.filename})" if error.filename else ""
        return Unavailable(f"there is no space left to write to{place}; make some and try again")
    if error.errno in _NOT_ALLOWED and error.filename:
        reason = (error.strerror or "not allowed").lower()
        return Invalid(
            f"{error.filename}: {reason}; choose a place that this user can read and write"
        )
    if error.errno in _NO_PLACE and error.filename:
        reason = (error.strerror or "no such place").lower()
        name = cut(os.fspath(error.filename), _NAME_SHOWN)
        return Invalid(f"{name}: {reason}; choose another name")
    return None
