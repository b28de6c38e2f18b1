"""Waiting for what other processes do: by looking, for there is nothing to be told by."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 90.0
"""For a machine that is busy with other things."""
PERIOD_S = 0.05


def until(
    condition: Callable[[], Any],
    what: str,
    *,
    patience_s: float = PATIENCE_S,
    period_s: float = PERIOD_S,
) -> Any:
    """Return the first answer that is true.

    Args:
        what: The test fails if it never saw this.
        period_s: Between two looks.
    """
    end, pause = time.monotonic() + patience_s, threading.Event()
    while not (answer := condition()):
        assert time.monotonic() < end, f"never saw {what}"
        pause.wait(period_s)
    return answer
