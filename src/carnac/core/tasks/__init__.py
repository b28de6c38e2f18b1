"""Tasks: what should be done, kept until it is done; attempts: tries at doing it. Decisions only."""
