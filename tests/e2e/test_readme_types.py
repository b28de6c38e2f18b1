"""The README's Python, as a user's program: `mypy --strict` has nothing to say of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.checkout import ROOT, text_of

USED = """
import carnac

with carnac.open("tour") as store:
    reveal_type(store.read_spark("edits"))
    reveal_type(store.sql("SELECT 1").df())
    reveal_type(store.log())
"""


def mypy(text: str, folder: Path) -> str:
    """Return what mypy says of a program, without the settings of this project."""
    program = folder / "program.py"
    program.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--no-error-summary"),
            *("--cache-dir", str(ROOT / ".mypy_cache" / "readme"), str(program)),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.nightly("mypy reads all that the snippets import")
@pytest.mark.slow
def test_the_snippets_of_the_readme_are_typed(tmp_path: Path) -> None:
    snippets = re.findall(
        r"^```python\n(.*?)^```", text_of(ROOT / "README.md"), re.MULTILINE | re.DOTALL
    )
    assert snippets
    assert mypy("\n".join(snippets), tmp_path) == ""
    said = mypy(USED, tmp_path)
    assert 'Revealed type is "pyspark.sql.dataframe.DataFrame"' in said
    assert "CommitSummary" in said
    assert '"object"' not in said
