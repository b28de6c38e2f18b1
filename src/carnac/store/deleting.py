"""The texts of deletions by predicate."""

from __future__ import annotations

from carnac.core.intervals import MAX_MS, MIN_MS, Interval, format_ms


def within(predicate: str, interval: Interval) -> str:
    """Return the predicate inside of the interval and false outside of it, whatever the predicate says."""
    bounds = []
    if interval.start_ms > MIN_MS:
        bounds.append(f"__time >= TIMESTAMPTZ '{format_ms(interval.start_ms)}'")
    if interval.end_ms < MAX_MS:
        bounds.append(f"__time < TIMESTAMPTZ '{format_ms(interval.end_ms)}'")
    inside = " AND ".join(bounds) or "TRUE"
    return f"CASE WHEN {inside} THEN (\n{predicate}\n) ELSE FALSE END"


def describe(predicate: str, interval: Interval | None) -> str:
    """Return what a deletion does, for the log."""
    return f"delete where {predicate}" + ("" if interval is None else f" in {interval}")
