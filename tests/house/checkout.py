"""The checkout as the house tests look at it: which files belong to the project."""

from __future__ import annotations

import ast
import functools
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE_BY_TOOLS = {"__pycache__", "artifacts", "build", "demo-output", "dist", "htmlcov"}
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where statements have statements."""
TEXT_SUFFIXES = {
    "", ".cfg", ".css", ".html", ".in", ".ini", ".json", ".js", ".mako", ".md", ".py", ".sh",
    ".sql", ".svg", ".toml", ".txt", ".typed", ".yaml", ".yml",
}  # fmt: skip


def _tracked() -> list[Path] | None:
    """Return what git tracks and still exists, or None where there is no git or no repository."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return None
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def _walked() -> list[Path]:
    """Return every file that no tool has made, for a checkout that came as an archive."""
    found = []
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part != ".ci" for part in parts[:-1])
        if path.is_file() and not hidden and not MADE_BY_TOOLS.intersection(parts):
            found.append(path)
    return found


@functools.cache
def project_files() -> tuple[Path, ...]:
    """Return the files of the project, sorted."""
    tracked = _tracked()
    return tuple(sorted(_walked() if tracked is None else tracked))


@functools.cache
def python_files() -> tuple[Path, ...]:
    """Return the Python files of the project."""
    return tuple(path for path in project_files() if path.suffix == ".py")


@functools.cache
def text_of(path: Path) -> str:
    """Return the text of a file of the project."""
    return path.read_text(encoding="utf-8")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file of the project."""
    return ast.parse(text_of(path))


@functools.cache
def statements_of(path: Path) -> tuple[ast.stmt, ...]:
    """Return the statements of a Python file of the project, those inside of others too."""
    found: list[ast.stmt] = []
    left: list[ast.AST] = [tree_of(path)]
    while left:
        node = left.pop()
        inside = [one for name in BLOCKS for one in getattr(node, name, ())]
        left += inside
        found += [one for one in inside if isinstance(one, ast.stmt)]
    return tuple(found)


def text_files() -> tuple[Path, ...]:
    """Return the files of the project that people read."""
    return tuple(path for path in project_files() if path.suffix in TEXT_SUFFIXES)


def name_of(path: Path) -> str:
    """Return a path as it reads in a message."""
    return str(path.relative_to(ROOT))
