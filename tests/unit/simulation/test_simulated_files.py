"""The simulated disk as a file system: what it does not do, it refuses."""

from __future__ import annotations

import pytest

from carnac.errors import Invalid
from carnac.simulation.cluster.storage import ROOT, SimulatedFiles


def test_a_file_that_is_opened_for_writing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedFiles, "disk", None, raising=False)
    with pytest.raises(Invalid, match=r"^a/b opens for reading only, not as 'wb'; use pipe_file$"):
        SimulatedFiles().open(f"{ROOT}/a/b", "wb")
