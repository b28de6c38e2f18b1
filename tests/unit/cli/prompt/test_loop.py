"""The prompt, typed at through prompt_toolkit's own pipe: what runs, what is shown, what is kept."""

from __future__ import annotations

import os
import re
import shutil
import signal
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from carnac.bootstrap.store import open_store
from carnac.cli.prompt.completing import StatementCompleter, StoreNames
from carnac.cli.prompt.loop import ENTRIES_MAX, KeptHistory, history_file, run_prompt
from carnac.cli.session import Session
from carnac.store import Store
from tests.e2e.cli import make_store

ENTER, CTRL_C, CTRL_D, UP = "\r", "\x03", "\x04", "\x1b[A"
Typed = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Iterator[Store]:
    place = shutil.copytree(made, tmp_path / "store")
    with open_store(place) as opened:
        yield opened


@pytest.fixture
def typed(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Typed:
    """Type keys at a prompt until it is left; return what it wrote to the two streams."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CARNAC_STORE", str(tmp_path / "store"))

    def type_keys(
        keys: str, *, at: str | None = None, rows_max: int | None = None
    ) -> tuple[str, str]:
        with create_pipe_input() as pipe, create_app_session(pipe, DummyOutput()):
            pipe.send_text(keys)
            run_prompt(Session(), store, at=at, rows_max=rows_max)
        captured = capsys.readouterr()
        return captured.out, captured.err

    return type_keys


def test_a_statement_runs_at_its_semicolon_and_says_how_long_it_took(typed: Typed) -> None:
    out, err = typed("SELECT count(*) AS n" + ENTER + "FROM flights;" + ENTER + CTRL_D)
    assert out.split() == ["n", "──", "17"]
    assert re.search(r"1 row at revision 3, 3 of 3 segments read, [0-9.]+ s\n", err)


def test_what_is_pasted_runs_statement_by_statement(typed: Typed) -> None:
    out, _ = typed("SELECT 1 AS one; SELECT 2 AS two;" + ENTER + ".quit" + ENTER)
    assert out.split() == ["one", "───", "1", "two", "───", "2"]


def test_the_prompt_goes_on_after_a_mistake(typed: Typed) -> None:
    out, err = typed(
        "SELECT nothing FROM flights; SELECT 3;"
        + ENTER
        + ".scheme"
        + ENTER
        + "SELECT 4;"
        + ENTER
        + "exit"
        + ENTER
    )
    assert "error: there is no column 'nothing'" in err
    assert "error: there is no command '.scheme'; did you mean '.schema'?" in err
    assert "3" not in out  # what follows a mistake on the line is not run
    assert "4" in out


def test_ctrl_c_drops_what_was_typed_and_nothing_else(typed: Typed) -> None:
    out, _ = typed("SELECT 7" + CTRL_C + "SELECT 8 AS n;" + ENTER + CTRL_D)
    assert out.split() == ["n", "─", "8"]


@pytest.fixture
def listening() -> Iterator[Session]:
    """A session that hears signals as that of a command line does."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    session = Session()
    session.interruption.listen()
    yield session
    for number, handler in before.items():
        signal.signal(number, handler)


def _press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _press_ctrl_c_where_it_is_lost() -> None:
    """Python ignores what is raised in the callback of a weak reference."""
    seen: set[int] = set()
    _seen = weakref.ref(seen, lambda _: _press_ctrl_c())
    del seen


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("press", [_press_ctrl_c, _press_ctrl_c_where_it_is_lost])
@pytest.mark.usefixtures("typed")
def test_ctrl_c_as_the_terminal_is_left_cancels_what_was_typed(
    press: Callable[[], None],
    store: Store,
    listening: Session,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C is a signal once keys are not read one by one any more: prompt_toolkit took it, and did nothing."""

    @contextmanager
    def left_with_ctrl_c() -> Iterator[None]:
        with raw_mode():
            yield
        if presses:
            presses.pop()()

    presses = [press]
    with create_pipe_input() as pipe, create_app_session(pipe, DummyOutput()):
        raw_mode = pipe.raw_mode
        pipe.raw_mode = left_with_ctrl_c  # type: ignore[assignment,method-assign]
        pipe.send_text("SELECT 7 AS n;" + ENTER + "SELECT 8 AS n;" + ENTER + CTRL_D)
        run_prompt(listening, store, at=None, rows_max=None)
    captured = capsys.readouterr()
    assert (captured.out.split(), presses) == (["n", "─", "8"], [])
    assert "cancelled" in captured.err


def test_dot_at_asks_at_another_revision(typed: Typed, store: Store) -> None:
    store.tag("good", at=2)
    count = "SELECT count(*) AS n FROM flights;" + ENTER
    out, err = typed(
        ".at good"
        + ENTER
        + count
        + ".at 1"
        + ENTER
        + count
        + ".at 9"
        + ENTER
        + count
        + ".at"
        + ENTER
        + count
        + CTRL_D
    )
    assert [word for word in out.split() if word.isdigit()] == ["12", "6", "6", "17"]
    assert "at revision 2, published" in err
    assert "error: there is no revision 9" in err


def test_what_the_command_line_said_holds_at_the_prompt(typed: Typed) -> None:
    out, err = typed("SELECT __time FROM flights;" + ENTER + CTRL_D, at="1", rows_max=2)
    assert out.count("2013-01-01") == 2
    assert "… and 4 more rows" in err
    assert "at revision 1" in err


def test_tables_and_their_columns_are_listed(typed: Typed) -> None:
    out, err = typed(
        ".tables"
        + ENTER
        + ".schema flights"
        + ENTER
        + ".schema none"
        + ENTER
        + ".help"
        + ENTER
        + CTRL_D
    )
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "flights 17 2013-01-01 02:30 2013-01-03 20:30" in lines
    assert "__time TIMESTAMP WITH TIME ZONE" in lines
    assert "delay BIGINT" in lines
    assert (
        ".at REVISION|TIME|TAG Ask at that revision from now on; alone: at the newest again."
        in lines
    )
    assert "error: there is no datasource 'none'; there are flights" in err


def test_history_is_kept_from_prompt_to_prompt_for_this_user_alone(
    typed: Typed, tmp_path: Path
) -> None:
    typed("SELECT 5" + ENTER + "AS n;" + ENTER + CTRL_D)
    out, _ = typed(UP + UP + ENTER + CTRL_D)
    assert out.split() == ["n", "─", "5"]
    kept = tmp_path / "state" / "carnac" / "sql-history"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert list(KeptHistory(kept).load_history_strings()) == ["SELECT 5\nAS n;"]


def test_history_has_an_end(tmp_path: Path) -> None:
    path = history_file({"XDG_STATE_HOME": str(tmp_path)})
    history = KeptHistory(path)
    for number in range(ENTRIES_MAX + 3):
        history.store_string(f"SELECT {number};")
    kept = list(KeptHistory(path).load_history_strings())
    assert (len(kept), kept[0], kept[-1]) == (
        ENTRIES_MAX,
        f"SELECT {ENTRIES_MAX + 2};",
        "SELECT 3;",
    )
    assert list(path.parent.iterdir()) == [path]


def test_a_history_that_cannot_be_kept_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "carnac").write_text("a file where the folder should be", encoding="utf-8")
    history = KeptHistory(history_file({"XDG_STATE_HOME": str(tmp_path)}))
    history.store_string("SELECT 1;")
    assert list(history.load_history_strings()) == []
    assert history_file({"HOME": "/home/ana"}) == Path("/home/ana/.local/state/carnac/sql-history")


@pytest.mark.parametrize(
    ("before", "some"),
    [
        ("SEL", {"SELECT": "keyword"}),
        ("SELECT count(*) FROM f", {"flights": "datasource"}),
        ("SELECT f.de| FROM flights f", {"delay": "long"}),
        ("SELECT c| FROM flights", {"carrier": "string", "count(": "function", "CASE": "keyword"}),
        ("SELECT hll_es| FROM flights", {"hll_estimate(": "function"}),
        ("SELECT * FROM lookup.", {"airports": "lookup"}),
        ("SELECT 'de| FROM flights", {}),
        ("SELECT nothing.de| FROM flights", {}),
        (".sc", {".schema": "The columns of a datasource and their types."}),
        (".schema fl", {"flights": "datasource"}),
        (".at g", {"good": "tag of revision 2"}),
        (".at 1", {"1": "6 rows"}),
        (".tables ", {}),
    ],
)  # fmt: skip
def test_what_can_be_typed_is_completed(store: Store, before: str, some: dict[str, str]) -> None:
    store.tag("good", at=2)
    store.set_lookup("airports", {"JFK": "New York"})
    head, _, tail = before.partition("|")
    completer = StatementCompleter(StoreNames(store, lambda: None))
    found = completer.get_completions(Document(head + tail, len(head)), CompleteEvent())
    words = {one.text: one.display_meta_text for one in found}
    assert some.items() <= words.items()
    assert some or not words


def test_a_store_that_does_not_answer_completes_nothing(store: Store) -> None:
    completer = StatementCompleter(StoreNames(store, lambda: "never"))
    assert list(completer.get_completions(Document("SELECT * FROM "), CompleteEvent())) == []
