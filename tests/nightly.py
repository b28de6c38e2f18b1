"""How long the run may look: all night with `HYPOTHESIS_PROFILE=nightly`, shortly with `fast`, as `make check` does."""

from __future__ import annotations

import os
from collections.abc import Iterable

IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
NIGHT_S = 7_200
"""How long each test may take by night, in place of the five minutes, or what it has of its own, by day."""
IS_FAST = os.environ.get("HYPOTHESIS_PROFILE") == "fast"


def by_day(cases: Iterable[object], each: int) -> list[object]:
    """Return one case of so many, the first among them; by night all."""
    return [*cases][:: 1 if IS_NIGHTLY else each]
