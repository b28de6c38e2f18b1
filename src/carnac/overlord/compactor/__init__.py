"""The controller of compaction: it follows the store, and has done what the core decides."""
