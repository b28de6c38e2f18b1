"""Command lines that nobody means well with: one sentence, a documented exit code, and nothing half-done."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carnac.bootstrap.store import open_store
from carnac.cli import main
from tests.commandlines import EXIT_CODES, NO_SPARK, SHORTER, commands
from tests.e2e.cli import make_store
from tests.hostile import numbers, texts, values

SPEC = {
    "dataSource": "flights",
    "input": {"data": '{"t": "2013-01-01", "a": 1}', "inputFormat": "json"},
    "timestampSpec": {"column": "t"},
}
KNOWN = ("flights", "1", "3", "0", "2013-01-01/P1D", "good", "a.csv", "spec.json", "hostile.json", "x.svg", "x.html",
         "append", "csv", "json", "failed", "SELECT * FROM flights", "carrier = 'UA'")  # fmt: skip
"""What a person means: a name, a revision, an interval, a tag, files."""
FIELDS = (*SPEC, "mode", "granularity", "context", "type", "writer", "batch", "dimensionsSpec", "metricsSpec", "tuning",
          "interval", "intervals", "where")  # fmt: skip
LONG_RUNNING = frozenset(("demo", "prepare", *SHORTER))
"""Commands with stores of their own; what they read, others read, too."""


@dataclass(frozen=True)
class Line:
    """A command line, and what the files that it may name hold."""

    words: tuple[str, ...]
    file: str


def words_of(param: Any) -> st.SearchStrategy[list[str]]:
    """What may stand on the line for a parameter, none of it among that."""
    anything = st.sampled_from(KNOWN) | st.sampled_from(KNOWN) | texts | numbers.map(_written)
    if param.param_type_name == "argument":
        given_ = st.lists(anything, min_size=1, max_size=2 if param.nargs == -1 else 1)
        return given_ if param.required else st.just([]) | given_
    name = param.opts[0]
    if param.is_flag:
        return st.sampled_from(([], [], [name]))
    chosen = anything.map(lambda one: [name, one])
    return chosen if param.required else st.just([]) | st.just([]) | chosen


def _written(number: float) -> str:
    try:
        return str(number)
    except ValueError:  # more digits than Python writes
        return "9" * 5_000


@st.composite
def lines(draw: st.DrawFn) -> Line:
    name = draw(st.sampled_from(sorted(set(commands()) - LONG_RUNNING)))
    words = name.split()
    for param in commands()[name].params:
        if param.name not in {"help", "auto"}:
            words += draw(words_of(param))
    block = {**SPEC, **draw(st.dictionaries(st.sampled_from(FIELDS), values, max_size=2))}
    text = draw(st.sampled_from((_dumped(block), json.dumps(SPEC))) | texts)
    return Line(tuple(words), text)


def _dumped(value: object) -> str:
    try:
        return json.dumps(value)
    except (ValueError, RecursionError):
        return "[" * 5_000


class Stage:
    """A folder with a store, and what of the store must not change."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = folder, folder / "carnac-store"
        self.before = self.state()

    def state(self) -> object:
        with open_store(self.place) as store:
            facts = (
                store.head().revision,
                store.tags(),
                store.lookups(),
                store._metadata.compaction_specs(),
            )
        files = sorted(
            str(path) for path in (self.place / "deep-storage").rglob("*") if path.is_file()
        )
        return facts, files

    def run(self, line: Line) -> int:
        """Return the exit code of a line, which is held against the law."""
        for name in ("spec.json", "hostile.json", "a.csv"):
            (self.folder / name).write_bytes(line.file.encode("utf-8", "surrogatepass"))
        out, err = io.StringIO(), io.StringIO()
        stdin, sys.stdin = sys.stdin, io.StringIO(line.file)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(list(line.words))
        finally:
            sys.stdin = stdin
        said = err.getvalue()
        assert code in EXIT_CODES, said
        assert "Traceback" not in said + out.getvalue()
        assert not [
            letter for letter in said if not letter.isprintable() and letter not in "\n\t"
        ], repr(said)
        if code in {0, 1}:
            self.before = self.state()
            return code
        errors = [text for text in said.splitlines() if text.startswith("error: ")]
        assert len(errors) == 1, said
        assert len(said) < 20_000
        assert self.state() == self.before, "nothing half-done"
        return code


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("stage")
    make_store(folder / "carnac-store")
    here, before = Path.cwd(), os.environ.copy()
    os.chdir(folder)
    os.environ["CARNAC_SPARK_MASTER"] = NO_SPARK
    yield Stage(folder)
    os.chdir(here)
    os.environ.clear()
    os.environ.update(before)


@settings(
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ]
)
@given(line=lines())
def test_a_hostile_line_is_one_sentence_and_nothing_half_done(line: Line, stage: Stage) -> None:
    stage.run(line)
