"""The names that people import: they exist, they are explained, and they are meant."""

from __future__ import annotations

import importlib
import inspect
import re

import carnac
from tests.house.checkout import ROOT, name_of, outline_of, python_files, text_of


def test_all_is_what_the_package_offers() -> None:
    public = {name for name in carnac.__all__ if not name.startswith("__")}
    assert public, "the package offers names of its own"
    assert sorted(carnac.__all__) == list(carnac.__all__)
    for name in carnac.__all__:
        assert hasattr(carnac, name), name


def test_public_names_are_explained() -> None:
    for name in carnac.__all__:
        value = getattr(carnac, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"carnac.{name} has no docstring"


def test_the_version_is_the_one_that_is_installed() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(?:\.dev\d+)?", carnac.__version__)
    assert importlib.metadata.version("carnac") == carnac.__version__
    assert f"## {carnac.__version__}" in text_of(ROOT / "CHANGELOG.md")


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        name_of(path)
        for path in python_files()
        if path.is_relative_to(ROOT / "src") and not outline_of(path).has_docstring
    ]
    assert silent == []
