"""SQL over segments: parse, check, prune, scan, run."""

from carnac.query.engine import DuckDbQueryEngine

__all__ = ["DuckDbQueryEngine"]
