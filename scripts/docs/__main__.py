"""Write the reference pages that are made from the code and the benchmark results, or check that they are current.

Usage: python -m scripts.docs [--check]

Each page is what `render()` of its module returns; the tests of that module fail where something
is not described. Add a page by adding a line to PAGES.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGES = {
    "cli.md": "scripts.docs.cli_page",
    "compaction.md": "scripts.docs.compaction_page",
    "http.md": "scripts.docs.http_page",
    "python.md": "scripts.docs.python_page",
    "scenario.md": "scripts.docs.scenario_page",
    "settings.md": "scripts.docs.settings_page",
    "spec.md": "scripts.docs.spec_page",
    "speed.md": "scripts.docs.speed_page",
    "task.md": "scripts.docs.task_page",
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
