"""The commands of compaction."""
