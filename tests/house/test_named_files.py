"""Files that a person names are written by one module, which asks whether they are a store's."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.checkout import ROOT, name_of, python_files, text_of

SOURCE = ROOT / "src" / "carnac"
ASKING = {"cli", "console", "store"}
"""Packages that write where somebody says."""
OWN = {
    "cli/commands/prepare.py": "rows for a rehearsal, in a temporary folder",
    "cli/demo/cluster/processes.py": "logs of the demo's servers, in the folder that it has made",
    "cli/demo/flights.py": "input of the demo, in the folder that it has made",
    "cli/prompt/loop.py": "the prompt's history, in the folder of the user's state",
}
WRITERS = {"write_text", "write_bytes", "write_csv", "write_table", "mkstemp", "NamedTemporaryFile"}


def writes(call: ast.Call) -> bool:
    """Whether a call opens or writes a file, by its name and a mode among its arguments."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in {"open", "fdopen"}:
        return name in WRITERS
    given = [*call.args, *(one.value for one in call.keywords)]
    texts = {one.value for one in given if isinstance(one, ast.Constant)}
    flags = {
        one.attr for value in given for one in ast.walk(value) if isinstance(one, ast.Attribute)
    }
    modes = {one for one in texts if isinstance(one, str) and len(one) <= 3}
    return any(set(mode) & set("wax+") for mode in modes) or "O_CREAT" in flags


def writers(path: Path) -> bool:
    return any(
        writes(one) for one in ast.walk(ast.parse(text_of(path))) if isinstance(one, ast.Call)
    )


def test_no_command_writes_a_file_past_the_question() -> None:
    found = {
        name_of(path).removeprefix("src/carnac/")
        for path in python_files()
        if path.is_relative_to(SOURCE) and path.relative_to(SOURCE).parts[0] in ASKING
        if writers(path)
    }
    assert found == set(OWN)


def test_what_writes_is_found() -> None:
    for text in ("p.open('w')", "open(p, 'ab')", "p.open(mode='x')", "p.write_bytes(b)",
                 "os.open(p, os.O_WRONLY | os.O_CREAT)"):  # fmt: skip
        assert writes(ast.parse(text, mode="eval").body), text  # type: ignore[arg-type]
    for text in ("p.open()", "open(p, 'rb')", "store.write(b)", "p.read_text('a')"):
        assert not writes(ast.parse(text, mode="eval").body), text  # type: ignore[arg-type]
