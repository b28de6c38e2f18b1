"""The line that a shell wants completed, read from the environment that its script sets."""

from __future__ import annotations

import pytest

from carnac.cli.completion.line import first_word, option_in, words_before


def bash(line: str, place: int) -> dict[str, str]:
    return {"_CARNAC_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(place)}


def zsh(line: str) -> dict[str, str]:
    return {"_CARNAC_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, None),
        ({"COMP_WORDS": "carnac sql"}, None),
        (bash("carnac s", 1), []),
        (bash("carnac sql --at ", 3), ["sql", "--at"]),
        (bash("carnac sql --at go -o x", 3), ["sql", "--at"]),
        (bash("carnac sql 'SELECT 1", 2), ["sql"]),
        (zsh("carnac sql --at "), ["sql", "--at"]),
        (zsh("carnac sql --at go"), ["sql", "--at"]),
        (zsh('carnac sql "SELECT 1" --at '), ["sql", "SELECT 1", "--at"]),
    ],
)
def test_the_words_before_the_cursor(environ: dict[str, str], words: list[str] | None) -> None:
    assert words_before(environ) == words


def test_the_command_and_the_store_are_found_wherever_they_stand() -> None:
    assert first_word(["--store", "a", "--debug", "segments", "x"]) == "segments"
    assert first_word(["--store=a", "sql"]) == "sql"
    assert first_word(["--store", "a"]) is None
    assert option_in(["sql", "--store", "a"], "--store") == "a"
    assert option_in(["sql", "--store=b"], "--store") == "b"
    assert option_in(["sql", "--store"], "--store") is None
    assert option_in(["sql"], "--store") is None
