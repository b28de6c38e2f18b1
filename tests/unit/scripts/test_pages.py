"""The reference pages: every command has help and examples that parse; every name and setting is described.

That the pages are current is checked with those of the other modules (`tests/house/test_docs.py`).
"""

from __future__ import annotations

import functools
import inspect
import shlex
import subprocess
import sys
from typing import Any

import pytest

import carnac
from carnac.cli.commands import all_commands
from carnac.cli.modules import MODULES
from carnac.config import Settings
from carnac.store import Store
from scripts.docs import cli_page, python_page, settings_page

COMMANDS = all_commands()


@functools.cache
def commands() -> dict[str, Any]:
    return cli_page.click_commands()


def test_every_command_of_the_application_is_on_the_page() -> None:
    assert set(commands()) == set(COMMANDS)
    page = cli_page.render()
    for name in COMMANDS:
        assert f"### {name}\n" in page


@pytest.mark.parametrize("page", [cli_page, python_page, settings_page])
def test_a_row_of_a_table_is_one_line(page: Any) -> None:
    lines = page.render().splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert [line for line in rows if not line.endswith("|")] == []


def test_each_command_is_found_by_its_first_word() -> None:
    for name, info in COMMANDS.items():
        assert name.split()[0] in MODULES[info.module.removeprefix("carnac.cli.commands.")]


def test_a_command_line_loads_no_commands_but_those_of_its_first_word() -> None:
    text = "import carnac.cli.app as a, carnac.cli.commands as c; c.load('tag'); print(*a.COMMANDS)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded == {
        name for name, info in COMMANDS.items() if info.module == COMMANDS["tag"].module
    }


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_options_with_help_and_examples_that_parse(name: str) -> None:
    command = commands()[name]
    assert (command.help or "").split("\b")[0].strip()
    assert COMMANDS[name].examples
    options = {
        option for param in command.params for option in (*param.opts, *param.secondary_opts)
    }
    assert "--json" in options
    for param in command.params:
        assert param.help, f"{name}: {param.name} has no help"
    for example in COMMANDS[name].examples:
        line = example.rpartition("| ")[2].partition(" > ")[0].partition(" < ")[0]
        words = shlex.split(line)
        assert words[: 1 + len(name.split())] == ["carnac", *name.split()]
        rest = words[1 + len(name.split()) :]
        command.make_context(name, rest)  # raises if the line is not what the command takes


def test_every_public_name_and_method_is_described() -> None:
    page = python_page.render()
    for name in carnac.__all__:
        assert f"`carnac.{name}`" in page
    for name, member in python_page.public_members(Store):
        assert inspect.getdoc(member), f"Store.{name} has no docstring"
        assert f"### {name}\n" in page
    for kind in python_page.VALUES:
        table = python_page._value(kind)
        for name, _ in python_page._fields(kind):
            row = next(line for line in table.splitlines() if line.startswith(f"| `{name}` |"))
            assert not row.endswith("|  |"), f"{kind.__name__}.{name} is not explained"
            assert row in page


def test_every_value_that_a_store_returns_is_on_the_page() -> None:
    page = python_page.render()
    words = {
        word
        for _, member in python_page.public_members(Store)
        if inspect.isfunction(member)
        for word in str(inspect.signature(member).return_annotation)
        .replace("[", " ")
        .replace("]", " ")
        .replace(",", " ")
        .split()
    }
    plain = {
        "DataFrame",
        "None",
        "Self",
        "int",
        "str",
        "bool",
        "object",
        "tuple",
        "Sequence",
        "Mapping",
        "Iterator",
        "...",
        "|",
    }
    assert not [word for word in words - plain if f"# {word.strip(chr(39))}\n" not in page]


def test_every_setting_is_described() -> None:
    page = settings_page.render()
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert f"| `{name}` | `CARNAC_{name.upper()}` |" in page
