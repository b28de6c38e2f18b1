"""A store on a directory of the test's own, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from carnac.store import Store
from tests.support.clock import FakeClock, SequentialIds
from tests.support.stores import open_local_store
from tests.unit.store.events import HASTY, NOW_MS, StampedPipeline, fast_folder

OpenStore = Callable[..., Store]


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as name:
        yield Path(name)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW_MS)


@pytest.fixture
def open_store(folder: Path, clock: FakeClock) -> Iterator[OpenStore]:
    """Open another handle of the one store of the test, as another process would."""
    ids = SequentialIds()
    with ExitStack() as handles:

        def open_one(*, pipeline: type[StampedPipeline] = StampedPipeline, **more: Any) -> Store:
            settings = HASTY.model_copy(update=more.pop("settings", {}))
            opened = open_local_store(
                more.pop("folder", folder),
                clock=clock,
                ids=ids,
                settings=settings,
                pipeline=lambda storage: pipeline(storage, clock=clock, ids=ids),
                **more,
            )
            handles.callback(opened.close)
            return opened

        yield open_one


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()
