"""Tasks: work that is kept until it is done. Attempts: tries at doing it. Decisions only."""
