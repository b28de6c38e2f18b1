"""Estimates of sketches, read by Apache DataSketches alone."""

from __future__ import annotations

import datasketches as ds


def estimate_hll(state: bytes) -> float:
    """Return the estimated number of distinct values."""
    return float(ds.hll_sketch.deserialize(state).get_estimate())


def estimate_theta(state: bytes) -> float:
    """Return the estimated number of distinct values."""
    return float(ds.compact_theta_sketch.deserialize(state).get_estimate())


def count_quantiles(state: bytes) -> int:
    """Return how many values the sketch has seen."""
    return int(ds.kll_doubles_sketch.deserialize(state).n)
