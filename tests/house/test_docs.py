"""Docs against code: generated pages are current, links lead somewhere, pictures exist."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

from tests.house.checkout import ROOT, name_of, project_files, text_of

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
OUTSIDE = re.compile(r"[a-z]+:")


def pages() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".md"]


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that the headings of a page have where it is shown."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def dead_links(page: Path) -> list[str]:
    """Return the links of a page to files or headings of the project that are not there."""
    dead = []
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text_of(page), flags=re.DOTALL)
    for link in LINK.findall(prose):
        if OUTSIDE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            dead.append(f"{name_of(page)}: {link}")
    return dead


def test_every_link_leads_somewhere() -> None:
    assert [link for page in pages() for link in dead_links(page)] == []


def test_generated_pages_are_current() -> None:
    command = [sys.executable, "-m", "scripts.docs", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def decisions() -> list[Path]:
    """Return the decision records, the template included."""
    folder = ROOT / "docs" / "decisions"
    return [page for page in pages() if page.parent == folder and page.name != "README.md"]


def test_every_decision_record_has_the_parts_of_the_template() -> None:
    parts = ["**Context.**", "**Decision.**", "**Consequences.**"]
    missing = [
        f"{name_of(page)}: {part}"
        for page in decisions()
        for part in parts
        if part not in text_of(page)
    ]
    assert missing == []


def test_the_list_of_decisions_has_each_record_under_its_title() -> None:
    listed = text_of(ROOT / "docs" / "decisions" / "README.md")
    lines = {}
    for page in decisions()[1:]:
        number, _, title = text_of(page).splitlines()[0].removeprefix("# ").partition(". ")
        lines[page.name] = f"| [{number}]({page.name}) | {title} |"
        assert page.name.startswith(f"{int(number):04}-")
    assert len(lines) > 20
    assert [name for name, line in lines.items() if line not in listed] == []


TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_test_that_a_page_names_is_there() -> None:
    missing = [
        f"{name_of(page)}: {file}::{test}"
        for page in pages()
        for file, test in TEST.findall(text_of(page))
        if not (ROOT / file).is_file() or (test and f"def {test}(" not in text_of(ROOT / file))
    ]
    assert missing == []
    assert len(TEST.findall(text_of(ROOT / "docs" / "concepts" / "faults.md"))) > 40


def test_the_glossary_defines_words_of_several_pages_each_once() -> None:
    glossary = ROOT / "docs" / "glossary.md"
    rows = re.findall(r"^\| ([a-z, ]+) \| [A-Z`]", text_of(glossary), flags=re.MULTILINE)
    words = [word for row in rows for word in row.split(", ")]
    texts = [
        text_of(page)
        for page in pages()
        if ROOT / "docs" in page.parents and page != glossary and page.parent.name != "decisions"
    ]
    seldom = [
        word
        for word in words
        if sum(bool(re.search(rf"\b{word}", text, flags=re.IGNORECASE)) for text in texts) < 2
    ]
    assert len(words) > 40
    assert len(words) == len(set(words))
    assert seldom == []


def test_python_on_pages_parses_and_imports_what_is_there() -> None:
    blocks = [
        block
        for page in pages()
        for block in re.findall(
            r"^```python\n(.*?)^```", text_of(page), flags=re.DOTALL | re.MULTILINE
        )
        if "reference" not in page.parts  # signatures, made from the code
    ]
    nodes = [node for block in blocks for node in ast.walk(ast.parse(block))]
    named = [
        ("carnac", node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "carnac"
    ]
    named += [
        (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("carnac")
        for alias in node.names
    ]
    assert len(named) > 2
    assert [one for one in named if not hasattr(importlib.import_module(one[0]), one[1])] == []
