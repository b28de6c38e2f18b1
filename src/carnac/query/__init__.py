"""SQL over segments: parse, check, prune, scan, run."""

from carnac.query.engine import QueryEngine

__all__ = ["QueryEngine"]
