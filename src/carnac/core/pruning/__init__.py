"""The segments that may hold a matching row, by conditions, statistics and partitions. No such segment is left out."""
