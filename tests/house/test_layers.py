"""The picture of `ARCHITECTURE.md` is the real one: its layers are those that import-linter enforces, all of them."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from tests.house.checkout import ROOT, text_of

SOURCE = ROOT / "src" / "carnac"
LINES_MAX = 100


def layers_of_the_picture() -> list[set[str]]:
    """Return the packages of each line, from above to below."""
    picture = text_of(ROOT / "ARCHITECTURE.md").split("```")[1].strip()
    names = (re.split(r"  +", line)[0] for line in picture.splitlines())
    return [set(re.split(r" │ ", name)) for name in names]


def layers_of_the_contract() -> list[set[str]]:
    """Return the packages of each layer of import-linter's contract, which the imports keep."""
    tool = tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]
    (contract,) = (one for one in tool["importlinter"]["contracts"] if one["type"] == "layers")
    assert contract["exhaustive"]
    return [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]


def test_the_picture_is_the_contract() -> None:
    contract = layers_of_the_contract()
    assert contract[0] == {"__main__"}
    assert layers_of_the_picture() == contract[1:]
    modules = {path.stem for path in SOURCE.glob("[!_]*.py")}
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set().union(*contract[1:]) == modules | packages


def test_the_picture_fits_on_two_screens() -> None:
    assert len(text_of(ROOT / "ARCHITECTURE.md").splitlines()) <= LINES_MAX


def test_every_folder_that_the_page_names_says_what_it_answers() -> None:
    rows = re.findall(r"^\| .+\? \| (.+) \|$", text_of(ROOT / "ARCHITECTURE.md"), re.MULTILINE)
    folders = [SOURCE / name for row in rows for name in re.findall(r"`([\w/]+)/`", row)]
    assert len(folders) > 10
    assert [path for path in folders if not (path / "__init__.py").is_file()] == []


def test_every_module_that_a_folder_names_is_there() -> None:
    definitions = {
        name
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r"^ *(?:def|class) (\w+_\w*)", text_of(path), re.MULTILINE)
    }
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    known = definitions | packages | {"__all__"}
    missing = [
        f"{folder.relative_to(SOURCE)}: {name}"
        for folder in (path.parent for path in SOURCE.rglob("__init__.py"))
        for name in named_in_words(folder)
        if name not in known and not (ROOT / name).exists() and not is_within(folder, name)
    ]
    assert missing == []


def named_in_words(folder: Path) -> list[str]:
    """Return what a folder's docstring has in backticks that could be a module, a path or a name in lower case."""
    words = ast.get_docstring(ast.parse(text_of(folder / "__init__.py"))) or ""
    return re.findall(r"(?<!`)`([a-z_][a-z_./]*)`(?!`)", words)


def is_within(folder: Path, name: str) -> bool:
    """Whether there is such a module below the folder or, with dots, anywhere, or code below it has this word."""
    *packages, last = re.split(
        r"[./]", name.removeprefix("carnac.").removesuffix(".py").rstrip("/")
    )
    place = SOURCE.joinpath(*packages, last)
    if packages and (place.is_dir() or place.with_suffix(".py").is_file()):
        return True
    below = [path for path in folder.rglob("*.py") if path != folder / "__init__.py"]
    return any(
        last in {path.stem, path.parent.name} or re.search(rf"\b{last}\b", text_of(path))
        for path in below
    )
