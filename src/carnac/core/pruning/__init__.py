"""Which segments may hold a row that matches: conditions, statistics, partitions. Never less than is certain."""
