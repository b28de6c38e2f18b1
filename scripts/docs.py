"""Write the reference pages that are made from the code, or check that they are current.

Usage: python scripts/docs.py [--check]

Each page is what `render()` of its module returns; the tests of that module fail where something
is not described. Add a page by adding a line to PAGES.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
PAGES = {
    "cli.md": "carnac.cli.reference.cli_page",
    "compaction.md": "carnac.specs.compaction_reference",
    "http.md": "carnac.api.reference",
    "python.md": "carnac.cli.reference.python_page",
    "scenario.md": "carnac.simulation.reference",
    "settings.md": "carnac.cli.reference.settings_page",
    "spec.md": "carnac.specs.reference",
    "task.md": "carnac.specs.task_reference",
}


def main(arguments: list[str]) -> int:
    """Write or check every page; return 1 if a check found one that is not current."""
    is_check = arguments == ["--check"]
    if arguments and not is_check:
        print(__doc__)
        return 2
    stale = 0
    for name, module in PAGES.items():
        page = REFERENCE / name
        text: str = import_module(module).render()
        is_current = page.is_file() and page.read_text(encoding="utf-8") == text
        if not is_check and not is_current:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
        stale += not is_current
        state = "current" if is_current else "not current" if is_check else "written"
        print(f"docs/reference/{name}: {state}")
    if is_check and stale:
        print("make docs writes them anew")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
