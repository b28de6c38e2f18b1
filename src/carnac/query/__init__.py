"""SQL over the segments of one revision, on DuckDB.

What happens to a statement? DuckDB's parser makes a tree of it (`syntax`), in which `dialect` puts DuckDB's functions
in the place of Druid's. `checking` lets pass what is known to be harmless. `planning` finds its tables and conditions
(`relations`, `conditions`), takes the segments that may match, and makes a view on their files of each table (`scans`).
`engine` prints the tree over these views, and `running` has DuckDB run that within memory and time.

What makes it fast the second time? `plans` remembers plans, `hot` keeps segments decoded in memory, `keeping` keeps
partial results. `distributed` splits a statement for servers; `spark_sql` prints it for Spark.
"""

from carnac.query.engine import QueryEngine

__all__ = ["QueryEngine"]
