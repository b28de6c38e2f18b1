"""One of a thing has no `s`, wherever people read of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import carnac
from carnac.core.words import counted

SOURCE = Path(carnac.__file__).parent
THINGS = "segment|datasource|row|time chunk|server|task|group"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12345, "12,345 rows")]
)
def test_a_number_agrees_with_its_word(number: int, text: str) -> None:
    assert counted(number, "row") == text


def test_pictures_and_commands_count_with_the_helper() -> None:
    by_hand = re.compile(rf"(:,|format_count\([^{{}}]*\))\}} (?:{THINGS})s\b(?!/)")
    found = [
        f"{path.relative_to(SOURCE)}: {match[0]}"
        for folder in ("console", "cli/commands")
        for path in sorted((SOURCE / folder).rglob("*.py"))
        for match in by_hand.finditer(path.read_text())
    ]
    assert found == [], "write counted(number, thing): there may be one only"
