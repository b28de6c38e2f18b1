"""Rows of a query on their way out: as text, as JSON, as files, one batch at a time."""
