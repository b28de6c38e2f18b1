"""`memory://`: an empty store of this process, of which nothing is left."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from carnac.metadata import open_metadata
from tests.logs import append, day, segment
from tests.support.clock import FakeClock, SequentialIds

NOW_MS = 1_400_000_000_123


def test_it_is_empty_made_now_and_gone_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(2):
        store = open_metadata("memory://", clock=FakeClock(NOW_MS), ids=SequentialIds())
        assert (store.head().revision, store.head().at_ms) == (0, NOW_MS)
        append(store, segment("a", day(1)))
        assert store.check() == ()
        assert [*tmp_path.glob("carnac-*/metadata.db")]
        store.close()
        assert [*tmp_path.rglob("metadata.db*")] == []
