"""Scratch folders of attempts that died."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from carnac.clock import MarkedIds, RandomIds
from carnac.core.ids import mark_of
from carnac.overlord.runners.children import remove_scratch

MARK = mark_of("a", 1, 7)


def test_those_of_the_attempt_go_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ids, others = MarkedIds(MARK), RandomIds()
    gone = [f"carnac-{ids.new_id()}-merge", f"carnac-staging-{ids.new_id()}"]
    kept = [f"carnac-{others.new_id()}", f"carnac-staging-{others.new_id()}", f"x-{ids.new_id()}"]
    for name in [*gone, *kept]:
        (tmp_path / name / "deep").mkdir(parents=True)
    assert remove_scratch(MARK) == 2
    assert [(tmp_path / name).exists() for name in [*gone, *kept]] == [False] * 2 + [True] * 3
