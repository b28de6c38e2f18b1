"""The format `carnac` of Spark, in any session: `read`, `readStream`, `write` and `writeStream`.

How does a DataFrame of a session that is not Carnac's get into a store, and out of it?

Spark asks a Python data source in processes of its own, none of which lives as long as a query: one plans, others run
the tasks, one commits. So each opens the store for a moment, leases are given for a length of time (`leaseMinutes`)
and all that one process knows for another is in what Spark pickles.

- `source` is what Spark calls, and `doors` what it does: check the `options`, and make readers and writers.
- `reading`: a revision is pinned when the DataFrame is made; its segments are found and shared out when it is first
  run; a task reads those of its partition as rewrites read theirs.
- `following`: a query that follows a datasource gets what is there, then what each commit brings (`core/log/feed`);
  its offset is a revision, on which it holds a lease.
- `writing`: the load begins when it is planned; each task writes segments of its rows by the functions of an append;
  the driver publishes them in one commit.
"""
