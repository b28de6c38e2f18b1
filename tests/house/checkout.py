"""The checkout as the house tests look at it: which files belong to the project."""

from __future__ import annotations

import ast
import functools
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
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
    """Return what git tracks and still exists, or None where it tracks nothing, or there is no git or no repository."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return None
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()] or None


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


@dataclass(frozen=True, slots=True)
class Outline:
    """What the house asks of a Python file; its syntax tree is not kept, which would keep the garbage collector busy.

    Attributes:
        functions: Name, first line and number of lines of each.
        definitions: Name and line of functions and classes without a decorator, which may hand them on, and of
            constants of the module.
        imports: The module of each import of others' code.
    """

    functions: tuple[tuple[str, int, int], ...]
    definitions: tuple[tuple[str, int], ...]
    imports: tuple[str, ...]
    has_docstring: bool


@functools.cache
def outline_of(path: Path) -> Outline:
    """Return the outline of a Python file of the project."""
    tree = ast.parse(text_of(path))
    functions: list[tuple[str, int, int]] = []
    definitions: list[tuple[str, int]] = []
    imports: list[str] = []
    for node in statements_of(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                last = node.lineno if node.end_lineno is None else node.end_lineno
                functions.append((node.name, node.lineno, last - node.lineno + 1))
            case ast.Import():
                imports += [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module), level=0):
                imports.append(module)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list:
            definitions.append((node.name, node.lineno))
    definitions += [
        (node.targets[0].id, node.lineno)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    ]
    return Outline(
        tuple(functions), tuple(definitions), tuple(imports), bool(ast.get_docstring(tree))
    )


def statements_of(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the statements of a module, those inside of others too."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for name in BLOCKS:
            left += getattr(node, name, ())


def text_files() -> tuple[Path, ...]:
    """Return the files of the project that people read."""
    return tuple(path for path in project_files() if path.suffix in TEXT_SUFFIXES)


def name_of(path: Path) -> str:
    """Return a path as it reads in a message."""
    return str(path.relative_to(ROOT))
