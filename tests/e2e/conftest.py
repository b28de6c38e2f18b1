"""What tests of the command line ask for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from carnac.cli import main
from tests.e2e.cli import Ran, make_store

Run = Callable[..., Ran]


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three days of flights; read it, copy it, do not write to it."""
    return make_store(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def store(made_store: Path, tmp_path: Path) -> Path:
    """A copy of that store for one test: a store's directory can be copied and moved."""
    return Path(shutil.copytree(made_store, tmp_path / "store"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run_here(*args: str, code: int = 0) -> Ran:
        capsys.readouterr()
        got = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        assert got == code, f"exit code {got}, standard error: {captured.err}"
        return Ran(got, captured.out, captured.err)

    return run_here
