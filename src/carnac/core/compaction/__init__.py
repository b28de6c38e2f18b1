"""Compaction: what should be folded, when, and into what. Pure."""
