"""The controller over a store of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.overlord.compactor.controlled import Desk
from tests.unit.store.events import fast_folder


@pytest.fixture
def service() -> Iterator[Desk]:
    with fast_folder() as name:
        service = Desk(Path(name))
        yield service
        service.close()
