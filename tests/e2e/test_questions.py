"""Questions at a terminal that nobody answers: Ctrl-D ends the command in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from carnac.bootstrap.store import open_store
from tests.terminals import at_terminal


@pytest.mark.parametrize(
    ("args", "question"),
    [
        (["append", "events", "rows.csv"], "number or name"),
        (["drop", "flights"], "drop flights"),
        (["erase", "flights", "--where", "delay > 1"], "erase rows of flights"),
    ],
    ids=["append", "drop", "erase"],
)
def test_ctrl_d_at_a_question_ends_the_command_in_a_sentence(
    args: list[str], question: str, store: Path, tmp_path: Path
) -> None:
    """It ended as an internal error."""
    (tmp_path / "rows.csv").write_text("a,b\n2024-01-01,2024-02-01\n")
    with at_terminal(args, cwd=tmp_path, environ={"CARNAC_STORE": str(store)}) as terminal:
        terminal.wait_for(question)
        terminal.type("\x04")
        assert terminal.end() == 2
    assert "the input ended at a question, so nothing was done" in terminal.shown
    assert "internal" not in terminal.shown


def test_who_says_no_to_an_erasure_has_lost_nothing(store: Path, tmp_path: Path) -> None:
    args = ["erase", "flights", "--where", "delay > 1"]
    with at_terminal(args, cwd=tmp_path, environ={"CARNAC_STORE": str(store)}) as terminal:
        terminal.wait_for("from 3 visible segments and 0 earlier segments, for good?")
        terminal.type("n\n")
        assert terminal.end() == 0
    assert "nothing was erased" in terminal.shown
    with open_store(store) as opened:
        assert opened.head().revision == 3
