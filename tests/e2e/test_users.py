"""`carnac users`: adding, changing, removing; and what is wrong with a name, a password or a permission."""

from __future__ import annotations

import io
import json

import pytest

from tests.e2e.conftest import Run
from tests.e2e.test_mistakes import one_sentence

pytestmark = pytest.mark.e2e
EMPTY = '{\n  "users": []\n}\n'


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("CARNAC_STORE", "store")
    run("init")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    text = io.StringIO("a long password\nanother password\n")
    monkeypatch.setattr("sys.stdin", text)
    return text


def test_users_are_added_changed_listed_and_removed(run: Run, typed: io.StringIO) -> None:
    assert "there are no users" in run("users").out
    assert run("users", "set", "ana").out == "user ana may read\n"
    token = run("users", "token", "ana").out
    changed = run("users", "set", "ana", "--may", "write").out
    assert changed.startswith("user ana may write, with the password as it was")
    assert run("users", "token", "ana").out == token
    run("users", "set", "ana", "--password")
    assert run("users", "token", "ana").out != token
    (listed,) = json.loads(run("users", "--json").out)["users"]
    assert (listed["user"], listed["permission"]) == ("ana", "write")
    table = run("users").out
    assert "created (UTC)" in table
    assert "password" not in table
    assert "whoever reaches a server may read and write" in run("users", "remove", "ana").err
    assert not typed.read()


def test_a_user_is_limited_to_datasources_and_no_more(run: Run, typed: io.StringIO) -> None:
    limits = ("--datasource", "web_*", "--datasource", "flights")
    assert run("users", "set", "bo", *limits).out == "user bo may read flights, web_* alone\n"
    (listed,) = json.loads(run("users", "--json").out)["users"]
    assert listed["datasources"] == ["flights", "web_*"]
    assert "flights, web_*" in run("users").out
    refused = one_sentence(run("users", "set", "bo", "--may", "write", code=2))
    assert "give --may read, or --datasource '*'" in refused
    changed = run("users", "set", "bo", "--may", "write", "--datasource", "*").out
    assert changed.startswith("user bo may write, with the password as it was")
    assert "a' alone: tasks" in one_sentence(run("users", "set", "bo", "--datasource", "a", code=2))
    assert "all" in run("users").out
    assert typed.readline()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("set", "a:b"), "is no name of a user"),
        (("set", "ana", "--datasource", " "), "the name of a datasource is empty"),
        (("set", "ana", "--datasource", "a\nb"), "a datasource"),
        (("set", "ana", "--may", "rule"), "a user may read, write, admin"),
        (("remove", "ana"), "there is no user 'ana'"),
        (("token", "ana"), "there is no user 'ana'"),
    ],
)
def test_a_mistake_is_told(run: Run, typed: io.StringIO, line: tuple[str, ...], said: str) -> None:
    ran = run("users", *line, code=5 if "there is no user" in said else 2)
    assert said in one_sentence(ran)
    assert run("users", "--json").out == EMPTY
    assert typed is not None


def test_a_name_that_is_none_is_told_before_a_password_is_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert "is no name of a user" in one_sentence(run("users", "set", "a b", code=2))
    limited = ("users", "set", "new", "--may", "write", "--datasource", "a")
    assert "give --may read" in one_sentence(run(*limited, code=2))


@pytest.mark.parametrize("password", ["", "short\n", "tab\tinside it\n"])
def test_a_password_that_is_none_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(password))
    assert "password" in one_sentence(run("users", "set", "ana", code=2))
    assert run("users", "--json").out == EMPTY
