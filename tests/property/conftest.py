"""What laws of queries have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from carnac.deep_storage.local import LocalDeepStorage

if TYPE_CHECKING:
    from tests.property.test_query_laws import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from tests.property.test_query_laws import World

    made = World(LocalDeepStorage(tmp_path_factory.mktemp("laws")))
    yield made
    made.close()
