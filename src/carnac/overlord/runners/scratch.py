"""Scratch folders that processes of a dead attempt have left on this machine."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from carnac.core.ids import bears_mark

FOLDER = "carnac-"
"""The prefix of all scratch folders' names."""


def remove_scratch(mark: str) -> int:
    """Remove the scratch folders of an attempt; return how many there were."""
    is_its = bears_mark(mark)
    root, count = Path(tempfile.gettempdir()), 0
    for folder in root.glob(f"{FOLDER}*"):
        if is_its(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
            count += 1
    return count
