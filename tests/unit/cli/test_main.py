from __future__ import annotations

import pytest

from carnac.cli.main import _hoist


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
