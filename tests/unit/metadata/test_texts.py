"""The statements that run are those that are stated."""

from __future__ import annotations

import sqlite3
from importlib import import_module
from pathlib import Path

import pytest

import carnac.metadata.texts
from carnac.metadata.definitions.rendering import MODULES, render_texts
from carnac.metadata.session import Statement
from carnac.metadata.texts import statements

FOLDER = Path(carnac.metadata.texts.__file__).parent


def test_the_texts_are_those_of_the_definitions() -> None:
    stale = [
        name
        for name, text in render_texts().items()
        if (FOLDER / f"{name}.py").read_text(encoding="utf-8") != text
    ]
    assert stale == [], "make statements writes them anew"


def test_no_text_is_without_a_definition() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {"__init__", *MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_every_statement_has_its_parameters_in_the_order_of_the_text(name: str) -> None:
    module = import_module(f"carnac.metadata.texts.{name}")
    stated = [value for value in vars(module).values() if isinstance(value, Statement)]
    assert stated
    for one in stated:
        assert one.sqlite.text.count("?") == len(one.sqlite.names)
        assert set(one.sqlite.constants) <= set(one.sqlite.names)
        assert all(
            f"%({value})s" in one.postgresql.text
            for value in set(one.sqlite.names) - set(one.sqlite.constants)
        )


def test_a_text_is_one_line_that_sqlite_understands() -> None:
    with sqlite3.connect(":memory:") as link:
        link.execute("CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        text, names, _ = statements.PUT_SETTING.sqlite
        assert "\n" not in text
        values = {"name": "a", "value": "b"}
        link.execute(text, [values[name] for name in names])
        assert link.execute(statements.SETTINGS.sqlite.text).fetchall() == [("a", "b")]
    link.close()
