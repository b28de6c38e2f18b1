"""What each way of locking costs late rows and compactions, on real Spark tasks; see docs/concepts/locking.md."""
