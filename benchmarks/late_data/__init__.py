"""The cost of each way of locking to late rows and compactions, on real Spark tasks; see docs/concepts/locking.md."""
