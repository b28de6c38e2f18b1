from __future__ import annotations

import errno
import os

import pytest

from carnac import __version__
from carnac.cli.command_line import _hoist, run
from carnac.cli.completion.line import first_word
from carnac.cli.session import known_failure
from carnac.errors import Invalid, Unavailable


@pytest.mark.parametrize(
    ("given", "hoisted"),
    [
        (["log"], ["log"]),
        (["log", "--store", "x"], ["--store", "x", "log"]),
        (["log", "--store=x", "--debug"], ["--store=x", "--debug", "log"]),
        (["sql", "SELECT 1", "--no-color"], ["--no-color", "sql", "SELECT 1"]),
        (["sql", "--", "--debug"], ["sql", "--", "--debug"]),
        (["log", "--store"], ["--store", "log"]),
        (["--store", "--debug", "log"], ["--store", "--debug", "log"]),
        (["delete", "x", "--where", "a = '--debug'"], ["delete", "x", "--where", "a = '--debug'"]),
    ],
)
def test_options_of_all_commands_may_stand_anywhere(given: list[str], hoisted: list[str]) -> None:
    assert _hoist(given) == hoisted


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (["log"], "log"),
        (["log", "--store", "x"], "log"),
        (["--store=x", "--debug", "log"], "log"),
        (["--store", "sql", "log"], "log"),
        (["locks", "break", "3"], "locks"),
        (["--help", "log"], None),
        (["--store"], None),
        (["--", "log"], None),
        ([], None),
    ],
)
def test_a_command_line_says_by_its_first_word_which_commands_to_load(
    given: list[str], word: str | None
) -> None:
    assert first_word(_hoist(given)) == word


@pytest.mark.parametrize("given", [["--version"], ["--debug", "--version", "log"]])
def test_the_version_is_shown_without_a_store(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(given, owns_process=False) == 0
    assert capsys.readouterr().out == f"carnac {__version__}\n"


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_place_where_nothing_may_be_written_is_the_users_to_choose(number: int) -> None:
    known = known_failure(OSError(number, os.strerror(number), "demo-output"))
    assert isinstance(known, Invalid)
    assert str(known).startswith(f"demo-output: {os.strerror(number).lower()}; choose a place")
    assert known_failure(OSError(number, os.strerror(number))) is None


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.EMFILE, os.strerror(errno.EMFILE), "a.parquet"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        RuntimeError("can't start new thread"),
        ImportError("_duckdb.so: failed to map segment from shared object"),
        ImportError("libarrow.so: cannot open shared object file: Too many open files"),
    ],
    ids=repr,
)
def test_a_limit_of_the_machine_is_not_an_error_inside(error: Exception) -> None:
    known = known_failure(error)
    assert isinstance(known, Unavailable)
    assert "raise the limit" in str(known)
    assert known_failure(RuntimeError("a bug")) is None
    assert known_failure(ImportError("no module named 'a'")) is None
