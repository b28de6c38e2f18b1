"""The scenarios of compaction: texts that a person can read and judge.

Each file is a story of blocks: commands, `----`, what they say. `SCENARIOS=rewrite` in the environment writes what they
say now into the files, to be read in the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scenarios.desk import Desk

FOLDER = Path(__file__).parent / "compaction"
FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    said = play(text)
    if os.environ.get("SCENARIOS") == "rewrite":
        path.write_text(said, encoding="utf-8")
        return
    assert said == text, "read the difference; if it is right, SCENARIOS=rewrite writes it down"


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 8


def play(text: str) -> str:
    """Return the story as it is told now."""
    desk = Desk()
    blocks = []
    for block in text.strip().split("\n\n"):
        commands, separator, _ = block.partition("\n----")
        said: list[str] = []
        for line in commands.splitlines():
            if line.strip() and not line.startswith("#"):
                said += desk.do(line)
        blocks.append("\n".join([commands, "----", *said]) if separator or said else commands)
    return "\n\n".join(blocks) + "\n"
