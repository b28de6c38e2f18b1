"""Write the reference pages that are made from the code and the benchmark results, or check that they are current.

Usage: python -m scripts.docs [--check]

Each page or picture is what `render()` of its module returns; the tests of a page fail where something
is not described. Add one by adding a line to PAGES.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {
    "images/speed.svg": "scripts.docs.speed_picture",
    "reference/cli.md": "scripts.docs.cli_page",
    "reference/compaction.md": "scripts.docs.compaction_page",
    "reference/http.md": "scripts.docs.http_page",
    "reference/python.md": "scripts.docs.python_page",
    "reference/scenario.md": "scripts.docs.scenario_page",
    "reference/settings.md": "scripts.docs.settings_page",
    "reference/spec.md": "scripts.docs.spec_page",
    "reference/speed.md": "scripts.docs.speed_page",
    "reference/task.md": "scripts.docs.task_page",
}


def main(arguments: list[str]) -> int:
    """Write or check every page; return 1 if a check found one that is not current."""
    is_check = arguments == ["--check"]
    if arguments and not is_check:
        print(__doc__)
        return 2
    stale = 0
    for name, module in PAGES.items():
        page = DOCS / name
        made: str | bytes = import_module(module).render()
        content = made if isinstance(made, bytes) else made.encode()
        is_current = page.is_file() and page.read_bytes() == content
        if not is_check and not is_current:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_bytes(content)
        stale += not is_current
        state = "current" if is_current else "not current" if is_check else "written"
        print(f"docs/{name}: {state}")
    if is_check and stale:
        print("make docs writes them anew")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
