"""The program that `spark-submit` runs for an attempt; in a folder of its own, which Python searches first."""
