"""Commands that run for others, what they run, and who holds what meanwhile."""
