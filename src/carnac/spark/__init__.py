"""Spark: its session, its Java, its progress, and functions run over lists of tasks. No rows are looked at here."""
