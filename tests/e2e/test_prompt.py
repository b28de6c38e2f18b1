"""`carnac sql` alone, at a real terminal: typing, completion, Ctrl-C, signals; and where there is no terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli import run_process
from tests.e2e.conftest import Run
from tests.terminals import Terminal, at_terminal
from tests.waiting import until

PROMPT = r"carnac>"
ENDLESS = "SELECT x FROM range(100000000000) t(x) WHERE x % 7 = 9"
"""Rows that never come: the engine looks for them without a step of Python between."""


def test_what_was_waited_for_is_not_found_again() -> None:
    mine, theirs = pty.openpty()
    with subprocess.Popen(["sleep", "60"]) as program:
        terminal = Terminal(mine, program)
        os.write(theirs, b"carnac> SELECT 1; 1 row carnac> ")
        found = [terminal.wait_for(PROMPT).start() for _ in range(2)]
        program.kill()
    os.close(mine)
    os.close(theirs)
    assert found == [0, 24], "the second prompt, not the first one again"


@pytest.fixture
def terminal(store: Path, tmp_path: Path) -> Iterator[Terminal]:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state"), "CARNAC_STORE": str(store)}
    with at_terminal(["sql"], cwd=tmp_path, environ=environ) as opened:
        opened.wait_for(PROMPT)
        yield opened


def test_a_statement_over_two_lines_is_answered(terminal: Terminal) -> None:
    terminal.type("SELECT carrier, count(*) AS n FROM flights\r")
    terminal.wait_for(r"\n {4,}>")
    terminal.type("GROUP BY 1 ORDER BY 1;\r")
    found = terminal.wait_for(r"AA +(\d+)\s+UA +(\d+)\s")
    assert int(found[1]) + int(found[2]) == 17
    terminal.wait_for(r"2 rows at revision 3, 3 of 3 segments read, \d")
    terminal.wait_for(PROMPT)
    terminal.type("\x04")
    assert terminal.end() == 0
    assert not terminal.is_raw


def test_ctrl_d_while_a_statement_runs_ends_the_prompt_after_it(terminal: Terminal) -> None:
    """The terminal made a mark of it that reached the prompt as Ctrl-Space, and the prompt stayed."""
    terminal.type("SELECT count(*) AS n FROM range(200000000) t(x) WHERE x % 7 = 3;\r")
    until(lambda: terminal.is_busy, "the prompt leave the terminal")
    terminal.type("\x04")
    assert terminal.end() == 0
    assert "28571429" in terminal.shown
    assert not terminal.is_raw
    assert terminal.ends_input_at("\x04")


def test_tab_completes_datasources_and_columns(terminal: Terminal) -> None:
    terminal.type("SELECT max(delay) AS most FROM fli\t")
    terminal.wait_for(r"ghts")
    terminal.type(" WHERE carr\t")
    terminal.wait_for(r"ier")
    terminal.type(" = 'UA';\r")
    terminal.wait_for(r"most\s+─+\s+223\s")
    terminal.type(".quit\r")
    assert terminal.end() == 0


@pytest.mark.parametrize("statement", [ENDLESS, f"SELECT count(*) FROM ({ENDLESS})"])
def test_ctrl_c_cancels_the_statement_and_not_the_prompt(
    terminal: Terminal, statement: str
) -> None:
    terminal.type(f"{statement};\r")
    until(lambda: terminal.is_busy, "the prompt leave the terminal")
    terminal.type("\x03")
    terminal.wait_for(r"cancelled\s[^$]*?" + PROMPT)
    terminal.type("SELECT 40 + 2 AS answer;\r")
    terminal.wait_for(r"answer\s+─+\s+42\s")
    terminal.type("quit\r")
    assert terminal.end() == 0


@pytest.mark.parametrize("is_busy", [False, True], ids=["typing", "running"])
def test_a_signal_that_ends_programs_ends_the_prompt(terminal: Terminal, *, is_busy: bool) -> None:
    if is_busy:
        terminal.type(f"{ENDLESS};\r")
        until(lambda: terminal.is_busy, "the prompt leave the terminal")
    terminal.program.send_signal(signal.SIGTERM)
    assert terminal.end() == 128 + signal.SIGTERM
    assert "ended by SIGTERM" in terminal.shown
    assert not terminal.is_raw


def test_without_a_terminal_there_is_a_sentence_and_no_prompt(store: Path, run: Run) -> None:
    asked = run_process(["sql", "--store", str(store)], cwd=store, stdin="SELECT 1;")
    assert (asked.code, asked.out) == (2, "")
    assert "give a statement or --file; - reads one from standard input" in asked.err
    read = run_process(["sql", "-", "--store", str(store)], cwd=store, stdin="SELECT 1 AS n")
    assert (read.code, read.out.split()) == (0, ["n", "─", "1"])
    refused = run("sql", "--json", "--store", store, code=2)
    assert "the other options apply to one statement" in refused.err
