"""Libraries of frames whose threads begin when they are imported."""

from __future__ import annotations

from typing import Any


def polars() -> Any:
    """Return Polars, for a test that runs: while tests are collected, its threads would be in a process that forks."""
    import polars as frames

    return frames
