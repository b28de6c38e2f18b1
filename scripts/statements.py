"""Write the texts of the metadata store's statements from their definitions: `make statements`."""

from __future__ import annotations

import sys
from pathlib import Path

from carnac.metadata.definitions.rendering import render_texts

FOLDER = Path(__file__).resolve().parent.parent / "src" / "carnac" / "metadata" / "texts"


def main() -> int:
    """Write every module; print the names of those that changed."""
    for name, text in render_texts().items():
        path = FOLDER / f"{name}.py"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{name} has changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
